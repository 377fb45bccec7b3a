/* DELTA_CSR: per row a count, then distances from column to column. */
#include "weights/encoding.h"

/* Delta number `at` after the counts; with 4 bits, low half of a byte first. */
static uint32_t delta(const es_row_group *group, uint32_t at)
{
    const uint8_t *deltas = group->index.data + 2 * (size_t)group->row_count;
    return group->index_bits == 8
               ? deltas[at]
               : (uint32_t)deltas[at / 2] >> at % 2 * 4 & 15U;
}

/* Rows start on bytes. */
static uint32_t row_start(const es_row_group *group, uint32_t at)
{
    return group->index_bits == 8 ? at : at + at % 2;
}

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    uint64_t counts = 2 * (uint64_t)group->row_count;
    if ((group->index_bits != 4 && group->index_bits != 8) ||
        group->index.count < counts) {
        return 56;
    }
    uint64_t stored = 0, bytes = counts;
    for (uint32_t r = 0; r < group->row_count; r++) {
        uint32_t count = es_index_u16(group->index.data, r);
        stored += count;
        bytes += group->index_bits == 8 ? count : (count + 1) / 2;
    }
    if (stored != group->values.count || bytes != group->index.count) {
        return 56;
    }
    uint32_t at = 0;
    for (uint32_t r = 0; r < group->row_count; r++) {
        uint32_t count = es_index_u16(group->index.data, r);
        uint64_t col = 0; /* of the next weight, if its delta were 0 */
        for (uint32_t i = 0; i < count; i++, at++) {
            col += delta(group, at);
            if (col >= cols) {
                return 56;
            }
            col++;
        }
        if (row_start(group, at) != at && delta(group, at) != 0) {
            return 56;
        }
        at = row_start(group, at);
    }
    return 0;
}

/* at_index: deltas read so far; left: weights of the row to come; col: of the
 * next weight, if its delta is 0. */
static void begin_rows(es_weight_iter *it)
{
    it->at_index = row_start(&it->group, it->at_index);
    it->left = es_index_u16(it->group.index.data, it->row);
    it->col = 0;
}

static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    const es_row_group *group = &it->group;
    uint32_t count = it->left < max ? it->left : max, col = it->col;
    uint32_t at = it->at_index;
    const uint8_t *deltas = group->index.data + 2 * (size_t)group->row_count;
    batch->values = group->values.data + it->at_value;
    if (group->index_bits == 8) {
        for (uint32_t i = 0; i < count; i++) {
            col += deltas[at + i];
            batch->column[i] = col++;
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            col += (uint32_t)deltas[(at + i) / 2] >> (at + i) % 2 * 4 & 15U;
            batch->column[i] = col++;
        }
    }
    it->col = col;
    it->left -= count;
    it->at_index += count;
    it->at_value += count;
    return count;
}

const es_encoding es_encoding_delta_csr = {ES_CHECK(check), begin_rows, next};
