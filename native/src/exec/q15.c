/* Names as in gemmlowp fixedpoint.h, of which this is the int16 form;
 * edgesparse/quantize/gemmlowp16.py is the twin in Python. All numbers are
 * int16 in int32, so nothing overflows. */
#include "exec/q15.h"
#include "fixedpoint.h"

/* gemmlowp's SaturatingRoundingDoublingHighMul of int16. */
static int32_t product(int32_t a, int32_t b)
{
    return (a * b + (1 << 14)) >> 15;
}

static int32_t saturate(int32_t x)
{
    return es_clamp(x, INT16_MIN, INT16_MAX);
}

/* exp(a) in Q0 of a <= 0 in Q`bits`, 1 to 7. */
static int32_t exp_on_negative_values(int32_t a, int bits)
{
    /* exp(-2^(i - 2)) in Q0 */
    static const int16_t factor[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    const int32_t exp_of_minus_eighth = 28918, third = 10923;
    int fraction = 15 - bits;
    int32_t quarter = 1 << (fraction - 2);
    if (a == 0) {
        return INT16_MAX;
    }
    if (a < -(32 << fraction)) {
        return 0;
    }
    int32_t inside = (a & (quarter - 1)) - quarter;
    int32_t x = inside * (1 << bits) + (1 << 12); /* around -1/8 */
    int32_t x2 = product(x, x);
    int32_t x4_over_4 = es_rdbp(product(x2, x2), 2);
    int32_t tail = es_rdbp(product(x4_over_4 + product(x2, x), third) + x2, 1);
    int32_t result =
        saturate(exp_of_minus_eighth + product(exp_of_minus_eighth, x + tail));
    int32_t remainder = inside - a;
    for (int i = 0; i < 7; i++) {
        if (remainder >> (fraction - 2 + i) & 1) {
            result = product(result, factor[i]);
        }
    }
    return result;
}

/* Half of 1 / (1 + a) in Q1, a in [0, 1] in Q0: three Newton steps in Q2. */
static int32_t one_over_one_plus_x(int32_t a)
{
    int32_t half_denominator = (a + INT16_MAX + 1) >> 1;
    int32_t x = 23130 + product(half_denominator, -15420);
    for (int i = 0; i < 3; i++) {
        int32_t error = (1 << 13) - product(half_denominator, x);
        x += saturate(product(x, error) * 4);
    }
    return x;
}

static int32_t minus_magnitude(int32_t a)
{
    return a < 0 ? a : -a;
}

int32_t es_logistic_i16(int32_t a)
{
    int32_t e = exp_on_negative_values(minus_magnitude(a), 3);
    int32_t positive = saturate(one_over_one_plus_x(e) * 2);
    return a == 0 ? 1 << 14 : a > 0 ? positive : INT16_MAX - positive;
}

int32_t es_tanh_i16(int32_t a, int bits)
{
    int32_t e = exp_on_negative_values(minus_magnitude(a), bits + 1);
    int32_t positive = saturate((one_over_one_plus_x(e) - (1 << 13)) * 4);
    return a == 0 ? 0 : a > 0 ? positive : -positive;
}
