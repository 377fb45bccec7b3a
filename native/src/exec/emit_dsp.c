/* Scaling to int8 with SMMULR. */
#include "exec/dsp.h"
#include "exec/kernels.h"
#include "fixedpoint.h"

/* Exact for |v| < 2^30 and 1 <= right <= MOST_RIGHT: SMMULR of 2 v is the first
 * rounding; the second, a half away from zero, is a half up after 1 is taken
 * from what is negative; the zero point is added before the shift. */
enum { MOST_RIGHT = 20 };

/* What all columns of a channel are scaled with. */
typedef struct scaling {
    int32_t multiplier, add, low, high;
    int right;
} scaling;

/* The sign bit of the result: |v| >= 2^30. */
static inline uint32_t too_large(int32_t v)
{
    return (uint32_t)v ^ (uint32_t)v << 1;
}

static inline int32_t scaled(const scaling *by, int32_t v, bool full)
{
    v = es_dsp_smmulr(2 * v, by->multiplier);
    v = (v + (v >> 31) + by->add) >> by->right;
    return full ? es_dsp_to_int8(v) : es_clamp(v, by->low, by->high);
}

/* value[p * ES_TILE_CHANNELS] of each column in place, as the words of the
 * format have it. */
static __attribute__((noinline)) void row_slowly(const es_stage *stage,
                                                 int32_t *value,
                                                 uint32_t columns,
                                                 int32_t multiplier, int shift)
{
    for (uint32_t p = 0; p < columns; p++, value += ES_TILE_CHANNELS) {
        int32_t v =
            stage->zero_point + es_mbqm_double(*value, multiplier, shift);
        *value = es_clamp(v, stage->qmin, stage->qmax);
    }
}

static inline void row(const es_stage *stage, int32_t *value, uint32_t columns,
                       int32_t multiplier, int shift)
{
    uint32_t large = 0;
#pragma GCC unroll 4
    for (uint32_t p = 0; p < columns; p++) {
        large |= too_large(value[p * ES_TILE_CHANNELS]);
    }
    if ((uint32_t)(-1 - shift) >= MOST_RIGHT || large >> 31) {
        row_slowly(stage, value, columns, multiplier, shift);
        return;
    }
    scaling by = {multiplier,
                  stage->zero_point * (1 << -shift) + (1 << (-shift - 1)),
                  stage->qmin, stage->qmax, -shift};
#pragma GCC unroll 4
    for (uint32_t p = 0; p < columns; p++) {
        int32_t *v = value + p * ES_TILE_CHANNELS;
        *v = scaled(&by, *v, false);
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
        int32_t *value = &tile->value[0][r];
        int32_t by = stage->multiplier.data[each ? channel : 0];
        int shift = stage->shift.data[shifts ? channel : 0];
        if (tile->columns == ES_TILE_COLUMNS) {
            row(stage, value, ES_TILE_COLUMNS, by, shift);
        } else {
            row(stage, value, tile->columns, by, shift);
        }
    }
    return true;
}

/* Tile rows to their places; written out for one and for four columns. */
static inline void finish(const es_finish *to, es_tile *tile, uint32_t columns,
                          bool full)
{
    const es_stage *stage = &to->stage;
    const int32_t *multiplier = stage->multiplier.data;
    const int8_t *shift = stage->shift.data;
    uint32_t each = stage->multiplier.count > 1 ? ~0U : 0; /* masks of at */
    uint32_t shifts = stage->shift.count > 1 ? ~0U : 0;
    __asm("" : "+r"(each), "+r"(shifts)); /* and not two cases of everything */
    const int32_t zero_point = stage->zero_point;
    int8_t *column[ES_TILE_COLUMNS];
    memcpy(column, to->column, sizeof column);
    scaling by = {0, 0, stage->qmin, stage->qmax, 0};
    const uint16_t *channel = tile->channel, *end = channel + tile->channels;
    for (int32_t *value = tile->value[0]; channel != end; value++) {
        uint32_t at = *channel++, large = 0;
        int32_t v[ES_TILE_COLUMNS];
        by.multiplier = multiplier[each & at];
        by.right = -shift[shifts & at];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < columns; p++) {
            v[p] = value[p * ES_TILE_CHANNELS];
            large |= too_large(v[p]);
        }
        if ((uint32_t)(by.right - 1) >= MOST_RIGHT || large >> 31) {
            row_slowly(stage, value, columns, by.multiplier, -by.right);
            for (uint32_t p = 0; p < columns; p++) {
                column[p][at] = (int8_t)value[p * ES_TILE_CHANNELS];
            }
            continue;
        }
        by.add = (2 * zero_point + 1) * (1 << (by.right - 1));
#pragma GCC unroll 4
        for (uint32_t p = 0; p < columns; p++) {
            column[p][at] = (int8_t)scaled(&by, v[p], full);
        }
    }
}

bool es_finish__dsp(const es_finish *to, es_tile *tile)
{
    const es_stage *stage = &to->stage;
    bool full = stage->qmin == INT8_MIN && stage->qmax == INT8_MAX;
    if (stage->rounding != ES_ROUND_DOUBLE) {
        return false;
    }
    if (tile->columns == ES_TILE_COLUMNS && full) {
        finish(to, tile, ES_TILE_COLUMNS, true);
    } else if (tile->columns == 1) {
        finish(to, tile, 1, false);
    } else {
        finish(to, tile, tile->columns, false);
    }
    return true;
}

/* ---- the sum of two tensors ---- */

/* A factor of an Add, 0 <= right <= 30: half and sign are 0 where nothing is
 * shifted, so that nothing is rounded. */
typedef struct factor {
    int32_t multiplier, half, sign;
    int right;
} factor;

static factor factor_of(const es_scaled *by)
{
    int right = -by->shift;
    factor f = {by->multiplier, right ? 1 << (right - 1) : 0, right ? -1 : 0,
                right};
    return f;
}

/* es_mbqm_double of half of v. */
static inline int32_t times(int32_t v, const factor *by)
{
    v = es_dsp_smmulr(v, by->multiplier);
    return (v + (v >> 31 & by->sign) + by->half) >> by->right;
}

static bool only_right(const es_scaled *by)
{
    return by->shift <= 0 && by->shift >= -30;
}

/* Inputs less their zero points are below 2^8, so with at most MOST_LEFT more
 * bits what is multiplied is below 2^30. */
enum { MOST_LEFT = 20 };

bool es_add__dsp(const es_stage *stage, const es_part *part,
                 const int8_t *operand, const ptrdiff_t *column,
                 uint32_t channel_stride)
{
    es_tile *tile = part->tile;
    if (stage->rounding != ES_ROUND_DOUBLE || stage->negate_value ||
        stage->negate_other || stage->left_shift > MOST_LEFT ||
        !only_right(stage->value) || !only_right(stage->other) ||
        !only_right(stage->out)) {
        return false;
    }
    const factor value = factor_of(stage->value);
    const factor other = factor_of(stage->other);
    const factor out = factor_of(stage->out);
    const int32_t unit = 2 << stage->left_shift;
    const int32_t value_zero = stage->value->zero_point;
    const int32_t other_zero = stage->other->zero_point;
    const int32_t out_zero = stage->out->zero_point;
    for (uint32_t p = 0; p < tile->columns; p++) {
        const int8_t *from = operand + column[p];
        int32_t *v = &tile->value[p][part->from];
        const uint16_t *channel = tile->channel + part->from;
        for (const uint16_t *end = tile->channel + part->to; channel != end;) {
            uint32_t at = (*channel++ - part->first_channel) * channel_stride;
            int32_t sum = times((*v - value_zero) * unit, &value) +
                          times((from[at] - other_zero) * unit, &other);
            sum = out_zero + times(2 * sum, &out);
            *v++ = es_clamp(sum, stage->qmin, stage->qmax);
        }
    }
    return true;
}
