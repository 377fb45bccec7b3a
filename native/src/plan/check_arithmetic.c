/* I-40 to I-45 of one stage: no intermediate result leaves its type. */
#include "plan/check.h"

/* What mbqm gives has to take a zero point more and fit int32. */
static const int64_t int32_room = ((int64_t)1 << 31) - 256;

static bool shift_fits(int32_t shift)
{
    return shift >= -31 && shift <= 30;
}

static bool multipliers_fit(es_i32s multiplier, uint32_t channels)
{
    if (multiplier.count != 1 && multiplier.count != channels) {
        return false;
    }
    for (uint32_t i = 0; i < multiplier.count; i++) {
        if (multiplier.data[i] < 0) {
            return false;
        }
    }
    return true;
}

static bool shifts_fit(es_i8s shift, uint32_t channels, int least, int most)
{
    if (shift.count != 1 && shift.count != channels) {
        return false;
    }
    for (uint32_t i = 0; i < shift.count; i++) {
        if (shift.data[i] < least || shift.data[i] > most) {
            return false;
        }
    }
    return true;
}

bool es_scaled_fits(const es_scaled *scaled)
{
    return scaled->multiplier >= 0 && shift_fits(scaled->shift);
}

static bool is_int8(int16_t zero_point)
{
    return zero_point >= INT8_MIN && zero_point <= INT8_MAX;
}

/* I-43: |value| <= most goes into mbqm with this shift. */
static bool room_for(int64_t most, int16_t shift)
{
    return shift <= 0 ? most < int32_room : most << shift < int32_room;
}

static uint16_t check_requant(const es_stage *stage, const es_flow *in)
{
    return multipliers_fit(stage->multiplier, in->channels) &&
                   shifts_fit(stage->shift, in->channels, -31, 30)
               ? 0
               : 40;
}

static uint16_t check_add_single_requant(const es_stage *stage,
                                         const es_flow *in)
{
    /* |acc| < 2^31 and every multiplier < 2^31: the sum in 64 bits is below
     * 2^62 + 255 * 2^31 + 2^61. */
    if (!multipliers_fit(stage->multiplier, in->channels) ||
        !multipliers_fit(stage->other_multiplier, in->channels)) {
        return 40;
    }
    return shifts_fit(stage->shift, in->channels, 1, 62) ? 0 : 44;
}

static uint16_t check_add(const es_stage *stage)
{
    if (!es_scaled_fits(stage->value) || !es_scaled_fits(stage->other) ||
        !es_scaled_fits(stage->out)) {
        return 40;
    }
    if (stage->left_shift > 20 || stage->value->shift > 0 ||
        stage->other->shift > 0 || !is_int8(stage->value->zero_point) ||
        !is_int8(stage->other->zero_point) ||
        !is_int8(stage->out->zero_point)) {
        return 42;
    }
    /* |a|, |b| <= 255 * 2^20 < 2^28, so |a + b| < 2^29. */
    return stage->out->shift <= 0 ? 0 : 43;
}

static uint16_t check_mul(const es_stage *stage)
{
    if (!es_scaled_fits(stage->out)) {
        return 40;
    }
    if (!is_int8(stage->out->zero_point)) {
        return 42;
    }
    return room_for(255 * 255, stage->out->shift) ? 0 : 43;
}

static uint16_t check_mean(const es_stage *stage, const es_flow *in)
{
    if (!es_scaled_fits(stage->out)) {
        return 40;
    }
    if (!is_int8(stage->out->zero_point)) {
        return 42;
    }
    /* |sum| <= 255 * 2^25, shifted by at most 30: fits int64. */
    return room_for((int64_t)255 * es_counted(&stage->running, in->columns),
                    stage->out->shift)
               ? 0
               : 43;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The sum of n taps and half of n, 128.5 * n, fit int32. */
static uint16_t check_average(const es_stage *stage)
{
    const es_window *window = stage->window;
    uint32_t taps = least(window->kernel_h, window->in_h) *
                    least(window->kernel_w, window->in_w);
    return es_counted(&stage->running, taps) <= 1u << 23 ? 0 : 43;
}

static uint16_t check_softmax(const es_stage *stage, const es_flow *in)
{
    int64_t reach;

    /* Up to 4,095 exponentials of at most 2^19 (Q12) are summed in 31 bits. */
    if (in->channels > 4095 || stage->softmax_shift < 0 ||
        stage->softmax_shift > 30 || stage->softmax_diff_min < -255 ||
        stage->softmax_diff_min > 0 || stage->softmax_multiplier < 1 << 30) {
        return 45;
    }
    reach = -(int64_t)stage->softmax_diff_min << stage->softmax_shift;
    return reach < (int64_t)1 << 31 ? 0 : 45;
}

static bool has_range(uint8_t kind)
{
    return kind != ES_STAGE_LUT && kind != ES_STAGE_SOFTMAX;
}

/* I-41; fields a kind of stage does not have are 0 in the view. */
static uint16_t check_common(const es_stage *stage)
{
    if ((has_range(stage->kind) && stage->qmin > stage->qmax) ||
        stage->rounding > ES_ROUND_SINGLE ||
        (stage->kind == ES_STAGE_LUT && stage->table.count != 256)) {
        return 41;
    }
    return 0;
}

uint16_t es_check_arithmetic(const es_stage *stage, const es_flow *in)
{
    uint16_t broken = check_common(stage);
    if (broken != 0) {
        return broken;
    }
    switch (stage->kind) {
    case ES_STAGE_REQUANT:
        return ES_HAS_REQUANT ? check_requant(stage, in) : 0;
    case ES_STAGE_ADD_SINGLE_REQUANT:
        return ES_HAS_ADD_SINGLE_REQUANT ? check_add_single_requant(stage, in)
                                         : 0;
    case ES_STAGE_ADD:
        return ES_HAS_ADD ? check_add(stage) : 0;
    case ES_STAGE_MUL:
        return ES_HAS_MUL ? check_mul(stage) : 0;
    case ES_STAGE_AVG_POOL:
        return ES_HAS_AVG_POOL ? check_average(stage) : 0;
    case ES_STAGE_MEAN:
        return ES_HAS_MEAN ? check_mean(stage, in) : 0;
    case ES_STAGE_SOFTMAX:
        return ES_HAS_SOFTMAX ? check_softmax(stage, in) : 0;
    default: /* Clamp, Lut, MaxPool */
        return 0;
    }
}
