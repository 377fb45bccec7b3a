/* Fixed-point scaling, PLAN_FORMAT.md section 5: the one place of it in C.
 * edgesparse/quantize/fixedpoint.py is the twin in Python.
 * Source: gemmlowp fixedpoint.h, TensorFlow Lite common.h. */
#ifndef ES_FIXEDPOINT_H
#define ES_FIXEDPOINT_H

#include <stdint.h>
#include "plan/view.h"

/* C99 leaves >> of a negative number to the compiler. Everything here, and
 * everybody who includes it, means the arithmetic shift (towards minus
 * infinity), which GCC, Clang, Arm and IAR compilers all do. */
typedef char es_shift_is_arithmetic[(-3 >> 1) == -2 ? 1 : -1];

static inline int32_t es_clamp(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* gemmlowp's SaturatingRoundingDoublingHighMul without the one case that
 * saturates, a = b = INT32_MIN. It adds 2^30, or 1 - 2^30 to a negative
 * product, and divides towards zero: a tie goes up either way, which is what
 * this shift does. |a * b| <= 2^62 fits. */
static inline int32_t es_srdhm(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* gemmlowp's RoundingDivideByPOT: a / 2^exponent, a tie away from zero;
 * 0 <= exponent <= 62. */
static inline int64_t es_rdbp64(int64_t a, int exponent)
{
    int64_t mask = ((int64_t)1 << exponent) - 1;
    int64_t threshold = (mask >> 1) + (a < 0);
    return (a >> exponent) + ((a & mask) > threshold);
}

/* The same for 0 <= exponent <= 31. */
static inline int32_t es_rdbp(int32_t a, int exponent)
{
    int32_t mask = (int32_t)((1U << exponent) - 1U);
    int32_t threshold = (mask >> 1) + (a < 0);
    return (a >> exponent) + ((a & mask) > threshold);
}

/* x * multiplier * 2^(shift - 31), rounded twice: multiplier >= 0,
 * -31 <= shift <= 30. x * 2^max(shift, 0) fits int32 in a plan (I-43) and wraps
 * in an accumulator of the NPU. */
static inline int32_t es_mbqm_double(int32_t x, int32_t multiplier, int shift)
{
    int32_t left = shift > 0 ? (int32_t)((uint32_t)x << shift) : x;
    return es_rdbp(es_srdhm(left, multiplier), shift > 0 ? 0 : -shift);
}

/* The same, rounded once, a tie up. |x * multiplier| < 2^62, and the half is
 * at most 2^61. */
static inline int32_t es_mbqm_single(int32_t x, int32_t multiplier, int shift)
{
    int64_t half = (int64_t)1 << (30 - shift);
    return (int32_t)(((int64_t)x * multiplier + half) >> (31 - shift));
}

static inline int32_t es_mbqm(int32_t x, int32_t multiplier, int shift,
                              uint8_t rounding)
{
    return rounding == ES_ROUND_SINGLE ? es_mbqm_single(x, multiplier, shift)
                                       : es_mbqm_double(x, multiplier, shift);
}

#endif /* ES_FIXEDPOINT_H */
