/* The four MAC instructions: geometry and the columns of sparse steps. */
#ifndef ES_NPU_MAC_H
#define ES_NPU_MAC_H

#include "npu/machine.h"

enum { ES_NPU_BATCH = 64 }; /* steps that are decoded at once */

typedef struct es_npu_mac {
    uint32_t lanes, vl, positions, cols, row;
    int64_t x_stride, row_pitch, col_pitch;
    int32_t zero;
    uint32_t steps;
    es_npu_view weights, x;
} es_npu_mac;

/* What all four have: registers, and the uses of streams b and c. x is read in
 * `x_bytes` bytes at each of `x_positions` positions XSTRIDE apart, for every
 * column. */
es_npu_mac es_npu_mac_of(es_npu *npu, uint32_t weight_bytes,
                         uint32_t x_positions, uint32_t x_bytes);

/* Where column k stands. */
static inline int64_t es_npu_column(const es_npu_mac *mac, uint32_t k)
{
    return k < mac->row
               ? k * mac->col_pitch
               : k / mac->row * mac->row_pitch + k % mac->row * mac->col_pitch;
}

/* The column numbers of a MACB, batch by batch. */
typedef struct es_npu_columns_iter {
    es_npu_format format;
    es_npu_view index;
    uint32_t cols, step, at; /* at: the next bit of a mask or of positions */
} es_npu_columns_iter;

/* false: a bit mask that has not `steps` bits, or one beyond the columns. */
bool es_npu_columns_begin(es_npu_columns_iter *iter, uint32_t steps);
/* The next `count` column numbers, whatever they are. */
void es_npu_columns_next(es_npu_columns_iter *iter, uint32_t count,
                         uint32_t *column);

/* Slots of L lanes: `issued` products, the others idle. */
void es_npu_mac_count(es_npu *npu, uint64_t slots, uint64_t issued);
void es_npu_mac_take(es_npu *npu, uint64_t cycles);

#endif /* ES_NPU_MAC_H */
