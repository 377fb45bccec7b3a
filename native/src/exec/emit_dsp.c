/* Scaling to int8 with SMMULR, and bytes to their places. */
#include "exec/dsp.h"
#include "exec/kernels.h"
#include "fixedpoint.h"

/* Exact for |v| < 2^30 and 1 <= right <= MOST_RIGHT: SMMULR of 2 v is the first
 * rounding; the second, a half away from zero, is a half up after 1 is taken
 * from what is negative; the zero point is added before the shift. */
enum { MOST_RIGHT = 20 };

static bool all_small(const es_tile *tile, uint32_t r)
{
    uint32_t top = 0;
    for (uint32_t p = 0; p < tile->columns; p++) {
        uint32_t v = (uint32_t)tile->value[p][r];
        top |= v ^ v << 1;
    }
    return top >> 31 == 0;
}

static void row(const es_stage *stage, es_tile *tile, uint32_t r,
                int32_t multiplier, int shift)
{
    int32_t zero_point = stage->zero_point;
    int32_t low = stage->qmin, high = stage->qmax;
    if (shift > -1 || shift < -MOST_RIGHT || !all_small(tile, r)) {
        for (uint32_t p = 0; p < tile->columns; p++) {
            int32_t v = zero_point +
                        es_mbqm_double(tile->value[p][r], multiplier, shift);
            tile->value[p][r] = es_clamp(v, low, high);
        }
        return;
    }
    int32_t add = zero_point * (1 << -shift) + (1 << (-shift - 1));
    bool full = low == INT8_MIN && high == INT8_MAX;
    for (uint32_t p = 0; p < tile->columns; p++) {
        int32_t v = es_dsp_smmulr(2 * tile->value[p][r], multiplier);
        v = (v + (v >> 31) + add) >> -shift;
        tile->value[p][r] = full ? es_dsp_to_int8(v) : es_clamp(v, low, high);
    }
}

bool es_requant__dsp(const es_stage *stage, const es_part *part)
{
    if (stage->rounding != ES_ROUND_DOUBLE) {
        return false;
    }
    es_tile *tile = part->tile;
    bool each = stage->multiplier.count > 1, shifts = stage->shift.count > 1;
    for (uint32_t r = part->from; r < part->to; r++) {
        uint32_t channel = tile->channel[r] - part->first_channel;
        row(stage, tile, r, stage->multiplier.data[each ? channel : 0],
            stage->shift.data[shifts ? channel : 0]);
    }
    return true;
}

bool es_store__dsp(const es_part *part, int8_t *const *column)
{
    const es_tile *tile = part->tile;
    for (uint32_t p = 0; p < tile->columns; p++) {
        int8_t *to = column[p] - part->first_channel;
        for (uint32_t r = part->from; r < part->to; r++) {
            to[tile->channel[r]] = (int8_t)tile->value[p][r];
        }
    }
    return true;
}
