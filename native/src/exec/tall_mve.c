/* Blocks of four rows with Helium: a vector of inputs serves four rows, whose
 * sums become the four lanes of a vector.
 *
 * 4 x 4 gathers words, four to a vector, which costs a Cortex-M55 as much as a
 * plain load. 4 x 1 gathers bytes, sixteen to a vector, which costs it four
 * times that; the weights of sixteen blocks come apart by rows (VLD4). */
#include "exec/mve_blocks.h"

/* ---- 4 x 4 ---- */

/* 11 instructions for 64 products. q7 has the addresses of the weights. */
#define SQUARE                                                                 \
    "vldrw.u32 q1, [q7, #64]!\n\tvldrw.u32 q3, [%[x], q0, uxtw #2]\n\t"        \
    "vmladava.s8 %[a], q1, q3\n\tvldrw.u32 q2, [q7, #4]\n\t"                   \
    "vmladava.s8 %[b], q2, q3\n\tvldrw.u32 q1, [q7, #8]\n\t"                   \
    "vmladava.s8 %[c], q1, q3\n\tvldrw.u32 q2, [q7, #12]\n\t"                  \
    "vmladava.s8 %[d], q2, q3\n\t"

/* ---- 4 x 1 ---- */

/* Sixteen blocks: 11 instructions for 64 products. */
#define SIXTEEN                                                                \
    "vld40.8 {q0, q1, q2, q3}, [%[w]]\n\tvld41.8 {q0, q1, q2, q3}, [%[w]]\n\t" \
    "vld42.8 {q0, q1, q2, q3}, [%[w]]\n\tvld43.8 {q0, q1, q2, q3}, "           \
    "[%[w]]!\n\t"                                                              \
    "vmladava.s8 %[a], q0, q5\n\tvmladava.s8 %[b], q1, q5\n\t"                 \
    "vmladava.s8 %[c], q2, q5\n\tvmladava.s8 %[d], q3, q5\n\t"
#define SIXTEEN8 "vldrb.u8 q4, [%[i]], #16\n\tvldrb.u8 q5, [%[x], q4]\n\t"
#define SIXTEEN16                                                              \
    "vld20.16 {q4, q5}, [%[i]]\n\tvld21.16 {q4, q5}, [%[i]]!\n\t"              \
    "vldrb.u16 q0, [%[x], q5]\n\tvldrb.u16 q5, [%[x], q4]\n\t"                 \
    "vsli.16 q5, q0, #8\n\t"
#define SIXTEENS(index)                                                        \
    "wls lr, %[sixteens], 2f\n1:\t" index SIXTEEN "le lr, 1b\n2:\t"

/* Those that are left, four at a time: the input, alone in its word, is moved
 * to the byte of each row. */
#define FOUR                                                                   \
    "vldrb.u8 q1, [%[w]], #16\n\tvldrb.u32 q2, [%[x], q0]\n\t"                 \
    "vmladava.s8 %[a], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[b], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[c], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[d], q1, q2\n\t"

/* ---- four rows of a column ---- */

/* v = bias + what `body` adds. */
#define SUMS(before, body)                                                     \
    __asm volatile(before "ldrd %[a], %[b], [%[bias]]\n\t"                     \
                          "ldrd %[c], %[d], [%[bias], #8]\n\t" body            \
                          "vmov %q[v][2], %q[v][0], %[a], %[c]\n\t"            \
                          "vmov %q[v][3], %q[v][1], %[b], %[d]"                \
                   : [v] "=&w"(v), [a] "=&Te"(a), [b] "=&Te"(b),               \
                     [c] "=&Te"(c), [d] "=&Te"(d), ES_MVE_LOW(i),              \
                     ES_MVE_MOVES(w)                                           \
                   : ES_MVE_GIVEN(bias), ES_MVE_GIVEN(x), ES_MVE_GIVEN(n),     \
                     ES_MVE_GIVEN(sixteens)                                    \
                   : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q7", "memory")

/* q7 = w + 0, 16, 32, 48, less what the first load adds. */
#define SIXTEEN_APART                                                          \
    "mov %[a], #0\n\tvidup.u32 q7, %[a], #4\n\tvshl.i32 q7, q7, #2\n\t"        \
    "vadd.i32 q7, q7, %[w]\n\t"

typedef int32x4_t four_sums(const es_mve_walk *at, uint32_t n, const int8_t *x,
                            const int32_t *bias);

static inline int32x4_t square(const es_mve_walk *at, uint32_t n,
                               const int8_t *x, const int32_t *bias)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w - 64;
    const uint32_t sixteens = 0;
    int32_t a, b, c, d;
    int32x4_t v;
    if (at->wide) {
        SUMS(SIXTEEN_APART, ES_MVE_TURNS(ES_MVE_INDEX16, SQUARE));
    } else {
        SUMS(SIXTEEN_APART, ES_MVE_TURNS(ES_MVE_INDEX8, SQUARE));
    }
    return v;
}

static inline int32x4_t tall(const es_mve_walk *at, uint32_t n, const int8_t *x,
                             const int32_t *bias)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w;
    const uint32_t sixteens = n / 16;
    int32_t a, b, c, d;
    int32x4_t v;
    n %= 16;
    if (at->wide) {
        SUMS("", SIXTEENS(SIXTEEN16) ES_MVE_TURNS(ES_MVE_INDEX16, FOUR));
    } else {
        SUMS("", SIXTEENS(SIXTEEN8) ES_MVE_TURNS(ES_MVE_INDEX8, FOUR));
    }
    return v;
}

/* ---- all of them ---- */

static inline __attribute__((always_inline)) void
all_rows(const es_row_group *group, const int32_t *bias, const es_mve_scale *by,
         const int8_t *const *x, int8_t *const *to, uint32_t columns,
         four_sums *sums)
{
    es_mve_walk at = es_mve_walk_begin(group);
    const int32_t *multiplier = by->multiplier;
    const int8_t *shift = by->shift;
    for (uint32_t r = 0; r < group->row_count; r += 4, bias += 4) {
        const uint32_t n = es_mve_walk_count(&at);
        for (uint32_t p = 0; p < columns; p++) {
            int32x4_t v = sums(&at, n, x[p], bias);
            v = es_mve_scaled(by, v, vldrwq_s32(multiplier), vldrbq_s32(shift));
            vstrbq_s32(to[p] + r, v);
        }
        es_mve_walk_past(&at, n, 4U * group->block_cols);
        multiplier += by->multiplier_step, shift += by->shift_step;
    }
}

void es_mve_four_by_four(const es_row_group *group, const int32_t *bias,
                         const es_mve_scale *by, const int8_t *const *x,
                         int8_t *const *to, uint32_t columns)
{
    all_rows(group, bias, by, x, to, columns, square);
}

void es_mve_four_by_one(const es_row_group *group, const int32_t *bias,
                        const es_mve_scale *by, const int8_t *const *x,
                        int8_t *const *to, uint32_t columns)
{
    all_rows(group, bias, by, x, to, columns, tall);
}
