/* Weights in their encodings: one iterator serves every operator.
 *
 * A group is walked row block by row block (one row; block_rows rows
 * for BSR, a group of lanes for LANES),
 * each row block as a list of stored blocks in ascending columns, one at a
 * time or in batches. */
#ifndef ES_WEIGHTS_H
#define ES_WEIGHTS_H

#include "plan/view.h"

enum {
    /* The most rows a row block can have. */
    ES_MAX_BLOCK_ROWS = 16,
    /* The most blocks a batch can have: column numbers worth 128 bytes of
     * stack; every batch costs about as much as ten multiplications. */
    ES_MAX_BATCH = 32
};

/* A stored block: values[r * stride + c] is the weight of row (first row of
 * the row block + r) and column col + c, r < rows, c < cols. */
typedef struct es_block {
    uint32_t rows, col, cols, stride;
    const int8_t *values;
} es_block;

/* Stored blocks of the current row block, all of one size: block i stands at
 * column[i], its weights at values + i * block_stride, as in es_block. */
typedef struct es_batch {
    uint32_t count, rows, cols, row_stride, block_stride;
    const int8_t *values;
    uint32_t column[ES_MAX_BATCH];
} es_batch;

typedef struct es_weight_iter {
    es_row_group group;
    uint32_t cols; /* of the whole matrix */
    uint32_t row;  /* first row of the current row block, in the group */
    uint32_t rows; /* rows of it that exist */
    /* private to the encoding: */
    uint32_t at_value, at_index, left, col;
} es_weight_iter;

/* Start before the first row block of a checked group. */
void es_weights_begin(es_weight_iter *it, const es_row_group *group,
                      uint32_t cols);
/* Go to the next row block; false: there is none. Blocks of the current one
 * that nobody asked for are skipped. */
bool es_weights_next_rows(es_weight_iter *it);
/* Next stored block of the current row block; false: there is none. */
bool es_weights_next(es_weight_iter *it, es_block *block);
/* Next stored blocks of the current row block, at least one; false: there is
 * none. */
bool es_weights_next_batch(es_weight_iter *it, es_batch *batch);

/* Check what section 7 of PLAN_FORMAT.md says of the group's bytes.
 * Returns 0 or the number of the invariant that is broken (52 to 58). */
uint16_t es_weights_check(const es_row_group *group, uint32_t cols);

#endif /* ES_WEIGHTS_H */
