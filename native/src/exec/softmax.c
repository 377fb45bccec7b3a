/* Softmax over the channels of a column, PLAN_FORMAT.md section 6.
 *
 * Names as in gemmlowp fixedpoint.h; `Qk` means k integer bits in int32.
 * edgesparse/quantize/gemmlowp.py is the twin in Python. */
#include "exec/exec.h"
#include "fixedpoint.h"

enum {
    ARGUMENT_BITS = 5,             /* integer bits of exp's argument */
    FRACTION = 31 - ARGUMENT_BITS, /* its fraction bits */
    SUM_BITS = 12,                 /* integer bits of the sum */
    QUARTER = 1 << (FRACTION - 2)
};

static int32_t saturating_shift_left(int32_t x, int bits)
{
    int64_t wide = (int64_t)x * (1 << bits);
    return wide > INT32_MAX   ? INT32_MAX
           : wide < INT32_MIN ? INT32_MIN
                              : (int32_t)wide;
}

/* exp(a), a in [-1/4, 0), both Q0: a Taylor polynomial around -1/8. */
static int32_t exp_on_quarter(int32_t a)
{
    const int32_t exp_of_minus_eighth = 1895147668, third = 715827883;
    int32_t x = a + (1 << 28);
    int32_t x2 = es_srdhm(x, x);
    int32_t x3 = es_srdhm(x2, x);
    int32_t x4_over_4 = es_rdbp(es_srdhm(x2, x2), 2);
    int32_t tail = es_rdbp(es_srdhm(x4_over_4 + x3, third) + x2, 1);
    return exp_of_minus_eighth + es_srdhm(exp_of_minus_eighth, x + tail);
}

/* exp(a) in Q0, a <= 0 in Q5. */
static int32_t exp_on_negative_values(int32_t a)
{
    /* exp(-2^(i - 2)) in Q0 */
    static const int32_t factor[] = {
        1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    if (a == 0) {
        return INT32_MAX;
    }
    int32_t inside = (a & (QUARTER - 1)) - QUARTER;
    int32_t result = exp_on_quarter(inside * (1 << ARGUMENT_BITS));
    int32_t remainder = inside - a;
    for (int i = 0; i < 7; i++) {
        if (remainder >> (FRACTION - 2 + i) & 1) {
            result = es_srdhm(result, factor[i]);
        }
    }
    return result;
}

/* 1 / (1 + a), a in [0, 1], both Q0: three Newton steps in Q2. */
static int32_t one_over_one_plus_x(int32_t a)
{
    /* (a + 1) / 2; 1 in Q0 is INT32_MAX, and the half is rounded up */
    int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
    int32_t x = 1515870810 + es_srdhm(half_denominator, -1010580540);
    for (int i = 0; i < 3; i++) {
        int32_t error = (1 << 29) - es_srdhm(half_denominator, x);
        x += saturating_shift_left(es_srdhm(x, error), 2);
    }
    return saturating_shift_left(x, 1);
}

static int leading_zeros(uint32_t x)
{
    int zeros = 0;
    for (; !(x >> 31); x <<= 1) {
        zeros++;
    }
    return zeros;
}

/* e^(scale * (v - max)) in Q0; I-45: the product fits. */
static int32_t exponential(int32_t diff, const es_stage *stage)
{
    return exp_on_negative_values(es_srdhm(diff * (1 << stage->softmax_shift),
                                           stage->softmax_multiplier));
}

void es_softmax(int8_t *column, uint32_t channels, const es_stage *stage)
{
    int32_t max = INT8_MIN;
    for (uint32_t c = 0; c < channels; c++) {
        max = column[c] > max ? column[c] : max;
    }
    uint32_t sum = 0; /* >= 2^19: the maximum's own term is 1 */
    for (uint32_t c = 0; c < channels; c++) {
        if (column[c] - max >= stage->softmax_diff_min) {
            int32_t e = exponential(column[c] - max, stage);
            sum += (uint32_t)es_rdbp(e, SUM_BITS);
        }
    }
    int headroom = leading_zeros(sum);
    int32_t fraction = (int32_t)((sum << headroom) - (1U << 31));
    int32_t reciprocal = one_over_one_plus_x(fraction);
    for (uint32_t c = 0; c < channels; c++) {
        int32_t result = INT8_MIN;
        if (column[c] - max >= stage->softmax_diff_min) {
            int32_t e = exponential(column[c] - max, stage);
            /* An exponent above 31 comes with more than 511 equals. */
            result += (int32_t)es_rdbp64(es_srdhm(reciprocal, e),
                                         SUM_BITS - headroom + 31 - 8);
        }
        column[c] = (int8_t)es_clamp(result, INT8_MIN, INT8_MAX);
    }
}
