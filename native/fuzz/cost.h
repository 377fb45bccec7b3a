#ifndef ES_FUZZ_COST_H
#define ES_FUZZ_COST_H

#include "edgesparse/edgesparse.h"

/* About how many multiplications, copies and looks one run takes; never much
 * less than that. A plan may ask for any amount of work: 2^24 columns are
 * allowed. */
double es_plan_cost(const es_plan *plan);

#endif /* ES_FUZZ_COST_H */
