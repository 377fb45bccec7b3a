/* The kinds of kernels that exec_kernels.inc lists. */
#ifndef ES_KERNELS_H
#define ES_KERNELS_H

#include "exec/dot.h"
#include "exec/regular.h"

/* All columns of a step, from its input to its output. Scratch has room for the
 * patches of four columns (es_regular_patch), and for more where the plan's
 * target asks for it. */
typedef bool es_regular_kernel(const es_regular *step);
/* es_dot_row for `rows` rows of `cols` weights, one after another, whole. */
typedef bool es_dot_rows_kernel(const es_dot_job *job, uint32_t r,
                                uint32_t rows, const int8_t *w, uint32_t cols);
/* Tile rows r, r + 1, ... += a batch, where there is one convolution group. */
typedef bool es_dot_batch_kernel(const es_dot_job *job, uint32_t r,
                                 const es_batch *batch);
/* A Requant on a part, in place. */
typedef bool es_requant_kernel(const es_stage *stage, const es_part *part);
/* An Add of the operand's columns, at `operand` + column[p]; channels are
 * channel_stride bytes apart, 0: there is one. */
typedef bool es_add_kernel(const es_stage *stage, const es_part *part,
                           const int8_t *operand, const ptrdiff_t *column,
                           uint32_t channel_stride);
/* A Requant, from the tile to where its columns' first channels stand. */
typedef bool es_finish_kernel(const es_finish *finish, es_tile *tile);
/* sum[c] += x[p][c] of all p < columns, less `zeros`; c < channels. */
typedef bool es_sum_kernel(int32_t *sum, const int8_t *const *x,
                           uint32_t columns, int32_t zeros, uint32_t channels);

#define ES_REGULAR_KERNEL(name)   es_regular_kernel name;
#define ES_DOT_ROWS_KERNEL(name)  es_dot_rows_kernel name;
#define ES_DOT_BATCH_KERNEL(name) es_dot_batch_kernel name;
#define ES_REQUANT_KERNEL(name)   es_requant_kernel name;
#define ES_ADD_KERNEL(name)       es_add_kernel name;
#define ES_FINISH_KERNEL(name)    es_finish_kernel name;
#define ES_SUM_KERNEL(name)       es_sum_kernel name;
#include "exec/exec_kernels.inc"

#endif /* ES_KERNELS_H */
