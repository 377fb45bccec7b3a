/* FIR low pass, decimation, DC blocker, scale: PLAN_FORMAT.md, "Streams". */
#include "stream/stream.h"

#include "fixedpoint.h"

void es_front_end_settle(const es_front_end *front_end,
                         es_front_end_state *state, int16_t x)
{
    for (uint32_t i = 0; i < front_end->taps.count; i++) {
        state->past[i] = x;
    }
    state->steady = 0;
}

/* Newest sample first. Every partial sum fits int32: I-71. */
static int32_t low_pass(const es_front_end *f, const es_front_end_state *state)
{
    const int16_t *tap = f->taps.data;
    int32_t sum = 0;

    const int16_t *newest = state->past + state->next;
    for (const int16_t *x = newest; x != state->past;) {
        sum += *tap++ * *--x;
    }
    for (const int16_t *x = state->past + f->taps.count; x != newest;) {
        sum += *tap++ * *--x;
    }
    return es_round_shift_32(sum, (uint32_t)f->tap_bits - f->fraction_bits);
}

/* y = d - rounded(m, shift); m += y. With |d| <= D, m stays in +-D * 2^shift:
 * m - rounded(m, shift) grows with m, so the largest m leads to
 * D * 2^shift - D + D. That fits int32 (I-71), and y with it. */
static int32_t without_mean(const es_front_end *f, es_front_end_state *state,
                            int32_t d)
{
    int32_t y;
    if (f->dc_shift == 0) {
        return d;
    }
    if (!state->steady) {
        state->mean = d * ((int32_t)1 << f->dc_shift);
        state->steady = 1;
    }
    y = d - es_round_shift_32(state->mean, f->dc_shift);
    state->mean += y;
    return y;
}

/* y * multiplier / 2^shift, a half up, or more than int8 has with any zero
 * point added. |y * multiplier| < 2^62, and half of 2^shift is at most 2^61. */
static int32_t scale(const es_front_end *f, int32_t y)
{
    int64_t product = (int64_t)y * f->multiplier;
    if (f->shift > 32) { /* the low word has no part in it */
        return es_round_shift_32((int32_t)(product >> 32), f->shift - 32U);
    }
    product = es_round_shift(product, f->shift);
    return (int32_t)(product < -256 ? -256 : product > 255 ? 255 : product);
}

bool es_front_end_push(const es_front_end *f, es_front_end_state *state,
                       int16_t x, int8_t zero_point, int8_t *value)
{
    uint16_t phase = state->phase;
    int32_t y;

    state->past[state->next] = x;
    state->next =
        (uint16_t)(state->next + 1u == f->taps.count ? 0 : state->next + 1u);
    state->phase = (uint16_t)(phase + 1u == f->decimation ? 0 : phase + 1u);
    if (phase != 0) {
        return false;
    }
    y = without_mean(f, state, low_pass(f, state));
    *value = (int8_t)es_clamp(scale(f, y) + zero_point, INT8_MIN, INT8_MAX);
    return true;
}
