/* A Mac step whose work is the same in every column, decoded once for all. */
#ifndef ES_REGULAR_H
#define ES_REGULAR_H

#include "exec/exec.h"

/* Its weights are one row group, and its one branch takes all rows in the order
 * that they are stored in; input and output are NWC, biases FOLDED. A Requant
 * comes first, rounding twice, then perhaps an Add of a tensor that is NWC too,
 * with a value for each. */
typedef struct es_regular {
    const es_geometry *geometry;
    es_row_group group;
    const int32_t *bias;
    uint32_t columns; /* of the output */
    uint32_t patch;   /* K': kernel_h * kernel_w * in_c */
    bool in_place;    /* patches stand in the input: it need not be gathered */
    es_reader input;
    es_writer output;
    es_stage requant;
    es_stage add;      /* kind 0: there is none */
    es_reader operand; /* of the Add; may stand where the output stands */
    uint8_t *scratch;
    uint32_t scratch_bytes; /* at least those of PLAN_FORMAT.md section 8 */
} es_regular;

/* Whether the step is one. */
bool es_regular_view(const es_exec *x, es_regular *view);

/* The patch of an output column, [K'] int8: in the input, or gathered at
 * `to`. */
const int8_t *es_regular_patch(const es_regular *step, uint32_t column,
                               int8_t *to);

/* Run the whole step, if it is one and there is a kernel that can; false: and
 * nothing is done. */
bool es_regular_run(const es_exec *x);

#endif /* ES_REGULAR_H */
