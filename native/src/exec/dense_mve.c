/* Dense rows with Helium, sums and their scaling together: sixteen products an
 * instruction. VMLADAVA adds to even registers alone, so a loop has four sums,
 * two rows times two columns or four rows of one. Sums fit int32 in any order
 * (I-43). The four sums of a vector are made in one piece of assembly: left to
 * compilers, half of the instructions move registers about. */
#include "exec/mve_mac.h"

/* Two rows and two patches: 8 instructions for 64 products. */
#define TWO_BY_TWO                                                             \
    "vldrb.u8 q0, [%[w0]], #16\n\tvldrb.u8 q1, [%[x0]], #16\n\t"               \
    "vmladava.s8 %[a], q0, q1\n\tvldrb.u8 q2, [%[w1]], #16\n\t"                \
    "vmladava.s8 %[b], q2, q1\n\tvldrb.u8 q3, [%[x1]], #16\n\t"                \
    "vmladava.s8 %[c], q0, q3\n\tvmladava.s8 %[d], q2, q3\n\t"

/* Four rows and one patch: 9 instructions for 64 products. */
#define FOUR_BY_ONE                                                            \
    "vldrb.u8 q0, [%[x0]], #16\n\tvldrb.u8 q1, [%[w0]], #16\n\t"               \
    "vmladava.s8 %[a], q1, q0\n\tvldrb.u8 q2, [%[w1]], #16\n\t"                \
    "vmladava.s8 %[b], q2, q0\n\tvldrb.u8 q3, [%[w2]], #16\n\t"                \
    "vmladava.s8 %[c], q3, q0\n\tvldrb.u8 q1, [%[w3]], #16\n\t"                \
    "vmladava.s8 %[d], q1, q0\n\t"

/* What weights past the end of a row make pointers overshoot by. */
static inline uint32_t past_end(uint32_t cols)
{
    return -cols % 16;
}

/* ---- two columns ---- */

/* Numbers that the loop loads when it needs them, by twos (LDRD): there are not
 * enough registers. Pointers are ends, as rows count up to 0. */
typedef struct pointers {
    const void *first, *second;
} pointers;

/* n weights a row; n pairs of sixteen. */
#define TAILED "dlstp.8 lr, %[n]\n1:\t" TWO_BY_TWO "letp lr, 1b\n\t"
#define PAIRED "dls lr, %[n]\n1:\t" TWO_BY_TWO TWO_BY_TWO "le lr, 1b\n\t"

/* Both columns start with the biases. */
#define AT_BIAS "ldr %[x0], %[bias]\n\tadd %[x0], %[x0], %[row], lsl #2\n\t"
#define COLUMNS                                                                \
    "mov %[c], %[a]\n\tmov %[d], %[b]\n\tldrd %[x0], %[x1], %[x]\n\t"
#define ROWS_0_2                                                               \
    AT_BIAS "ldr %[a], [%[x0]]\n\tldr %[b], [%[x0], #8]\n\t" COLUMNS
#define ROWS_1_3                                                               \
    AT_BIAS "ldr %[a], [%[x0], #4]\n\tldr %[b], [%[x0], #12]\n\t" COLUMNS
#define LANES_0_2                                                              \
    "vmov %q[v][2], %q[v][0], %[a], %[b]\n\t"                                  \
    "vmov %q[u][2], %q[u][0], %[c], %[d]\n\t"
#define LANES_1_3                                                              \
    "vmov %q[v][3], %q[v][1], %[a], %[b]\n\t"                                  \
    "vmov %q[u][3], %q[u][1], %[c], %[d]\n\t"
/* Back to the end of the row. */
#define BACK "sub %[w0], %[over]\n\tsub %[w1], %[over]\n\t"

#define SCALED                                                                 \
    "ldrd %[x0], %[x1], %[scale]\n\t"                                          \
    "add %[x0], %[x0], %[row], lsl #2\n\tadd %[x1], %[row]\n\t"                \
    "vldrw.u32 q0, [%[x0]]\n\tvldrb.s32 q1, [%[x1]]\n\t"                       \
    "vqrdmulh.s32 %q[v], %q[v], q0\n\tvqrdmulh.s32 %q[u], %q[u], q0\n\t"
#define UNRECTIFIED                                                            \
    "vshr.s32 q2, %q[v], #31\n\tvshr.s32 q3, %q[u], #31\n\t"                   \
    "vadd.i32 %q[v], %q[v], q2\n\tvadd.i32 %q[u], %q[u], q3\n\t"
#define SHIFTED                                                                \
    "vrshl.s32 %q[v], %q[v], q1\n\tvrshl.s32 %q[u], %q[u], q1\n\t"             \
    "ldr %[a], %[zero]\n\tldrd %[x0], %[x1], %[out]\n\t"                       \
    "vadd.i32 %q[v], %q[v], %[a]\n\tvadd.i32 %q[u], %q[u], %[a]\n\t"
#define STORED                                                                 \
    "vmax.s32 %q[v], %q[v], %q[low]\n\tvmax.s32 %q[u], %q[u], %q[low]\n\t"     \
    "vmin.s32 %q[v], %q[v], %q[high]\n\tvmin.s32 %q[u], %q[u], %q[high]\n\t"   \
    "add %[x0], %[row]\n\tadd %[x1], %[row]\n\t"                               \
    "vstrb.32 %q[v], [%[x0]]\n\tvstrb.32 %q[u], [%[x1]]\n\t"

/* All rows, by fours: w0 and w1 walk over rows 0 and 2, then 1 and 3. 46
 * instructions a turn besides the products; in C twice as many. */
#define ALL_ROWS(products, back, sign)                                         \
    __asm volatile(                                                            \
        "3:\t" ROWS_0_2 products LANES_0_2 back ROWS_1_3 products LANES_1_3    \
            back SCALED sign SHIFTED STORED                                    \
        "add %[w0], %[two]\n\tadd %[w1], %[two]\n\t"                           \
        "adds %[row], #4\n\tbne 3b"                                            \
        : [v] "=&w"(v), [u] "=&w"(u), [a] "=&Te"(a), [b] "=&Te"(b),            \
          [c] "=&Te"(c), [d] "=&Te"(d), [w0] "+&r"(w0), [w1] "+&r"(w1),        \
          [x0] "=&l"(x0), [x1] "=&l"(x1), [row] "+&r"(row)                     \
        : [n] "r"(n), [two] "r"(two_rows), [bias] "m"(bias), [x] "m"(pair),    \
          [scale] "m"(scale), [out] "m"(out), [zero] "m"(zero),                \
          [over] "r"(over), [low] "w"(low), [high] "w"(high)                   \
        : "lr", "q0", "q1", "q2", "q3", "memory", "cc")

/* But for the last rows % 4. noinline: it takes all registers. */
static __attribute__((noinline)) void two_columns(const es_mve_mac *mac,
                                                  const es_mve_scale *by,
                                                  const int8_t *const *x,
                                                  int8_t *const *to)
{
    const bool paired = mac->cols % 32 == 0, rectified = by->to.rectified;
    const uint32_t n = paired ? mac->cols / 32 : mac->cols;
    const uint32_t over = past_end(mac->cols), two_rows = 2 * mac->cols;
    const uint32_t rows = mac->rows / 4 * 4;
    const int8_t *w0 = mac->w, *w1 = w0 + two_rows, *x0, *x1;
    const int32_t *bias = mac->bias + rows, zero = by->to.zero_point;
    const pointers pair = {x[0], x[1]};
    const pointers scale = {by->multiplier + rows, by->shift + rows};
    const pointers out = {to[0] + rows, to[1] + rows};
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    int32_t a, b, c, d, row = -(int32_t)rows;
    int32x4_t v, u;
    if (rows == 0) {
        return;
    }
    if (paired && rectified) {
        ALL_ROWS(PAIRED, "", "");
    } else if (paired) {
        ALL_ROWS(PAIRED, "", UNRECTIFIED);
    } else if (rectified) {
        ALL_ROWS(TAILED, BACK, "");
    } else {
        ALL_ROWS(TAILED, BACK, UNRECTIFIED);
    }
}

/* ---- one column ---- */

#define TAILED_FOUR                                                            \
    "ldr lr, %[n]\n\tdlstp.8 lr, lr\n1:\t" FOUR_BY_ONE "letp lr, 1b\n\t"
#define PAIRED_FOUR                                                            \
    "ldr lr, %[n]\n\tdls lr, lr\n1:\t" FOUR_BY_ONE FOUR_BY_ONE "le lr, 1b\n\t"
#define FOUR_BIASES                                                            \
    AT_BIAS "ldrd %[a], %[b], [%[x0]]\n\tldrd %[c], %[d], [%[x0], #8]\n\t"
/* From the ends of four rows to the next four. */
#define NEXT_FOUR                                                              \
    "ldr %[a], %[next]\n\tadd %[w0], %[a]\n\tadd %[w1], %[a]\n\t"              \
    "add %[w2], %[a]\n\tadd %[w3], %[a]\n\t"
#define FOUR_SCALED                                                            \
    "ldrd %[x0], %[x1], %[scale]\n\t"                                          \
    "add %[x0], %[x0], %[row], lsl #2\n\tadd %[x1], %[row]\n\t"                \
    "vldrw.u32 q1, [%[x0]]\n\tvldrb.s32 q2, [%[x1]]\n\t"                       \
    "vqrdmulh.s32 q0, q0, q1\n\tvshr.s32 q1, q0, #31\n\t"                      \
    "vadd.i32 q0, q0, q1\n\tvrshl.s32 q0, q0, q2\n\t"
#define FOUR_STORED                                                            \
    "ldr %[x0], %[to]\n\tldr %[a], %[zero]\n\tadd %[x0], %[row]\n\t"           \
    "vadd.i32 q0, q0, %[a]\n\t"                                                \
    "vmax.s32 q0, q0, %q[low]\n\tvmin.s32 q0, q0, %q[high]\n\t"                \
    "vstrb.32 q0, [%[x0]]\n\t"

/* All rows, by fours: 31 instructions a turn besides the products; in C 45. */
#define COLUMN(products)                                                       \
    __asm volatile(                                                            \
        "3:\t" FOUR_BIASES "ldr %[x0], %[x]\n\t" products                      \
        "vmov q0[2], q0[0], %[a], %[c]\n\t"                                    \
        "vmov q0[3], q0[1], %[b], %[d]\n\t" NEXT_FOUR FOUR_SCALED FOUR_STORED  \
        "adds %[row], #4\n\tbne 3b"                                            \
        : [a] "=&Te"(a), [b] "=&Te"(b), [c] "=&Te"(c), [d] "=&Te"(d),          \
          [w0] "+&r"(w0), [w1] "+&r"(w1), [w2] "+&r"(w2), [w3] "+&r"(w3),      \
          [x0] "=&l"(x0), [x1] "=&l"(x1), [row] "+&r"(row)                     \
        : [bias] "m"(bias), [x] "m"(x), [n] "m"(n), [next] "m"(next),          \
          [scale] "m"(scale), [to] "m"(to), [zero] "m"(zero), [low] "w"(low),  \
          [high] "w"(high)                                                     \
        : "lr", "q0", "q1", "q2", "q3", "memory", "cc")

/* But for the last rows % 4. noinline: it takes all registers. */
static __attribute__((noinline)) void one_column(const es_mve_mac *mac,
                                                 const es_mve_scale *by,
                                                 const int8_t *x, int8_t *to)
{
    const bool paired = mac->cols % 32 == 0;
    const uint32_t cols = mac->cols, n = paired ? cols / 32 : cols;
    const uint32_t next = 3 * cols - past_end(cols);
    const uint32_t rows = mac->rows / 4 * 4;
    const int8_t *w0 = mac->w, *w1 = w0 + cols, *w2 = w1 + cols;
    const int8_t *w3 = w2 + cols, *x0, *x1;
    const int32_t *bias = mac->bias + rows, zero = by->to.zero_point;
    const pointers scale = {by->multiplier + rows, by->shift + rows};
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    int32_t a, b, c, d, row = -(int32_t)rows;
    to += rows;
    if (rows == 0) {
        return;
    }
    if (paired) {
        COLUMN(PAIRED_FOUR);
    } else {
        COLUMN(TAILED_FOUR);
    }
}

/* The last rows, fewer than four: the last of them again in place of those that
 * are not there, which are not stored. */
static void rest(const es_mve_mac *mac, const es_mve_scale *by, const int8_t *x,
                 int8_t *to)
{
    const uint32_t first = mac->rows / 4 * 4, count = mac->rows - first;
    const uint32_t n = mac->cols, one = count > 1, two = count > 2 ? 2 : one;
    const int32_t *bias = mac->bias + first;
    const int8_t *w0 = mac->w + first * n;
    const int8_t *w1 = w0 + one * n, *w2 = w0 + two * n, *w3 = w2;
    int32_t a = bias[0], b = bias[one], c = bias[two], d = c;
    __asm volatile("dlstp.8 lr, %[n]\n1:\t" FOUR_BY_ONE "letp lr, 1b"
                   : [a] "+&Te"(a), [b] "+&Te"(b), [c] "+&Te"(c), [d] "+&Te"(d),
                     [w0] "+&r"(w0), [w1] "+&r"(w1), [w2] "+&r"(w2),
                     [w3] "+&r"(w3), [x0] "+&r"(x)
                   : [n] "r"(n)
                   : "lr", "q0", "q1", "q2", "q3", "memory");
    int32x4_t v = es_mve_four(a, b, c, d);
    const mve_pred16_t there = vctp32q(count);
    v = es_mve_scaled(by, v, vldrwq_z_s32(by->multiplier + first, there),
                      vldrbq_z_s32(by->shift + first, there));
    vstrbq_p_s32(to + first, v, there);
}

void es_mve_dense(const es_mve_mac *mac, const es_mve_scale *by,
                  const int8_t *const *x, int8_t *const *to, uint32_t columns)
{
    uint32_t p = 0;
    for (; p + 2 <= columns; p += 2) {
        two_columns(mac, by, x + p, to + p);
    }
    if (p < columns) {
        one_column(mac, by, x[p], to[p]);
    }
    for (p = 0; mac->rows % 4 && p < columns; p++) {
        rest(mac, by, x[p], to[p]);
    }
}
