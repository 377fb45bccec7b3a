/* What the Helium kernels share. Loops are assembly where GCC has no words for
 * them: DLSTP and LETP make lanes past the end load nothing and add nothing, at
 * no cost, so that nothing is read past a buffer. */
#ifndef ES_MVE_H
#define ES_MVE_H

#include <arm_mve.h>

#include "exec/dot.h"

/* int8 values, and what they are in the range of. */
typedef struct es_mve_range {
    int32_t zero_point, low, high;
    /* low >= zero_point: a tie of a negative value may go either way. */
    bool rectified;
} es_mve_range;

/* A Requant: a multiplier and a shift, to the right, of each channel. */
typedef struct es_mve_scale {
    const int32_t *multiplier;
    const int8_t *shift;
    es_mve_range to;
} es_mve_scale;

/* false: not a Requant that es_mve_scaled does. */
bool es_mve_scale_begin(const es_stage *stage, uint32_t channels,
                        es_mve_scale *scale);

/* The second rounding, a half away from zero: a half up after 1 is taken from
 * what is negative. */
static inline int32x4_t es_mve_rounded(const es_mve_scale *by, int32x4_t v,
                                       int32x4_t multiplier, int32x4_t shift)
{
    v = vqrdmulhq_s32(v, multiplier);
    if (!by->to.rectified) {
        v = vaddq_s32(v, vshrq_n_s32(v, 31));
    }
    return vrshlq_s32(v, shift);
}

/* What is rounded, as an int8. */
static inline int32x4_t es_mve_clamped(const es_mve_range *to, int32x4_t v)
{
    v = vaddq_n_s32(v, to->zero_point);
    return vminq_s32(vmaxq_s32(v, vdupq_n_s32(to->low)), vdupq_n_s32(to->high));
}

static inline int32x4_t es_mve_scaled(const es_mve_scale *by, int32x4_t v,
                                      int32x4_t multiplier, int32x4_t shift)
{
    return es_mve_clamped(&by->to, es_mve_rounded(by, v, multiplier, shift));
}

/* Lanes 0, 2, ... of a and 1, 3, ... of b, saturated. */
static inline int16x8_t es_mve_halves(int32x4_t a, int32x4_t b)
{
    return vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a), a), b);
}

/* Sixteen int8 of rounded values: lanes 0, 4, 8, 12 are even, 2, 6, 10, 14
 * even2, 1, 5, ... odd, 3, 7, ... odd2. */
static inline int8x16_t es_mve_narrow(const es_mve_range *to, int32x4_t even,
                                      int32x4_t even2, int32x4_t odd,
                                      int32x4_t odd2)
{
    const int16_t zero_point = (int16_t)to->zero_point;
    int16x8_t e = es_mve_halves(even, even2);
    int16x8_t o = es_mve_halves(odd, odd2);
    e = vqaddq_n_s16(e, zero_point), o = vqaddq_n_s16(o, zero_point);
    int8x16_t v = vqmovntq_s16(vqmovnbq_s16(vreinterpretq_s8_s16(e), e), o);
    return vminq_s8(vmaxq_s8(v, vdupq_n_s8((int8_t)to->low)),
                    vdupq_n_s8((int8_t)to->high));
}

/* Lanes 0 to 3. */
static inline int32x4_t es_mve_four(int32_t a, int32_t b, int32_t c, int32_t d)
{
    int32x4_t v;
    __asm("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
          : "=w"(v)
          : "r"(a), "r"(b), "r"(c), "r"(d));
    return v;
}

/* memcpy and memset, in line. */
static inline void es_mve_copy(int8_t *to, const int8_t *from, uint32_t n)
{
    __asm volatile("wlstp.8 lr, %[n], 2f\n"
                   "1:\tvldrb.u8 q0, [%[from]], #16\n\t"
                   "vstrb.8 q0, [%[to]], #16\n\tletp lr, 1b\n2:"
                   : [to] "+&r"(to), [from] "+&r"(from)
                   : [n] "r"(n)
                   : "lr", "q0", "memory");
}

static inline void es_mve_fill(int8_t *to, int8_t value, uint32_t n)
{
    __asm volatile("vdup.8 q0, %[value]\n\twlstp.8 lr, %[n], 2f\n"
                   "1:\tvstrb.8 q0, [%[to]], #16\n\tletp lr, 1b\n2:"
                   : [to] "+&r"(to)
                   : [n] "r"(n), [value] "r"(value)
                   : "lr", "q0", "memory");
}

#endif /* ES_MVE_H */
