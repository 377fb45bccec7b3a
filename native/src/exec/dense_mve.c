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

/* n weights a row; n pairs of sixteen. */
#define TAILED(body) "dlstp.8 lr, %[n]\n1:\t" body "letp lr, 1b\n\t"
#define PAIRED(body) "dls lr, %[n]\n1:\t" body body "le lr, 1b\n\t"

/* Two rows, biases at bytes `first` and `second`, to lanes `low` and `high`. */
#define TWO_ROWS(loop, first, second, low, high)                               \
    "ldr %[a], [%[bias], #" first "]\n\tldr %[b], [%[bias], #" second "]\n\t"  \
    "mov %[c], %[a]\n\tmov %[d], %[b]\n\tldrd %[x0], %[x1], [%[x]]\n\t" loop(  \
        TWO_BY_TWO) "vmov %q[left][" high "], %q[left][" low                   \
                    "], %[a], %[b]\n\t"                                        \
                    "vmov %q[right][" high "], %q[right][" low                 \
                    "], %[c], %[d]\n\t"

/* w0 and w1 walk over rows 0 and 1, 2 and 3, `over` past the end of each. */
#define FOUR_ROWS(loop)                                                        \
    __asm volatile(                                                            \
        TWO_ROWS(                                                              \
            loop, "0", "8", "0",                                               \
            "2") "sub %[w0], %[over]\n\tsub %[w1], %[over]\n\t" TWO_ROWS(loop, \
                                                                         "4",  \
                                                                         "12", \
                                                                         "1",  \
                                                                         "3")  \
        : [left] "=&w"(left), [right] "=&w"(right), [a] "=&Te"(a),             \
          [b] "=&Te"(b), [c] "=&Te"(c), [d] "=&Te"(d), [w0] "+&r"(w0),         \
          [w1] "+&r"(w1), [x0] "=&r"(x0), [x1] "=&r"(x1)                       \
        : [bias] "r"(bias), [x] "r"(x), [n] "r"(n), [over] "r"(over)           \
        : "lr", "q0", "q1", "q2", "q3", "memory")

/* What weights past the end of a row make pointers overshoot by. */
static inline uint32_t past_end(uint32_t cols)
{
    return -cols % 16;
}

/* Four rows at a time, two columns; each channel has its own scale. */
static void two_columns(const es_mve_mac *mac, const es_mve_scale *by,
                        const int8_t *const *x, int8_t *const *to)
{
    const bool paired = mac->cols % 32 == 0, rectified = by->to.rectified;
    const uint32_t n = paired ? mac->cols / 32 : mac->cols;
    const uint32_t over = past_end(mac->cols), next = 2 * mac->cols - over;
    const int8_t *w0 = mac->w, *w1 = w0 + 2 * mac->cols, *shift = by->shift;
    const int32_t *bias = mac->bias, *multiplier = by->multiplier;
    int8_t *left_to = to[0], *right_to = to[1];
    const int32_t *end = bias + mac->rows / 4 * 4;
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    while (bias != end) {
        int32x4_t left, right;
        int32_t a, b, c, d;
        const int8_t *x0, *x1;
        if (paired) {
            FOUR_ROWS(PAIRED);
        } else {
            FOUR_ROWS(TAILED);
        }
        const int32x4_t m = vldrwq_s32(multiplier), h = vldrbq_s32(shift);
        w0 += next, w1 += next, bias += 4, multiplier += 4, shift += 4;
        left = vqrdmulhq_s32(left, m), right = vqrdmulhq_s32(right, m);
        if (!rectified) {
            left = vaddq_s32(left, vshrq_n_s32(left, 31));
            right = vaddq_s32(right, vshrq_n_s32(right, 31));
        }
        left = vaddq_n_s32(vrshlq_s32(left, h), by->to.zero_point);
        right = vaddq_n_s32(vrshlq_s32(right, h), by->to.zero_point);
        vstrbq_s32(left_to, vminq_s32(vmaxq_s32(left, low), high));
        vstrbq_s32(right_to, vminq_s32(vmaxq_s32(right, low), high));
        left_to += 4, right_to += 4;
    }
}

/* Rows w, w1, w2, w3 of one column. */
#define FOUR_SUMS(loop)                                                        \
    __asm volatile(                                                            \
        "ldrd %[a], %[b], [%[bias]]\n\t"                                       \
        "ldrd %[c], %[d], [%[bias], #8]\n\tmov %[x0], %[x]\n\t" loop(          \
            FOUR_BY_ONE) "vmov %q[v][2], %q[v][0], %[a], %[c]\n\t"             \
                         "vmov %q[v][3], %q[v][1], %[b], %[d]"                 \
        : [v] "=&w"(v), [a] "=&Te"(a), [b] "=&Te"(b), [c] "=&Te"(c),           \
          [d] "=&Te"(d), [w0] "+&r"(w0), [w1] "+&r"(w1), [w2] "+&r"(w2),       \
          [w3] "+&r"(w3), [x0] "=&r"(x0)                                       \
        : [bias] "r"(bias), [x] "r"(x), [n] "r"(n)                             \
        : "lr", "q0", "q1", "q2", "q3", "memory")

static void one_column(const es_mve_mac *mac, const es_mve_scale *by,
                       const int8_t *x, int8_t *to)
{
    const bool paired = mac->cols % 32 == 0;
    const uint32_t cols = mac->cols, n = paired ? cols / 32 : cols;
    const uint32_t next = 3 * cols - past_end(cols);
    const int8_t *w0 = mac->w, *shift = by->shift, *x0;
    const int8_t *w1 = w0 + cols, *w2 = w1 + cols, *w3 = w2 + cols;
    const int32_t *bias = mac->bias, *multiplier = by->multiplier;
    const int32_t *end = bias + mac->rows / 4 * 4;
    const uint32_t multiplier_step = by->multiplier_step;
    const uint32_t shift_step = by->shift_step;
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    while (bias != end) {
        int32_t a, b, c, d;
        int32x4_t v;
        if (paired) {
            FOUR_SUMS(PAIRED);
        } else {
            FOUR_SUMS(TAILED);
        }
        v = es_mve_rounded(by, v, vldrwq_s32(multiplier), vldrbq_s32(shift));
        v = vaddq_n_s32(v, by->to.zero_point);
        vstrbq_s32(to, vminq_s32(vmaxq_s32(v, low), high));
        w0 += next, w1 += next, w2 += next, w3 += next, bias += 4, to += 4;
        multiplier += multiplier_step, shift += shift_step;
    }
}

/* The last rows, fewer than four: the last of them again in place of those that
 * are not there, which are not stored. */
static void rest(const es_mve_mac *mac, const es_mve_scale *by, const int8_t *x,
                 int8_t *to)
{
    const uint32_t first = mac->rows / 4 * 4, count = mac->rows - first;
    const uint32_t n = mac->cols, one = count > 1, two = count > 2 ? 2 : one;
    const int32_t *from = mac->bias + first;
    const int32_t bias[4] = {from[0], from[one], from[two], 0};
    const int8_t *w0 = mac->w + first * n, *x0;
    const int8_t *w1 = w0 + one * n, *w2 = w0 + two * n, *w3 = w2;
    int32_t a, b, c, d;
    int32x4_t v;
    FOUR_SUMS(TAILED);
    const mve_pred16_t there = vctp32q(count);
    const uint32_t m = first / 4 * by->multiplier_step;
    const uint32_t h = first / 4 * by->shift_step;
    v = es_mve_scaled(by, v, vldrwq_z_s32(by->multiplier + m, there),
                      vldrbq_z_s32(by->shift + h, there));
    vstrbq_p_s32(to + first, v, there);
}

void es_mve_dense(const es_mve_mac *mac, const es_mve_scale *by,
                  const int8_t *const *x, int8_t *const *to, uint32_t columns)
{
    uint32_t p = 0;
    if (by->multiplier_step && by->shift_step) {
        for (; p + 2 <= columns; p += 2) {
            two_columns(mac, by, x + p, to + p);
        }
    }
    for (; p < columns; p++) {
        one_column(mac, by, x[p], to[p]);
    }
    for (p = 0; mac->rows % 4 && p < columns; p++) {
        rest(mac, by, x[p], to[p]);
    }
}
