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

#define TAP0                                                                   \
    "add %[t0], %[side]\n\tvldrb.u8 q0, [%[t0]]\n\t"                           \
    "vldrb.u8 q1, [%[w]], #16\n\t"                                             \
    "vmullb.s8 q2, q0, q1\n\tvmullt.s8 q3, q0, q1\n\t"
/* The input is loaded again: there are no more registers. */
#define TAP1                                                                   \
    "add %[t1], %[side]\n\tvldrb.u8 q0, [%[t1]]\n\t"                           \
    "vldrb.u8 q1, [%[w]], #16\n\t"                                             \
    "vmullb.s8 q0, q0, q1\n\tvadd.i16 q2, q2, q0\n\t"                          \
    "vldrb.u8 q0, [%[t1]]\n\t"                                                 \
    "vmullt.s8 q0, q0, q1\n\tvadd.i16 q3, q3, q0\n\t"
/* The sums += the int16 of q2, channels 0, 2, 4, ..., and of q3, 1, 3, 5, ...
 * q4: sums of channels 0, 4, 8, 12; q5: 1, 5, ...; q6: 2, 6, ...; q7: 3, ... */
#define WIDEN                                                                  \
    "vmovlb.s16 q0, q2\n\tvadd.i32 q4, q4, q0\n\t"                             \
    "vmovlt.s16 q0, q2\n\tvadd.i32 q6, q6, q0\n\t"                             \
    "vmovlb.s16 q0, q3\n\tvadd.i32 q5, q5, q0\n\t"                             \
    "vmovlt.s16 q0, q3\n\tvadd.i32 q7, q7, q0\n\t"
/* Two taps: 24 instructions for 32 products. An odd number starts with a single
 * one. */
#define ALL_TAPS                                                               \
    "lsrs lr, %[taps], #1\n\tbcc 3f\n\t"                                       \
    "ldr %[t0], [%[tap]], #4\n\t" TAP0 WIDEN "3:\twls lr, lr, 2f\n"            \
    "1:\tldrd %[t0], %[t1], [%[tap]], #8\n\t" TAP0 TAP1 WIDEN                  \
    "le lr, 1b\n2:\t"

/* Sixteen words, every fourth of them to each register. */
#define BIASES                                                                 \
    "vld40.32 {q4, q5, q6, q7}, [%[bias]]\n\t"                                 \
    "vld41.32 {q4, q5, q6, q7}, [%[bias]]\n\t"                                 \
    "vld42.32 {q4, q5, q6, q7}, [%[bias]]\n\t"                                 \
    "vld43.32 {q4, q5, q6, q7}, [%[bias]]\n\t"
#define SCALED                                                                 \
    "ldrd %[t0], %[t1], [%[end]]\n\tadd %[t0], %[t0], %[side], lsl #2\n\t"     \
    "add %[t1], %[side]\n\t"                                                   \
    "vld40.32 {q0, q1, q2, q3}, [%[t0]]\n\t"                                   \
    "vld41.32 {q0, q1, q2, q3}, [%[t0]]\n\t"                                   \
    "vld42.32 {q0, q1, q2, q3}, [%[t0]]\n\t"                                   \
    "vld43.32 {q0, q1, q2, q3}, [%[t0]]\n\t"                                   \
    "vqrdmulh.s32 q4, q4, q0\n\tvqrdmulh.s32 q5, q5, q1\n\t"                   \
    "vqrdmulh.s32 q6, q6, q2\n\tvqrdmulh.s32 q7, q7, q3\n\t"
#define UNRECTIFIED                                                            \
    "vshr.s32 q0, q4, #31\n\tvadd.i32 q4, q4, q0\n\t"                          \
    "vshr.s32 q0, q5, #31\n\tvadd.i32 q5, q5, q0\n\t"                          \
    "vshr.s32 q0, q6, #31\n\tvadd.i32 q6, q6, q0\n\t"                          \
    "vshr.s32 q0, q7, #31\n\tvadd.i32 q7, q7, q0\n\t"
/* A shift is the lowest byte of its lane. */
#define SHIFTED                                                                \
    "vldrb.u8 q0, [%[t1]]\n\tvrshl.s32 q4, q4, q0\n\t"                         \
    "vshr.u32 q0, q0, #8\n\tvrshl.s32 q5, q5, q0\n\t"                          \
    "vshr.u32 q0, q0, #8\n\tvrshl.s32 q6, q6, q0\n\t"                          \
    "vshr.u32 q0, q0, #8\n\tvrshl.s32 q7, q7, q0\n\t"
#define NARROWED                                                               \
    "ldrd %[t0], %[t1], [%[end], #8]\n\tadd %[t0], %[side]\n\t"                \
    "vqmovnb.s32 q4, q4\n\tvqmovnt.s32 q4, q6\n\t"                             \
    "vqmovnb.s32 q5, q5\n\tvqmovnt.s32 q5, q7\n\t"                             \
    "vqadd.s16 q4, q4, %[t1]\n\tvqadd.s16 q5, q5, %[t1]\n\t"                   \
    "vqmovnb.s16 q4, q4\n\tvqmovnt.s16 q4, q5\n\t"                             \
    "ldr %[t1], [%[end], #16]\n\tvdup.8 q0, %[t1]\n\tvmax.s8 q4, q4, q0\n\t"   \
    "ldr %[t1], [%[end], #20]\n\tvdup.8 q0, %[t1]\n\tvmin.s8 q4, q4, q0\n\t"   \
    "vstrb.8 q4, [%[t0]]"

/* What the scaling takes, in memory: there are not enough registers to have it
 * all from the start. */
typedef struct ending {
    const int32_t *multiplier;
    const int8_t *shift;
    int8_t *to;
    int32_t zero_point, low, high;
} ending;

#define SIXTEEN(sign)                                                          \
    __asm volatile(                                                            \
        BIASES ALL_TAPS SCALED sign SHIFTED NARROWED                           \
        : [tap] "+&r"(tap), [w] "+&r"(w), [t0] "=&r"(t0), [t1] "=&r"(t1)       \
        : [side] "r"(side), [taps] "r"(mac->cols), [bias] "r"(bias),           \
          [end] "r"(end)                                                       \
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory",      \
          "cc")

/* Sixteen channels from `side` on. */
static inline void sixteen(const es_mve_mac *mac, bool rectified,
                           const ending *end, const int8_t *w,
                           const int8_t *const *tap, uint32_t side)
{
    const int32_t *bias = mac->bias + side;
    const int8_t *t0, *t1;
    if (rectified) {
        SIXTEEN("");
    } else {
        SIXTEEN(UNRECTIFIED);
    }
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
        v = es_mve_scaled(by, v, vldrwq_z_s32(by->multiplier + at, there),
                          vldrbq_z_s32(by->shift + at, there));
        vstrbq_p_s32(to + at, v, there);
    }
}

void es_mve_depthwise(const es_mve_mac *mac, const es_mve_scale *by, bool pairs,
                      const int8_t *const *tap, int8_t *to)
{
    const uint32_t rows = mac->rows, block = SIDE * mac->cols;
    const ending end = {by->multiplier,    by->shift,  to,
                        by->to.zero_point, by->to.low, by->to.high};
    const bool rectified = by->to.rectified;
    const int8_t *w = mac->w;
    uint32_t side = 0;
    if (pairs) {
        for (; side + SIDE <= rows; side += SIDE, w += block) {
            sixteen(mac, rectified, &end, w, tap, side);
        }
    }
    for (; side < rows; side += SIDE, w += block) {
        uint32_t rest = rows - side;
        few(mac, by, w, tap, side, rest < SIDE ? rest : SIDE, to);
    }
}
