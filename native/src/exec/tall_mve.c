/* Blocks of four rows with Helium: a vector of inputs serves four rows, whose
 * sums become the four lanes of a vector.
 *
 * 4 x 4 gathers words, four to a vector, which costs a Cortex-M55 as much as a
 * plain load. 4 x 1 gathers bytes, sixteen to a vector, which costs it four
 * times that; the weights of sixteen blocks come apart by rows (VLD4). */
#include "exec/mve_blocks.h"

/* ---- 4 x 4 ---- */

/* q7 = w + 0, 16, 32, 48, less what the first load adds. */
#define SQUARE_BEGIN                                                           \
    "mov lr, #0\n\tvidup.u32 q7, lr, #4\n\tvshl.i32 q7, q7, #2\n\t"            \
    "sub %[t1], %[w], #64\n\tvadd.i32 q7, q7, %[t1]\n\t"
/* 11 instructions for 64 products. */
#define SQUARE                                                                 \
    "vldrw.u32 q1, [q7, #64]!\n\tvldrw.u32 q3, [%[x], q0, uxtw #2]\n\t"        \
    "vmladava.s8 %[a], q1, q3\n\tvldrw.u32 q2, [q7, #4]\n\t"                   \
    "vmladava.s8 %[b], q2, q3\n\tvldrw.u32 q1, [q7, #8]\n\t"                   \
    "vmladava.s8 %[c], q1, q3\n\tvldrw.u32 q2, [q7, #12]\n\t"                  \
    "vmladava.s8 %[d], q2, q3\n\t"
#define SQUARES8                                                               \
    SQUARE_BEGIN "add %[w], %[w], %[n], lsl #4\n\t" ES_MVE_LOOP ES_MVE_INDEX8  \
        SQUARE ES_MVE_END
#define SQUARES16                                                              \
    SQUARE_BEGIN "add %[w], %[w], %[n], lsl #4\n\t" ES_MVE_LOOP ES_MVE_INDEX16 \
        SQUARE ES_MVE_END

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

/* Those that are left, four at a time: the input, alone in its word, is moved
 * to the byte of each row. */
#define FOUR                                                                   \
    "vldrb.u8 q1, [%[w]], #16\n\tvldrb.u32 q2, [%[x], q0]\n\t"                 \
    "vmladava.s8 %[a], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[b], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[c], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[d], q1, q2\n\t"
#define TALL_BEGIN "lsr lr, %[n], #4\n\tand %[n], #15\n\twls lr, lr, 5f\n4:\t"
#define TALL_REST  "le lr, 4b\n5:\t" ES_MVE_LOOP
#define TALL_END                                                               \
    ES_MVE_END "rsb %[t0], %[n], #0\n\tand %[t0], #3\n\t"                      \
               "sub %[w], %[w], %[t0], lsl #2\n\t"
#define TALL8 TALL_BEGIN SIXTEEN8 SIXTEEN TALL_REST ES_MVE_INDEX8 FOUR TALL_END
#define TALL16                                                                 \
    TALL_BEGIN SIXTEEN16 SIXTEEN TALL_REST ES_MVE_INDEX16 FOUR TALL_END

/* ---- all row blocks of one column ---- */

/* Numbers that the loop loads when it needs them, by twos (LDRD): there are not
 * enough registers. Pointers are ends, as row blocks count up to 0. */
typedef struct numbers {
    const uint8_t *counts;
    const int32_t *bias;
} numbers;
typedef struct scales {
    const int32_t *multiplier;
    const int8_t *shift;
} scales;
typedef struct ending {
    int8_t *to;
    int32_t zero_point;
} ending;

/* Some 33 instructions a row block besides the products; left to compilers 57.
 * `size` is what shifts a number of blocks to bytes of the index; then
 * registers that are touched. */
#define ALL_ROWS(sums, size, ...)                                              \
    __asm volatile(                                                            \
        "3:\tldrd %[t0], %[t1], %[from]\n\t"                                   \
        "ldrh %[n], [%[t0], %[row], lsl #1]\n\t"                               \
        "add %[t1], %[t1], %[row], lsl #4\n\t"                                 \
        "ldrd %[a], %[b], [%[t1]]\n\tldrd %[c], %[d], [%[t1], #8]\n\t" sums    \
        "rsb %[n], #0\n\tand %[n], #3\n\t"                                     \
        "sub %[i], %[i], %[n], lsl #" size "\n\t"                              \
        "vmov q0[2], q0[0], %[a], %[c]\n\tvmov q0[3], q0[1], %[b], %[d]\n\t"   \
        "ldrd %[t0], %[t1], %[scale]\n\t"                                      \
        "add %[t0], %[t0], %[row], lsl #4\n\t"                                 \
        "add %[t1], %[t1], %[row], lsl #2\n\t"                                 \
        "vldrw.u32 q1, [%[t0]]\n\tvldrb.s32 q2, [%[t1]]\n\t"                   \
        "vqrdmulh.s32 q0, q0, q1\n\tvshr.s32 q1, q0, #31\n\t"                  \
        "vadd.i32 q0, q0, q1\n\tvrshl.s32 q0, q0, q2\n\t"                      \
        "ldrd %[t0], %[t1], %[end]\n\tvadd.i32 q0, q0, %[t1]\n\t"              \
        "add %[t0], %[t0], %[row], lsl #2\n\t"                                 \
        "vmax.s32 q0, q0, %q[low]\n\tvmin.s32 q0, q0, %q[high]\n\t"            \
        "vstrb.32 q0, [%[t0]]\n\tadds %[row], #1\n\tbne 3b"                    \
        : [a] "=&Te"(a), [b] "=&Te"(b), [c] "=&Te"(c), [d] "=&Te"(d),          \
          [i] "+&l"(i), [w] "+&r"(w), [n] "=&r"(n), [t0] "=&l"(t0),            \
          [t1] "=&l"(t1), [row] "+&r"(row)                                     \
        : ES_MVE_GIVEN(x), [from] "m"(from), [scale] "m"(scale),               \
          [end] "m"(end), [low] "w"(low), [high] "w"(high)                     \
        : "lr", "q0", "q1", "q2", "q3", __VA_ARGS__, "memory", "cc")

/* Blocks of a group from a row block on. */
typedef struct part {
    const uint8_t *counts, *index;
    const int8_t *w;
} part;

/* `rows` of them, a multiple of 4; returns what comes after. noinline: it takes
 * all registers. */
static __attribute__((noinline)) part whole_blocks(const es_row_group *group,
                                                   part at, uint32_t rows,
                                                   const int32_t *bias,
                                                   const es_mve_scale *by,
                                                   const int8_t *x, int8_t *to)
{
    const uint8_t *i = at.index, *counts = at.counts + rows / 2;
    const int8_t *w = at.w, *t0, *t1;
    const numbers from = {counts, bias + rows};
    const scales scale = {by->multiplier + rows, by->shift + rows};
    const ending end = {to + rows, by->to.zero_point};
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    int32_t a, b, c, d, row = -(int32_t)(rows / 4);
    uint32_t n;
    if (group->block_cols == 4 && group->index_bits == 8) {
        ALL_ROWS(SQUARES8, "0", "q7");
    } else if (group->block_cols == 4) {
        ALL_ROWS(SQUARES16, "1", "q7");
    } else if (group->index_bits == 8) {
        ALL_ROWS(TALL8, "0", "q4", "q5");
    } else {
        ALL_ROWS(TALL16, "1", "q4", "q5");
    }
    part next = {counts, i, w};
    return next;
}

/* The last row block, of `rows` < 4: weights of those that are not there are 0,
 * and they get numbers of their own. */
static void last_block(const es_row_group *group, part at, uint32_t rows,
                       const int32_t *bias, const es_mve_scale *by,
                       const int8_t *x, int8_t *to)
{
    int32_t biases[4] = {0}, multipliers[4] = {0};
    int8_t shifts[4] = {-1, -1, -1, -1}, out[4];
    for (uint32_t r = 0; r < rows; r++) {
        biases[r] = bias[r];
        multipliers[r] = by->multiplier[r];
        shifts[r] = by->shift[r];
    }
    const es_mve_scale all = {multipliers, shifts, by->to};
    (void)whole_blocks(group, at, 4, biases, &all, x, out);
    memcpy(to, out, rows);
}

void es_mve_tall(const es_row_group *group, const int32_t *bias,
                 const es_mve_scale *by, const int8_t *const *x,
                 int8_t *const *to, uint32_t columns)
{
    const uint32_t rows = group->row_count, whole = rows / 4 * 4;
    const uint32_t counts = 2 * ((rows + 3) / 4);
    const es_mve_scale last = {by->multiplier + whole, by->shift + whole,
                               by->to};
    for (uint32_t p = 0; p < columns; p++) {
        part at = {group->index.data, group->index.data + counts,
                   group->values.data};
        if (whole) {
            at = whole_blocks(group, at, whole, bias, by, x[p], to[p]);
        }
        if (whole < rows) {
            last_block(group, at, rows - whole, bias + whole, &last, x[p],
                       to[p] + whole);
        }
    }
}
