/* BITMASK: one bit per weight of the matrix, then the stored ones. */
#include "weights/encoding.h"

static uint32_t row_bytes(uint32_t cols)
{
    return cols / 8 + (cols % 8 != 0);
}

static uint32_t ones(uint8_t byte)
{
    uint32_t count = 0;
    for (; byte; byte &= (uint8_t)(byte - 1)) {
        count++;
    }
    return count;
}

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    uint32_t bytes = row_bytes(cols), stored = 0;
    if (group->index.count != (uint64_t)group->row_count * bytes) {
        return 53;
    }
    for (uint32_t i = 0; i < group->index.count; i++) {
        uint8_t byte = group->index.data[i];
        bool last = i % bytes == bytes - 1;
        if (last && cols % 8 != 0 && byte >> cols % 8 != 0) {
            return 53;
        }
        stored += ones(byte);
    }
    return stored == group->values.count ? 0 : 53;
}

static void begin_rows(es_weight_iter *it)
{
    it->at_index = it->row * row_bytes(it->cols);
    it->left = 0;
    it->col = 0;
}

static uint32_t lowest_bit(uint32_t bits)
{
#if defined(__GNUC__)
    return (uint32_t)__builtin_ctz(bits);
#else
    uint32_t at = 0;
    for (; !(bits & 1); bits >>= 1) {
        at++;
    }
    return at;
#endif
}

/* Bits of the 32 columns from `col`, which is a multiple of 32. */
static uint32_t load_bits(const es_weight_iter *it, uint32_t col)
{
    const uint8_t *bytes = it->group.index.data + it->at_index + col / 8;
    uint32_t count = row_bytes(it->cols) - col / 8, bits = 0;
    if (count >= 4) { /* one load */
        return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
               (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    }
    for (uint32_t i = 0; i < count; i++) {
        bits |= (uint32_t)bytes[i] << 8 * i;
    }
    return bits;
}

/* left: bits of the columns before `col` that have not been given out. */
static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    uint32_t count = 0, bits = it->left, col = it->col;
    batch->values = it->group.values.data + it->at_value;
    while (count < max) {
        if (bits) {
            batch->column[count++] = col - 32 + lowest_bit(bits);
            bits &= bits - 1;
        } else if (col < it->cols) {
            bits = load_bits(it, col);
            col += 32;
        } else {
            break;
        }
    }
    it->left = bits;
    it->col = col;
    it->at_value += count;
    return count;
}

const es_encoding es_encoding_bitmask = {ES_CHECK(check), begin_rows, next};
