/* Depthwise rows with Helium, sixteen channels side by side: a product of two
 * int8 is an int16, and so is the sum of two, unless a weight is -128. */
#include "exec/mve_mac.h"

enum { SIDE = 16 };

/* Weights of `count` channels from [channel][tap] to [tap][channel]. */
static int32x4_t turn(const int8_t *w, uint32_t taps, uint32_t count,
                      int8_t *to, int32x4_t least)
{
    for (uint32_t c = 0; c < count; c += 4) {
        const mve_pred16_t there = vctp32q(count - c);
        const uint32x4_t rows = vmulq_n_u32(vidupq_n_u32(c, 1), taps);
        for (uint32_t t = 0; t < taps; t++) {
            int32x4_t v = vldrbq_gather_offset_z_s32(w + t, rows, there);
            least = vminq_s32(least, v);
            vstrbq_p_s32(to + t * count + c, v, there);
        }
    }
    return least;
}

bool es_mve_depthwise_begin(const es_mve_mac *mac, int8_t *to)
{
    int32x4_t least = vdupq_n_s32(0);
    for (uint32_t c = 0; c < mac->rows; c += SIDE) {
        uint32_t rest = mac->rows - c;
        least = turn(mac->w + c * mac->cols, mac->cols,
                     rest < SIDE ? rest : SIDE, to + c * mac->cols, least);
    }
    return vminvq_s32(0, least) > -128;
}

/* Sums of channels 0, 4, 8, 12; 2, 6, ...; 1, 5, ...; 3, 7, ... */
typedef struct sums {
    int32x4_t even, even2, odd, odd2;
} sums;

#define TAP(x, w, at)                                                          \
    "add %[" at "], %[" at "], %[side]\n\tvldrb.u8 " x ", [%[" at "]]\n\t"     \
    "vldrb.u8 " w ", [%[w]], #16\n\t"
/* a and b += the int16 of v; t is lost */
#define WIDEN(a, b, v, t)                                                      \
    "vmovlb.s16 " t ", " v "\n\tvadd.i32 " a ", " a ", " t "\n\t"              \
    "vmovlt.s16 " t ", " v "\n\tvadd.i32 " b ", " b ", " t "\n\t"

/* Two taps: 23 instructions for 32 products. An input is loaded again: there
 * are no more registers. */
#define TWO_TAPS                                                               \
    "ldrd %[t0], %[t1], [%[tap]], #8\n\t" TAP(                                 \
        "q0", "q1", "t0") "vmullb.s8 q2, q0, q1\n\tvmullt.s8 q3, q0, "         \
                          "q1\n\t" TAP("q0", "q1",                             \
                                       "t1") "vmullb.s8 q0, q0, "              \
                                             "q1\n\tvadd.i16 q2, q2, q0\n\t"   \
                                             "vldrb.u8 q0, "                   \
                                             "[%[t1]]\n\tvmullt.s8 q0, q0, "   \
                                             "q1\n\tvadd.i16 q3, q3, "         \
                                             "q0\n\t" WIDEN("%q[even]",        \
                                                            "%q[even2]", "q2", \
                                                            "q0")              \
                                                 WIDEN("%q[odd]", "%q[odd2]",  \
                                                       "q3", "q0")

/* An odd number of taps starts with a single one. */
#define ONE_TAP                                                                \
    "ldr %[t0], [%[tap]], #4\n\t" TAP(                                         \
        "q0", "q1", "t0") "vmullb.s8 q2, q0, q1\n\tvmullt.s8 q3, q0, "         \
                          "q1\n\t" WIDEN("%q[even]", "%q[even2]", "q2", "q0")  \
                              WIDEN("%q[odd]", "%q[odd2]", "q3", "q0")

static inline void add_taps(const int8_t *const *tap, uint32_t taps,
                            uint32_t side, const int8_t *w, sums *s)
{
    int32x4_t even = s->even, even2 = s->even2, odd = s->odd, odd2 = s->odd2;
    const int8_t *t0, *t1;
    __asm volatile("lsrs lr, %[taps], #1\n\tbcc 3f\n\t" ONE_TAP
                   "3:\twls lr, lr, 2f\n1:\t" TWO_TAPS "le lr, 1b\n2:"
                   : [even] "+w"(even), [even2] "+w"(even2), [odd] "+w"(odd),
                     [odd2] "+w"(odd2), [tap] "+r"(tap), [w] "+r"(w),
                     [t0] "=&r"(t0), [t1] "=&r"(t1)
                   : [side] "r"(side), [taps] "r"(taps)
                   : "lr", "q0", "q1", "q2", "q3", "memory", "cc");
    s->even = even, s->even2 = even2, s->odd = odd, s->odd2 = odd2;
}

/* Sixteen channels from `side` on; each has its own scale. */
static inline void sixteen(const es_mve_mac *mac, const es_mve_scale *by,
                           const int8_t *w, const int8_t *const *tap,
                           uint32_t side, int8_t *to)
{
    const uint32x4_t apart = vmulq_n_u32(vidupq_n_u32(0, 1), 4);
    const int32_t *bias = mac->bias + side;
    const int32_t *multiplier = by->multiplier + side;
    const int8_t *shift = by->shift + side;
#define FOURTH(from, n) vldrwq_gather_shifted_offset_s32((from) + (n), apart)
    sums s = {FOURTH(bias, 0), FOURTH(bias, 2), FOURTH(bias, 1),
              FOURTH(bias, 3)};
    add_taps(tap, mac->cols, side, w, &s);
#define ROUNDED(v, n)                                                          \
    es_mve_rounded(by, v, FOURTH(multiplier, n),                               \
                   vldrbq_gather_offset_s32(shift + (n), apart))
    vstrbq_s8(to + side,
              es_mve_narrow(&by->to, ROUNDED(s.even, 0), ROUNDED(s.even2, 2),
                            ROUNDED(s.odd, 1), ROUNDED(s.odd2, 3)));
}

/* Any channels [side, side + count), count <= 16, and any weights. */
static void few(const es_mve_mac *mac, const es_mve_scale *by, const int8_t *w,
                const int8_t *const *tap, uint32_t side, uint32_t count,
                int8_t *to)
{
    for (uint32_t c = 0; c < count; c += 4) {
        const mve_pred16_t there = vctp32q(count - c);
        const uint32_t at = side + c;
        int32x4_t v = vldrwq_z_s32(mac->bias + at, there);
        for (uint32_t t = 0; t < mac->cols; t++) {
            int32x4_t x = vldrbq_z_s32(tap[t] + at, there);
            int32x4_t y = vldrbq_z_s32(w + t * count + c, there);
            v = vaddq_s32(v, vmulq_s32(x, y));
        }
        v = es_mve_scaled(
            by, v,
            vldrwq_z_s32(by->multiplier + by->multiplier_step / 4 * at, there),
            vldrbq_z_s32(by->shift + by->shift_step / 4 * at, there));
        vstrbq_p_s32(to + at, v, there);
    }
}

void es_mve_depthwise(const es_mve_mac *mac, const es_mve_scale *by, bool pairs,
                      const int8_t *const *tap, int8_t *to)
{
    pairs = pairs && by->multiplier_step && by->shift_step;
    for (uint32_t side = 0; side < mac->rows; side += SIDE) {
        const int8_t *w = mac->w + side * mac->cols;
        uint32_t count = mac->rows - side;
        if (count >= SIDE && pairs) {
            sixteen(mac, by, w, tap, side, to);
        } else {
            few(mac, by, w, tap, side, count < SIDE ? count : SIDE, to);
        }
    }
}
