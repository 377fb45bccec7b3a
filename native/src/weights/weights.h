/* Weights in their encodings: one iterator serves every operator.
 *
 * A group is walked row block by row block (one row; block_rows rows for BSR),
 * each row block as a list of stored blocks in ascending columns. */
#ifndef ES_WEIGHTS_H
#define ES_WEIGHTS_H

#include "plan/view.h"

/* The most rows a row block can have. */
enum { ES_MAX_BLOCK_ROWS = 16 };

/* A stored block: values[r * stride + c] is the weight of row (first row of
 * the row block + r) and column col + c, r < rows, c < cols. */
typedef struct es_block {
    uint32_t rows, col, cols, stride;
    const int8_t *values;
} es_block;

typedef struct es_weight_iter {
    es_row_group group;
    uint32_t cols;      /* of the whole matrix */
    uint32_t row;       /* first row of the current row block, in the group */
    uint32_t rows;      /* rows of it that exist */
    /* private to the encoding: */
    uint32_t at_value, at_index, left, col;
} es_weight_iter;

/* Start before the first row block of a checked group. */
void es_weights_begin(es_weight_iter *it, const es_row_group *group,
                      uint32_t cols);
/* Go to the next row block; false: there is none. */
bool es_weights_next_rows(es_weight_iter *it);
/* Next stored block of the current row block; false: there is none. */
bool es_weights_next(es_weight_iter *it, es_block *block);

/* Check what section 7 of PLAN_FORMAT.md says of the group's bytes.
 * Returns 0 or the number of the invariant that is broken (52 to 57). */
uint16_t es_weights_check(const es_row_group *group, uint32_t cols);

#endif /* ES_WEIGHTS_H */
