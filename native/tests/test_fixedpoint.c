/* fixedpoint.h against the words of PLAN_FORMAT.md section 5. */
#include <stdio.h>

#include "check.h"
#include "fixedpoint.h"

static uint32_t state = 1;

static int32_t any(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (int32_t)state;
}

/* Division towards zero, as the format says it. */
static int32_t srdhm(int32_t a, int32_t b)
{
    int64_t product = (int64_t)a * b;
    int64_t nudge = product >= 0 ? 1LL << 30 : 1 - (1LL << 30);
    return (int32_t)((product + nudge) / (1LL << 31));
}

static int64_t rdbp(int64_t a, int exponent)
{
    int64_t ones = (1LL << exponent) - 1;
    int64_t least = (ones >> 1) + (a < 0 ? 1 : 0);
    return (a >> exponent) + ((a & ones) > least ? 1 : 0);
}

static int32_t mbqm(int32_t x, int32_t m, int s, int rounding)
{
    if (rounding == ES_ROUND_SINGLE) {
        return (int32_t)(((int64_t)x * m + (1LL << (30 - s))) >> (31 - s));
    }
    int left = s > 0 ? s : 0, right = s > 0 ? 0 : -s;
    return (int32_t)rdbp(srdhm((int32_t)((int64_t)x * (1LL << left)), m),
                         right);
}

static void compare(int32_t x, int32_t m, int s)
{
    int64_t left = x * (1LL << (s > 0 ? s : 0));
    if (left >= -0x7fffffff && left <= 0x7fffffff) {
        CHECK(es_mbqm(x, m, s, ES_ROUND_DOUBLE) ==
              mbqm(x, m, s, ES_ROUND_DOUBLE));
        CHECK(es_mbqm(x, m, s, ES_ROUND_SINGLE) ==
              mbqm(x, m, s, ES_ROUND_SINGLE));
    }
}

static void test_edges(void)
{
    static const int32_t xs[] = {
        0,          1,           -1,         2,         -2,      3,
        -3,         127,         -128,       32767,     1 << 30, -(1 << 30),
        0x7fffffff, -0x7fffffff, 0x3fffffff, 0x55555555};
    static const int32_t ms[] = {0,       1,          2,          3,
                                 1 << 29, 1 << 30,    0x40000001, 0x60000000,
                                 12345,   0x7fffffff, 0x7ffffffe, 715827883};
    for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
        for (size_t k = 0; k < sizeof ms / sizeof *ms; k++) {
            CHECK(es_srdhm(xs[i], ms[k]) == srdhm(xs[i], ms[k]));
            CHECK(es_srdhm(xs[i], -ms[k]) == srdhm(xs[i], -ms[k]));
            for (int s = -31; s <= 30; s++) {
                compare(xs[i], ms[k], s);
            }
        }
        for (int e = 0; e <= 31; e++) {
            CHECK(es_rdbp(xs[i], e) == rdbp(xs[i], e));
        }
        for (int e = 0; e <= 40; e++) {
            CHECK(es_rdbp64(xs[i], e) == rdbp(xs[i], e));
        }
    }
}

static void test_random(void)
{
    for (int i = 0; i < 20000; i++) {
        int32_t x = any(), m = any() & 0x7fffffff;
        int s = (int)((uint32_t)any() % 62) - 31;
        compare(x, m, s);
        compare(x % 100000, m, s);
        CHECK(es_srdhm(x, m) == srdhm(x, m));
        CHECK(es_srdhm(x, -m) == srdhm(x, -m));
        CHECK(es_rdbp(x, (int)((uint32_t)s & 31)) ==
              rdbp(x, (int)((uint32_t)s & 31)));
    }
}

/* Ties, by hand: where the two roundings and floor part ways. */
static void test_ties(void)
{
    const int32_t half = 1 << 30; /* 1/2 in units of 2^-31 */
    CHECK(es_srdhm(1, half) == 1);
    CHECK(es_srdhm(-1, half) == 0);
    CHECK(es_rdbp(1, 1) == 1);
    CHECK(es_rdbp(-1, 1) == -1);
    CHECK(es_rdbp(3, 1) == 2);
    CHECK(es_rdbp(-3, 1) == -2);
    /* 5 * 1/4: rounded once 1, rounded twice 3 / 2 -> 2 */
    CHECK(es_mbqm(5, half, -1, ES_ROUND_SINGLE) == 1);
    CHECK(es_mbqm(5, half, -1, ES_ROUND_DOUBLE) == 2);
    CHECK(es_mbqm(-1, half, 0, ES_ROUND_SINGLE) == 0);
    CHECK(es_mbqm(3, half, 1, ES_ROUND_SINGLE) == 3);
    CHECK(es_mbqm(3, half, 1, ES_ROUND_DOUBLE) == 3);
    CHECK(es_clamp(200, -128, 127) == 127);
    CHECK(es_clamp(-200, -100, 127) == -100);
    CHECK(es_clamp(5, -100, 127) == 5);
}

int main(void)
{
    test_edges();
    test_random();
    test_ties();
    printf("%d failures\n", failures);
    return failures != 0;
}
