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

/* The check of an encoding, where plans are checked at all. */
#define ES_CHECK(check) (ES_TRUST_PLAN ? NULL : (check))

extern const es_encoding es_encoding_dense, es_encoding_bitmask,
    es_encoding_bsr, es_encoding_nm, es_encoding_delta_csr, es_encoding_lanes;

/* Little-endian u16 number `at` of an index. */
static inline uint32_t es_index_u16(const uint8_t *index, uint32_t at)
{
    const uint8_t *two = index + 2 * (size_t)at;
    return (uint32_t)two[0] | (uint32_t)two[1] << 8;
}

/* Bits of a position among m columns; 0: there is no such m. */
static inline uint32_t es_position_bits(uint32_t m)
{
    return m == 2 ? 1 : m == 4 ? 2 : m == 8 ? 3 : m == 16 ? 4 : 0;
}

/* Position number `at` of the bit string that starts at `string`. */
static inline uint32_t es_index_position(const uint8_t *string, uint32_t at,
                                         uint32_t bits)
{
    uint32_t bit = at % 8 * bits, from = bit % 8;
    const uint8_t *byte = string + (at / 8 * bits + bit / 8);
    uint32_t two = (uint32_t)byte[0] >> from;
    if (from + bits > 8) {
        two |= (uint32_t)byte[1] << (8 - from);
    }
    return two & ((1U << bits) - 1);
}

#endif /* ES_ENCODING_H */
