/* Blocks of one or two rows and four columns with Helium: words of inputs are
 * gathered, four to a vector, which costs a Cortex-M55 as much as a plain load.
 * Few rows share a vector of inputs, so columns of the output share the one of
 * weights. */
#include "exec/mve_blocks.h"

/* ---- 1 x 4, four columns of the output ---- */

#define ONE_ROW                                                                \
    "vldrb.u8 q1, [%[w]], #16\n\tvldrw.u32 q2, [%[x0], q0, uxtw #2]\n\t"       \
    "vmladava.s8 %[a], q1, q2\n\t"
#define ONE_ROW_FOUR                                                           \
    ONE_ROW "vldrw.u32 q3, [%[x1], q0, uxtw #2]\n\t"                           \
            "vmladava.s8 %[b], q1, q3\n\t"                                     \
            "vldrw.u32 q2, [%[x2], q0, uxtw #2]\n\t"                           \
            "vmladava.s8 %[c], q1, q2\n\t"                                     \
            "vldrw.u32 q3, [%[x3], q0, uxtw #2]\n\t"                           \
            "vmladava.s8 %[d], q1, q3\n\t"

/* What rows take their numbers from, by twos: one LDRD. Ends of arrays, as rows
 * count up to 0. */
typedef struct two_ends {
    const void *first, *second;
} two_ends;
typedef struct out_end {
    int8_t *out;
    int32_t zero_point;
} out_end;

/* Biases; then, past the blocks of the row, what scales it. */
#define BEGIN                                                                  \
    "ldrd %[a], %[b], %[counts]\n\tldrh %[n], [%[a], %[row], lsl #1]\n\t"      \
    "ldr %[a], [%[b], %[row], lsl #2]\n\t"                                     \
    "mov %[b], %[a]\n\tmov %[c], %[a]\n\tmov %[d], %[a]\n\t"
/* `bytes`: what shifts a number of blocks to bytes of the index. */
#define SCALED(bytes)                                                          \
    "vmov %q[v][2], %q[v][0], %[a], %[c]\n\t"                                  \
    "vmov %q[v][3], %q[v][1], %[b], %[d]\n\t"                                  \
    "rsb %[n], #0\n\tand %[n], #3\n\t"                                         \
    "sub %[i], %[i], %[n], lsl #" bytes "\n\t"                                 \
    "sub %[w], %[w], %[n], lsl #2\n\tldrd %[a], %[b], %[scales]\n\t"           \
    "ldr %[a], [%[a], %[row], lsl #2]\n\tldrsb %[b], [%[b], %[row]]\n\t"       \
    "vqrdmulh.s32 %q[v], %q[v], %[a]\n\t"
#define SCALED8     SCALED("0")
#define SCALED16    SCALED("1")
#define UNRECTIFIED "vshr.s32 q0, %q[v], #31\n\tvadd.i32 %q[v], %q[v], q0\n\t"
#define STORED                                                                 \
    "ldrd %[c], %[d], %[outs]\n\tadd %[c], %[row]\n\t"                         \
    "vrshl.s32 %q[v], %[b]\n\tvadd.i32 %q[v], %q[v], %[d]\n\t"                 \
    "vmax.s32 %q[v], %q[v], %q[low]\n\tvmin.s32 %q[v], %q[v], %q[high]\n\t"    \
    "vstrb.32 %q[v], [%[c], %q[apart]]\n\t"

/* All rows: sums, 11 instructions for 64 products, and then their scaling with
 * a lane for each column; 28 a row besides. Left to the compiler, they are 58.
 */
#define ALL_ROWS(index, scaled, sign)                                          \
    __asm volatile("3:\t" BEGIN ES_MVE_LOOP index ONE_ROW_FOUR ES_MVE_END      \
                       scaled sign STORED "adds %[row], #1\n\tbne 3b"          \
                   : [v] "=&w"(v), [a] "=&Te"(a), [b] "=&Te"(b),               \
                     [c] "=&Te"(c), [d] "=&Te"(d), [i] "+&l"(i), [w] "+&r"(w), \
                     [row] "+&r"(row), [n] "=&r"(n)                            \
                   : ES_MVE_GIVEN(x0), ES_MVE_GIVEN(x1), ES_MVE_GIVEN(x2),     \
                     ES_MVE_GIVEN(x3), [counts] "m"(counts),                   \
                     [scales] "m"(scales), [outs] "m"(outs), [low] "w"(low),   \
                     [high] "w"(high), [apart] "w"(apart)                      \
                   : "lr", "q0", "q1", "q2", "q3", "memory", "cc")

/* noinline: it takes all registers. */
static __attribute__((noinline)) void
four_columns(const es_row_group *group, const int32_t *bias,
             const es_mve_scale *by, const int8_t *const *x, int8_t *const *to)
{
    const uint32_t offset[4] = {0, (uint32_t)(to[1] - to[0]),
                                (uint32_t)(to[2] - to[0]),
                                (uint32_t)(to[3] - to[0])};
    const uint32x4_t apart = vldrwq_u32(offset);
    const int32x4_t low = vdupq_n_s32(by->to.low);
    const int32x4_t high = vdupq_n_s32(by->to.high);
    const uint32_t rows = group->row_count;
    const uint8_t *i = group->index.data + 2 * rows;
    const two_ends counts = {i, bias + rows};
    const two_ends scales = {by->multiplier + rows, by->shift + rows};
    const out_end outs = {to[0] + rows, by->to.zero_point};
    const int8_t *w = group->values.data;
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    int32_t a, b, c, d, row = -(int32_t)rows;
    uint32_t n;
    int32x4_t v;
    if (group->index_bits == 8 && by->to.rectified) {
        ALL_ROWS(ES_MVE_INDEX8, SCALED8, "");
    } else if (group->index_bits == 8) {
        ALL_ROWS(ES_MVE_INDEX8, SCALED8, UNRECTIFIED);
    } else if (by->to.rectified) {
        ALL_ROWS(ES_MVE_INDEX16, SCALED16, "");
    } else {
        ALL_ROWS(ES_MVE_INDEX16, SCALED16, UNRECTIFIED);
    }
}

/* ---- fewer columns: sums of four rows, then their scaling ---- */

static inline int32_t one_row(const es_mve_walk *at, uint32_t n,
                              const int8_t *x0, int32_t a)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w;
#define ONE(index)                                                             \
    __asm volatile(ES_MVE_LOOP index ONE_ROW ES_MVE_END                        \
                   : ES_MVE_SUM(a), ES_MVE_LOW(i), ES_MVE_MOVES(w)             \
                   : ES_MVE_GIVEN(x0), ES_MVE_GIVEN(n)                         \
                   : "lr", "q0", "q1", "q2", "memory")
    if (at->wide) {
        ONE(ES_MVE_INDEX16);
    } else {
        ONE(ES_MVE_INDEX8);
    }
    return a;
}

/* sum[column][row] of `rows`, at most 4 */
static void four_rows(es_mve_walk *at, const int32_t *bias, uint32_t rows,
                      const int8_t *const *x, uint32_t columns,
                      int32_t (*sum)[4])
{
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t n = es_mve_walk_count(at);
        for (uint32_t p = 0; p < columns; p++) {
            sum[p][r] = one_row(at, n, x[p], bias[r]);
        }
        es_mve_walk_past(at, n, 4);
    }
}

/* ---- 2 x 4 ---- */

/* q7 has the addresses of the weights of four blocks: w + 0, 8, 16, 24, less
 * what the first load adds. */
#define EIGHT_APART                                                            \
    "mov %[d], #0\n\tvidup.u32 q7, %[d], #8\n\tvadd.i32 q7, q7, %[w]\n\t"
#define TWO_ROWS                                                               \
    "vldrw.u32 q1, [q7, #32]!\n\tvldrw.u32 q3, [%[x0], q0, uxtw #2]\n\t"       \
    "vmladava.s8 %[a], q1, q3\n\tvldrw.u32 q2, [q7, #4]\n\t"                   \
    "vmladava.s8 %[b], q2, q3\n\t"
/* 10 instructions for 64 products. */
#define TWO_ROWS_TWO                                                           \
    TWO_ROWS "vldrw.u32 q3, [%[x1], q0, uxtw #2]\n\t"                          \
             "vmladava.s8 %[c], q1, q3\n\tvmladava.s8 %[d], q2, q3\n\t"

/* Rows with biases a and b, of two columns; where there is one, it comes
 * twice. */
static inline void two_rows(const es_mve_walk *at, uint32_t n, const int8_t *x0,
                            const int8_t *x1, int32_t a, int32_t b,
                            int32_t *left, int32_t *right)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w - 32;
    int32_t c = a, d;
#define TWO(index)                                                             \
    __asm volatile(                                                            \
        EIGHT_APART                                                            \
        "mov %[d], %[b]\n\t" ES_MVE_LOOP index TWO_ROWS_TWO ES_MVE_END         \
        : ES_MVE_SUM(a), ES_MVE_SUM(b), ES_MVE_SUM(c), [d] "=&Te"(d),          \
          ES_MVE_LOW(i)                                                        \
        : ES_MVE_GIVEN(w), ES_MVE_GIVEN(x0), ES_MVE_GIVEN(x1), ES_MVE_GIVEN(n) \
        : "lr", "q0", "q1", "q2", "q3", "q7", "memory")
    if (at->wide) {
        TWO(ES_MVE_INDEX16);
    } else {
        TWO(ES_MVE_INDEX8);
    }
    left[0] = a, left[1] = b, right[0] = c, right[1] = d;
}

static void four_rows_by_twos(es_mve_walk *at, const int32_t *bias,
                              uint32_t rows, const int8_t *const *x,
                              uint32_t columns, int32_t (*sum)[4])
{
    for (uint32_t r = 0; r < rows; r += 2) {
        const uint32_t n = es_mve_walk_count(at);
        const int32_t a = bias[r], b = r + 1 < rows ? bias[r + 1] : 0;
        for (uint32_t p = 0; p < columns; p += 2) {
            uint32_t q = p + 1 < columns ? p + 1 : p;
            two_rows(at, n, x[p], x[q], a, b, &sum[p][r], &sum[q][r]);
        }
        es_mve_walk_past(at, n, 8);
    }
}

/* ---- all of them ---- */

typedef void sums_of(es_mve_walk *at, const int32_t *bias, uint32_t rows,
                     const int8_t *const *x, uint32_t columns,
                     int32_t (*sum)[4]);

static void all_rows(const es_row_group *group, const int32_t *bias,
                     const es_mve_scale *by, const int8_t *const *x,
                     int8_t *const *to, uint32_t columns, sums_of *sums)
{
    es_mve_walk at = es_mve_walk_begin(group);
    for (uint32_t r = 0; r < group->row_count; r += 4) {
        const uint32_t rest = group->row_count - r;
        const mve_pred16_t there = vctp32q(rest);
        int32_t sum[ES_TILE_COLUMNS][4];
        sums(&at, bias + r, rest < 4 ? rest : 4, x, columns, sum);
        const int32x4_t m = vldrwq_z_s32(by->multiplier + r, there);
        const int32x4_t h = vldrbq_z_s32(by->shift + r, there);
        for (uint32_t p = 0; p < columns; p++) {
            int32x4_t v = es_mve_scaled(by, vldrwq_z_s32(sum[p], there), m, h);
            vstrbq_p_s32(to[p] + r, v, there);
        }
    }
}

void es_mve_one_by_four(const es_row_group *group, const int32_t *bias,
                        const es_mve_scale *by, const int8_t *const *x,
                        int8_t *const *to, uint32_t columns)
{
    if (columns == 4) {
        four_columns(group, bias, by, x, to);
    } else {
        all_rows(group, bias, by, x, to, columns, four_rows);
    }
}

void es_mve_two_by_four(const es_row_group *group, const int32_t *bias,
                        const es_mve_scale *by, const int8_t *const *x,
                        int8_t *const *to, uint32_t columns)
{
    all_rows(group, bias, by, x, to, columns, four_rows_by_twos);
}
