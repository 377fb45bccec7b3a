/* NM: n weights of every m consecutive columns, with their positions. */
#include "weights/encoding.h"

static bool ascending(const es_row_group *group, const uint8_t *row,
                      uint32_t per_row, uint32_t bits)
{
    for (uint32_t at = 0; at < per_row; at++) {
        if (at % group->n != 0 && es_index_position(row, at, bits) <=
                                      es_index_position(row, at - 1, bits)) {
            return false;
        }
    }
    return true;
}

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    uint32_t n = group->n, m = group->m;
    if (es_position_bits(m) == 0 || n < 1 || n >= m || cols % m != 0) {
        return 55;
    }
    uint32_t bits = es_position_bits(m);
    uint64_t per_row = (uint64_t)(cols / m) * n;
    uint64_t bytes = (per_row * bits + 7) / 8;
    if (group->values.count != group->row_count * per_row ||
        group->index.count != group->row_count * bytes) {
        return 55;
    }
    for (uint32_t r = 0; r < group->row_count; r++) {
        const uint8_t *row = group->index.data + (size_t)r * bytes;
        uint32_t used = (uint32_t)(per_row * bits % 8);
        if (!ascending(group, row, (uint32_t)per_row, bits) ||
            (used != 0 && row[bytes - 1] >> used != 0)) {
            return 55;
        }
    }
    return 0;
}

/* left: weights of the row to come. */
static void begin_rows(es_weight_iter *it)
{
    uint32_t per_row = it->cols / it->group.m * it->group.n;
    uint32_t bits = es_position_bits(it->group.m);
    it->at_index = it->row * ((per_row * bits + 7) / 8);
    it->at_value = it->row * per_row;
    it->left = per_row;
}

static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    uint32_t n = it->group.n, m = it->group.m, bits = es_position_bits(m);
    uint32_t at = it->cols / m * n - it->left;
    uint32_t count = it->left < max ? it->left : max;
    const uint8_t *row = it->group.index.data + it->at_index;
    uint32_t group = at / n * m, in_group = at % n;
    batch->values = it->group.values.data + it->at_value;
    for (uint32_t i = 0; i < count; i++) {
        batch->column[i] = group + es_index_position(row, at + i, bits);
        if (++in_group == n) {
            in_group = 0;
            group += m;
        }
    }
    it->left -= count;
    it->at_value += count;
    return count;
}

const es_encoding es_encoding_nm = {ES_CHECK(check), begin_rows, next};
