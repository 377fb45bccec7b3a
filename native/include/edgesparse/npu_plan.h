/* The program for the emulated NPU that a plan carries (PLAN_FORMAT.md section
 * 11). Host only, as npu.h. */
#ifndef EDGESPARSE_NPU_PLAN_H
#define EDGESPARSE_NPU_PLAN_H

#include "edgesparse/edgesparse.h"
#include "edgesparse/npu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The program of an opened plan, its blobs where they stand in the plan. What
 * its instructions do has not been checked: es_npu_init does that.
 *
 * blobs     [capacity], filled as far as the program has any; must outlive it
 * Returns ES_OK, ES_ERR_NO_NPU, or ES_ERR_ARG (also: too few blobs). */
ES_MUST_CHECK es_status es_npu_program_of(const es_plan *plan,
                                          es_npu_blob *blobs, uint32_t capacity,
                                          es_npu_program *program);

#ifdef __cplusplus
}
#endif
#endif /* EDGESPARSE_NPU_PLAN_H */
