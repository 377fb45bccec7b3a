/* The Mac kernels of Helium. */
#ifndef ES_MVE_MAC_H
#define ES_MVE_MAC_H

#include "exec/mve.h"
#include "exec/regular.h"

/* One row group that has all rows, in order. */
typedef struct es_mve_mac {
    const int8_t *w;
    const int32_t *bias;
    uint32_t rows, cols;
} es_mve_mac;

/* to[p][row] = the scaled sum of row and patch x[p], p < columns. */
void es_mve_dense(const es_mve_mac *mac, const es_mve_scale *by,
                  const int8_t *const *x, int8_t *const *to, uint32_t columns);

/* Whether es_mve_blocks does these blocks. */
bool es_mve_takes_blocks(const es_row_group *group);

/* The same of blocks. Where those have four columns, x[p] is a multiple of 4
 * and has as many bytes as it takes to fill the last of them. */
void es_mve_blocks(const es_row_group *group, const int32_t *bias,
                   const es_mve_scale *by, const int8_t *const *x,
                   int8_t *const *to, uint32_t columns);

/* Depthwise weights, rows * cols bytes, as es_mve_depthwise wants them:
 * channels side by side in sixteens. Returns whether no weight is -128. */
bool es_mve_depthwise_begin(const es_mve_mac *mac, int8_t *to);

/* One column: tap[t] has the channels, which are the rows, of tap t. mac->w is
 * what es_mve_depthwise_begin made, `pairs` what it said. */
void es_mve_depthwise(const es_mve_mac *mac, const es_mve_scale *by, bool pairs,
                      const int8_t *const *tap, int8_t *to);

/* An Add. */
typedef struct es_mve_factor {
    int32_t multiplier, shift;
    int32_t from; /* the zero point, negative, in units */
} es_mve_factor;

typedef struct es_mve_sum {
    es_mve_factor value, other;
    int32_t unit, multiplier, shift;
    es_mve_range to;
} es_mve_sum;

/* false: not an Add that es_mve_add does. */
bool es_mve_add_begin(const es_stage *stage, es_mve_sum *sum);
/* Of n values each; out may be one of the two. */
void es_mve_add(const es_mve_sum *by, const int8_t *value, const int8_t *other,
                int8_t *out, uint32_t n);

#endif /* ES_MVE_MAC_H */
