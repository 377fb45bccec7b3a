/* Columns of stored steps, from the index stream of a MACB. */
#include "npu/mac.h"

static uint32_t ones(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits; bits &= bits - 1) {
        count++;
    }
    return count;
}

bool es_npu_columns_begin(es_npu_columns_iter *iter, uint32_t steps)
{
    iter->step = iter->at = 0;
    if (iter->format.kind != ES_NPU_INDEX_BITMASK) {
        return true;
    }
    uint32_t bytes = (iter->cols + 7) / 8, count = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        count += ones(*es_npu_at(&iter->index, i));
    }
    uint32_t spare = 8 * bytes - iter->cols;
    uint32_t last = *es_npu_at(&iter->index, bytes - 1);
    return count == steps && last >> (8 - spare) == 0;
}

static void from_mask(es_npu_columns_iter *iter, uint32_t count,
                      uint32_t *column)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t k = iter->at++;
        if (*es_npu_at(&iter->index, k / 8) >> k % 8 & 1) {
            column[i++] = k;
        }
    }
}

static void from_positions(es_npu_columns_iter *iter, uint32_t count,
                           uint32_t *column)
{
    const es_npu_format *format = &iter->format;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = 0;
        for (uint32_t b = 0; b < format->bits; b++, iter->at++) {
            uint32_t byte = *es_npu_at(&iter->index, iter->at / 8);
            position |= (byte >> iter->at % 8 & 1) << b;
        }
        column[i] = (iter->step + i) / format->n * format->m + position;
    }
}

void es_npu_columns_next(es_npu_columns_iter *iter, uint32_t count,
                         uint32_t *column)
{
    const es_npu_view *index = &iter->index;
    switch (iter->format.kind) {
    case ES_NPU_INDEX_DENSE:
        for (uint32_t i = 0; i < count; i++) {
            column[i] = iter->step + i;
        }
        break;
    case ES_NPU_INDEX_COLUMNS8:
        for (uint32_t i = 0; i < count; i++) {
            column[i] = *es_npu_at(index, iter->step + i);
        }
        break;
    case ES_NPU_INDEX_COLUMNS16:
        for (uint32_t i = 0; i < count; i++) {
            int64_t at = 2 * (int64_t)(iter->step + i);
            column[i] = *es_npu_at(index, at) |
                        (uint32_t)*es_npu_at(index, at + 1) << 8;
        }
        break;
    case ES_NPU_INDEX_BITMASK:
        from_mask(iter, count, column);
        break;
    default:
        from_positions(iter, count, column);
        break;
    }
    iter->step += count;
}
