/* What one encoding has to know; each file here defines one es_encoding. */
#ifndef ES_ENCODING_H
#define ES_ENCODING_H

#include "weights/weights.h"

typedef struct es_encoding {
    /* 0, or the invariant that the bytes of the group break. Sizes are
     * untrusted: values.count and index.count are the only truth. */
    uint16_t (*check)(const es_row_group *group, uint32_t cols);
    /* it->row and it->rows are those of a new row block, and the one before
     * has been read to its end: set what is private. */
    void (*begin_rows)(es_weight_iter *it);
    /* Fill values and column of up to `max` blocks, return how many. rows,
     * cols and strides hold those of single weights; change them if not. */
    uint32_t (*next)(es_weight_iter *it, es_batch *batch, uint32_t max);
} es_encoding;

extern const es_encoding es_encoding_dense, es_encoding_bitmask,
    es_encoding_bsr, es_encoding_nm, es_encoding_delta_csr;

/* Little-endian u16 number `at` of an index. */
static inline uint32_t es_index_u16(const uint8_t *index, uint32_t at)
{
    const uint8_t *two = index + 2 * (size_t)at;
    return (uint32_t)two[0] | (uint32_t)two[1] << 8;
}

#endif /* ES_ENCODING_H */
