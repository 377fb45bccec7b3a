/* Instructions of the Arm DSP extension that C has no words for. */
#ifndef ES_DSP_H
#define ES_DSP_H

#include <stdint.h>
#include <string.h>

/* Four int8 at any address: one LDR. */
static inline uint32_t es_dsp_load(const int8_t *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* Bytes 0 and 2 as two int16, and bytes 1 and 3. */
static inline uint32_t es_dsp_even(uint32_t word)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}

static inline uint32_t es_dsp_odd(uint32_t word)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

/* sum + both products of halves. */
static inline int32_t es_dsp_smlad(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* sum + a's low half times b's low half, or high half. */
static inline int32_t es_dsp_low_low(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

static inline int32_t es_dsp_low_high(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

static inline int32_t es_dsp_high_high(uint32_t a, uint32_t b, int32_t sum)
{
    int32_t result;
    __asm("smlatt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* The high word of a * b, rounded. */
static inline int32_t es_dsp_smmulr(int32_t a, int32_t b)
{
    int32_t result;
    __asm("smmulr %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* The high word of a * b, rounded, and c. */
static inline int32_t es_dsp_smmlar(int32_t a, int32_t b, int32_t c)
{
    int32_t result;
    __asm("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

/* 2 * value, or the largest or smallest number there is. */
static inline int32_t es_dsp_double(int32_t value)
{
    int32_t result;
    __asm("qadd %0, %1, %1" : "=r"(result) : "r"(value));
    return result;
}

static inline int32_t es_dsp_to_int8(int32_t value)
{
    int32_t result;
    __asm("ssat %0, #8, %1" : "=r"(result) : "r"(value));
    return result;
}

/* Shifts by the lowest byte of `by`, whatever stands above it. */
static inline int32_t es_dsp_right(int32_t value, uint32_t by)
{
    int32_t result;
    __asm("asr %0, %1, %2" : "=r"(result) : "r"(value), "r"(by));
    return result;
}

static inline int32_t es_dsp_left(int32_t value, uint32_t by)
{
    int32_t result;
    __asm("lsl %0, %1, %2" : "=r"(result) : "r"(value), "r"(by));
    return result;
}

/* value * 2^bits + more; compilers, left to themselves, make two of it. */
#define ES_DSP_SHIFT_ADD(result, value, bits, more)                            \
    __asm("add %0, %1, %2, lsl %3"                                             \
          : "=r"(result)                                                       \
          : "r"(more), "r"((int32_t)(value)), "i"(bits))

/* value >> 1, saturated. */
static inline int32_t es_dsp_half_to_int8(int32_t value)
{
    int32_t result;
    __asm("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
    return result;
}

#endif /* ES_DSP_H */
