/* Scaling to int8 with SMMULR. */
#include "exec/dsp.h"
#include "exec/kernels.h"
#include "fixedpoint.h"

/* Where this is exact, and why: finish_dsp.c; here also |v| < 2^30. */
enum { MOST_RIGHT = 20 };

/* The sign bit of the result: |v| >= 2^30. */
static inline uint32_t too_large(int32_t v)
{
    return (uint32_t)v ^ (uint32_t)v << 1;
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
        int32_t shift = stage->shift.data[shifts ? channel : 0];
        bool simple = (uint32_t)(-1 - shift) < MOST_RIGHT;
        int32_t add =
            simple ? (2 * stage->zero_point + 1) * (1 << (-1 - shift)) : 0;
        for (uint32_t p = 0; p < tile->columns; p++) {
            int32_t v = *value;
            if (simple && !(too_large(v) >> 31)) {
                int32_t at = es_dsp_smmlar(2 * v, by, add);
                v = (at + (v >> 31)) >> -shift;
            } else {
                v = stage->zero_point + es_mbqm_double(v, by, shift);
            }
            *value = es_clamp(v, stage->qmin, stage->qmax);
            value += ES_TILE_CHANNELS;
        }
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
