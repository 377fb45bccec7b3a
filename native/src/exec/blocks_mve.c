/* Blocks of weights (BSR) with Helium. The index of four blocks, or sixteen, is
 * a vector, which gathers their inputs; LETP ends the lanes where the blocks of
 * a row end.
 *
 * Blocks that are four columns wide gather words, four to a vector, which costs
 * a Cortex-M55 as much as a plain load. A block of one column gathers bytes,
 * sixteen to a vector, which costs it four times that; four rows share it. */
#include "exec/mve_mac.h"
#include "weights/encoding.h"

/* Where the walk over a group stands. */
typedef struct walk {
    const uint8_t *count, *index; /* of blocks, u16; their columns */
    const int8_t *w;
    uint32_t index_bytes; /* of a column, 1 or 2 */
} walk;

/* Blocks of the next row block. */
static inline uint32_t next_count(walk *at)
{
    uint32_t n = es_index_u16(at->count, 0);
    at->count += 2;
    return n;
}

static inline void done(walk *at, uint32_t blocks, uint32_t block)
{
    at->index += blocks * at->index_bytes;
    at->w += blocks * block;
}

#define LOOP(load, body)                                                       \
    "wlstp.32 lr, %[n], 2f\n1:\t" load body "letp lr, 1b\n2:"
#define INDEX8        "vldrb.u32 q0, [%[i]], #4\n\t"
#define INDEX16       "vldrh.u32 q0, [%[i]], #8\n\t"
#define OUT(name)     [name] "+Te"(name)
#define POINTER(name) [name] "+r"(name)
#define LOW(name)     [name] "+l"(name) /* what widens loads from r0 to r7 */
#define GIVEN(name)   [name] "r"(name)

/* The words that stand at x + 4 * column. */
#define X(q, x) "vldrw.u32 " q ", [%[" x "], q0, uxtw #2]\n\t"

/* ---- 1 x 4 ---- */

#define ONE_ROW_FOUR                                                               \
    "vldrb.u8 q1, [%[w]], #16\n\t" X(                                              \
        "q2",                                                                      \
        "x0") "vmladava.s8 %[a], q1, q2\n\t" X("q3",                               \
                                               "x1") "vmladava.s8 %[b], q1, "      \
                                                     "q3\n\t" X("q2",              \
                                                                "x2") "vmlada"     \
                                                                      "va.s8 "     \
                                                                      "%[c], "     \
                                                                      "q1, "       \
                                                                      "q2\n"       \
                                                                      "\t" X("q3", \
                                                                             "x3") "vmladava.s8 %[d], q1, q3\n\t"
#define ONE_ROW_ONE                                                            \
    "vldrb.u8 q1, [%[w]], #16\n\t" X("q2", "x0") "vmladava.s8 %[a], q1, "      \
                                                 "q2\n\t"

static inline int32_t row_of_one(const walk *at, uint32_t n, const int8_t *x0,
                                 int32_t a)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w;
    if (at->index_bytes == 1) {
        __asm volatile(LOOP(INDEX8, ONE_ROW_ONE)
                       : OUT(a), LOW(i), POINTER(w)
                       : GIVEN(x0), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "memory");
    } else {
        __asm volatile(LOOP(INDEX16, ONE_ROW_ONE)
                       : OUT(a), LOW(i), POINTER(w)
                       : GIVEN(x0), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "memory");
    }
    return a;
}

static void one_by_four(walk *at, const int32_t *bias, const int8_t *const *x,
                        uint32_t columns, int32_t (*sum)[4])
{
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t n = next_count(at);
        for (uint32_t p = 0; p < columns; p++) {
            sum[p][r] = row_of_one(at, n, x[p], bias[r]);
        }
        done(at, n, 4);
    }
}

/* ---- 2 x 4 ---- */

/* q7 has the addresses of the weights of four blocks. */
#define TWO_ROWS_ONE                                                           \
    "vldrw.u32 q1, [q7, #32]!\n\t" X(                                          \
        "q3", "x0") "vldrw.u32 q2, [q7, #4]\n\t"                               \
                    "vmladava.s8 %[a], q1, q3\n\tvmladava.s8 %[b], q2, q3\n\t"
#define TWO_ROWS_TWO                                                           \
    TWO_ROWS_ONE X(                                                            \
        "q3", "x1") "vmladava.s8 %[c], q1, q3\n\tvmladava.s8 %[d], q2, q3\n\t"
#define EIGHT_APART "vidup.u32 q7, %[d], #8\n\tvadd.i32 q7, q7, %[w]\n\t"

/* 10 instructions for 64 products. */
static inline void two_rows_of_two(const walk *at, uint32_t n,
                                   const int8_t *const *x, const int32_t *bias,
                                   int32_t *left, int32_t *right)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w - 32, *x0 = x[0], *x1 = x[1];
    int32_t a = bias[0], b = bias[1], c = a, d = 0;
    if (at->index_bytes == 1) {
        __asm volatile(EIGHT_APART
                       "mov %[d], %[b]\n\t" LOOP(INDEX8, TWO_ROWS_TWO)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x0), GIVEN(x1), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    } else {
        __asm volatile(EIGHT_APART
                       "mov %[d], %[b]\n\t" LOOP(INDEX16, TWO_ROWS_TWO)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x0), GIVEN(x1), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    }
    left[0] = a, left[1] = b, right[0] = c, right[1] = d;
}

static inline void two_rows_of_one(const walk *at, uint32_t n, const int8_t *x0,
                                   const int32_t *bias, int32_t *left)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w - 32;
    int32_t a = bias[0], b = bias[1], d = 0;
    if (at->index_bytes == 1) {
        __asm volatile(EIGHT_APART LOOP(INDEX8, TWO_ROWS_ONE)
                       : OUT(a), OUT(b), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x0), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    } else {
        __asm volatile(EIGHT_APART LOOP(INDEX16, TWO_ROWS_ONE)
                       : OUT(a), OUT(b), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x0), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    }
    left[0] = a, left[1] = b;
}

static void two_by_four(walk *at, const int32_t *bias, const int8_t *const *x,
                        uint32_t columns, int32_t (*sum)[4])
{
    for (uint32_t r = 0; r < 4; r += 2) {
        uint32_t n = next_count(at), p = 0;
        for (; p + 2 <= columns; p += 2) {
            two_rows_of_two(at, n, x + p, bias + r, &sum[p][r], &sum[p + 1][r]);
        }
        if (p < columns) {
            two_rows_of_one(at, n, x[p], bias + r, &sum[p][r]);
        }
        done(at, n, 8);
    }
}

/* ---- 4 x 4 ---- */

/* 11 instructions for 64 products. */
#define FOUR_ROWS                                                              \
    "vldrw.u32 q1, [q7, #64]!\n\t" X(                                          \
        "q3", "x") "vmladava.s8 %[a], q1, q3\n\tvldrw.u32 q2, [q7, #4]\n\t"    \
                   "vmladava.s8 %[b], q2, q3\n\tvldrw.u32 q1, [q7, #8]\n\t"    \
                   "vmladava.s8 %[c], q1, q3\n\tvldrw.u32 q2, [q7, #12]\n\t"   \
                   "vmladava.s8 %[d], q2, q3\n\t"
#define SIXTEEN_APART                                                          \
    "vidup.u32 q7, %[d], #4\n\tvshl.i32 q7, q7, #2\n\t"                        \
    "vadd.i32 q7, q7, %[w]\n\t"

static inline void square(const walk *at, uint32_t n, const int8_t *x,
                          const int32_t *bias, int32_t *sum)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w - 64;
    int32_t a = bias[0], b = bias[1], c = bias[2], d = 0;
    if (at->index_bytes == 1) {
        __asm volatile(SIXTEEN_APART
                       "mov %[d], %[last]\n\t" LOOP(INDEX8, FOUR_ROWS)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x), GIVEN(n), [last] "r"(bias[3])
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    } else {
        __asm volatile(SIXTEEN_APART
                       "mov %[d], %[last]\n\t" LOOP(INDEX16, FOUR_ROWS)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i)
                       : GIVEN(w), GIVEN(x), GIVEN(n), [last] "r"(bias[3])
                       : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

static void four_by_four(walk *at, const int32_t *bias, const int8_t *const *x,
                         uint32_t columns, int32_t (*sum)[4])
{
    uint32_t n = next_count(at);
    for (uint32_t p = 0; p < columns; p++) {
        square(at, n, x[p], bias, sum[p]);
    }
    done(at, n, 16);
}

/* ---- 4 x 1 ---- */

/* Sixteen blocks, whose weights come apart by rows: 11 instructions for 64
 * products. */
#define APART                                                                  \
    "vld40.8 {q0, q1, q2, q3}, [%[w]]\n\tvld41.8 {q0, q1, q2, q3}, [%[w]]\n\t" \
    "vld42.8 {q0, q1, q2, q3}, [%[w]]\n\tvld43.8 {q0, q1, q2, q3}, "           \
    "[%[w]]!\n\t"
#define SIXTEEN8 "vldrb.u8 q4, [%[i]], #16\n\tvldrb.u8 q5, [%[x], q4]\n\t"
#define SIXTEEN16                                                              \
    "vld20.16 {q4, q5}, [%[i]]\n\tvld21.16 {q4, q5}, [%[i]]!\n\t"              \
    "vldrb.u16 q6, [%[x], q5]\n\tvldrb.u16 q5, [%[x], q4]\n\t"                 \
    "vsli.16 q5, q6, #8\n\t"
#define SUMS_OF_ROWS                                                           \
    "vmladava.s8 %[a], q0, q5\n\tvmladava.s8 %[b], q1, q5\n\t"                 \
    "vmladava.s8 %[c], q2, q5\n\tvmladava.s8 %[d], q3, q5\n\t"
#define SIXTEENS(load)                                                         \
    "wls lr, %[n], 2f\n1:\t" load APART SUMS_OF_ROWS "le lr, 1b\n2:"

/* Those that are left, four at a time: the input, alone in its word, is moved
 * to the byte of each row. */
#define TALL                                                                   \
    "vldrb.u8 q1, [%[w]], #16\n\tvldrb.u32 q2, [%[x], q0]\n\t"                 \
    "vmladava.s8 %[a], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[b], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[c], q1, q2\n\tvshl.i32 q2, q2, #8\n\t"                      \
    "vmladava.s8 %[d], q1, q2\n\t"

static inline void tall(const walk *at, uint32_t count, const int8_t *x,
                        const int32_t *bias, int32_t *sum)
{
    const uint8_t *i = at->index;
    const int8_t *w = at->w;
    int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
    uint32_t n = count / 16;
    if (at->index_bytes == 1) {
        __asm volatile(SIXTEENS(SIXTEEN8)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i), POINTER(w)
                       : GIVEN(x), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "memory");
        n = count % 16;
        __asm volatile(LOOP(INDEX8, TALL)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i), POINTER(w)
                       : GIVEN(x), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "memory");
    } else {
        __asm volatile(SIXTEENS(SIXTEEN16)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i), POINTER(w)
                       : GIVEN(x), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6",
                         "memory");
        n = count % 16;
        __asm volatile(LOOP(INDEX16, TALL)
                       : OUT(a), OUT(b), OUT(c), OUT(d), LOW(i), POINTER(w)
                       : GIVEN(x), GIVEN(n)
                       : "lr", "q0", "q1", "q2", "memory");
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

static void four_by_one(walk *at, const int32_t *bias, const int8_t *const *x,
                        uint32_t columns, int32_t (*sum)[4])
{
    uint32_t n = next_count(at);
    for (uint32_t p = 0; p < columns; p++) {
        tall(at, n, x[p], bias, sum[p]);
    }
    done(at, n, 4);
}

/* ---- a group ---- */

typedef void four_rows(walk *at, const int32_t *bias, const int8_t *const *x,
                       uint32_t columns, int32_t (*sum)[4]);

static four_rows *kernel_of(const es_row_group *group)
{
    if (group->block_cols == 4) {
        return group->block_rows == 1   ? one_by_four
               : group->block_rows == 2 ? two_by_four
               : group->block_rows == 4 ? four_by_four
                                        : NULL;
    }
    return group->block_cols == 1 && group->block_rows == 4 ? four_by_one
                                                            : NULL;
}

/* Words are loaded from addresses that are a multiple of 4, and half words of
 * the index from even ones. */
bool es_mve_takes_blocks(const es_regular *step)
{
    const es_row_group *group = &step->group;
    uintptr_t words = (uintptr_t)group->values.data;
    if (step->in_place) {
        words |= (uintptr_t)step->input.base | step->input.map.place->pitch;
    } else {
        words |= (uintptr_t)step->scratch | step->patch;
    }
    return group->encoding == ES_BSR && kernel_of(group) &&
           group->row_count % 4 == 0 && step->patch % group->block_cols == 0 &&
           (group->block_cols == 1 || words % 4 == 0) &&
           (uintptr_t)group->index.data % 2 == 0;
}

static walk begin(const es_row_group *group)
{
    uint32_t block_rows = group->row_count / group->block_rows;
    walk at = {group->index.data, group->index.data + 2 * block_rows,
               group->values.data, group->index_bits / 8U};
    return at;
}

/* ---- 1 x 4, four columns of the output ---- */

/* What rows take their numbers from, by twos: one LDRD. Ends of arrays, as rows
 * count up to 0. */
typedef struct two_ends {
    const void *first, *second;
} two_ends;
typedef struct out_end {
    int8_t *out;
    int32_t zero_point;
} out_end;

#define UNRECTIFIED "vshr.s32 q0, %q[v], #31\n\tvadd.i32 %q[v], %q[v], q0\n\t"

/* All rows: sums, 11 instructions for 64 products, and then their scaling with
 * a lane for each column; 27 a row besides. All registers are taken. `size` is
 * what shifts a number of blocks to bytes of the index. */
#define ALL_ROWS(load, size, sign)                                             \
    __asm volatile(                                                            \
        "3:\tldrd %[a], %[b], %[counts]\n\t"                                   \
        "ldrh %[n], [%[a], %[row], lsl #1]\n\t"                                \
        "ldr %[a], [%[b], %[row], lsl #2]\n\t"                                 \
        "mov %[b], %[a]\n\tmov %[c], %[a]\n\tmov %[d], %[a]\n\t"               \
        "wlstp.32 lr, %[n], 2f\n1:\t" load ONE_ROW_FOUR "letp lr, 1b\n"        \
        "2:\tvmov %q[v][2], %q[v][0], %[a], %[c]\n\t"                          \
        "vmov %q[v][3], %q[v][1], %[b], %[d]\n\t"                              \
        "rsb %[n], #0\n\tand %[n], #3\n\t"                                     \
        "sub %[i], %[i], %[n], lsl #" size "\n\t"                              \
        "sub %[w], %[w], %[n], lsl #2\n\t"                                     \
        "ldrd %[a], %[b], %[scales]\n\t"                                       \
        "ldr %[a], [%[a], %[row], lsl #2]\n\t"                                 \
        "ldrsb %[b], [%[b], %[row]]\n\t"                                       \
        "ldrd %[c], %[d], %[outs]\n\tadd %[c], %[row]\n\t"                     \
        "vqrdmulh.s32 %q[v], %q[v], %[a]\n\t" sign                             \
        "vrshl.s32 %q[v], %[b]\n\tvadd.i32 %q[v], %q[v], %[d]\n\t"             \
        "vmax.s32 %q[v], %q[v], %q[low]\n\t"                                   \
        "vmin.s32 %q[v], %q[v], %q[high]\n\t"                                  \
        "vstrb.32 %q[v], [%[c], %q[apart]]\n\t"                                \
        "adds %[row], #1\n\tbne 3b"                                            \
        : [v] "=&w"(v), [a] "=&Te"(a), [b] "=&Te"(b), [c] "=&Te"(c),           \
          [d] "=&Te"(d), [i] "+&l"(i), [w] "+&r"(w), [row] "+&r"(row),         \
          [n] "=&r"(n)                                                         \
        : GIVEN(x0), GIVEN(x1), GIVEN(x2), GIVEN(x3), [counts] "m"(counts),    \
          [scales] "m"(scales), [outs] "m"(outs), [low] "w"(low),              \
          [high] "w"(high), [apart] "w"(apart)                                 \
        : "lr", "q0", "q1", "q2", "q3", "memory", "cc")

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
        ALL_ROWS(INDEX8, "0", "");
    } else if (group->index_bits == 8) {
        ALL_ROWS(INDEX8, "0", UNRECTIFIED);
    } else if (by->to.rectified) {
        ALL_ROWS(INDEX16, "1", "");
    } else {
        ALL_ROWS(INDEX16, "1", UNRECTIFIED);
    }
}

void es_mve_blocks(const es_row_group *group, const int32_t *bias,
                   const es_mve_scale *by, const int8_t *const *x,
                   int8_t *const *to, uint32_t columns)
{
    if (columns == 4 && group->block_cols == 4 && group->block_rows == 1 &&
        by->multiplier_step && by->shift_step) {
        four_columns(group, bias, by, x, to);
        return;
    }
    four_rows *kernel = kernel_of(group);
    walk at = begin(group);
    const int32_t *multiplier = by->multiplier;
    const int8_t *shift = by->shift;
    for (uint32_t r = 0; r < group->row_count; r += 4) {
        int32_t sum[ES_TILE_COLUMNS][4];
        kernel(&at, bias + r, x, columns, sum);
        int32x4_t m = vldrwq_s32(multiplier), h = vldrbq_s32(shift);
        for (uint32_t p = 0; p < columns; p++) {
            vstrbq_s32(to[p] + r, es_mve_scaled(by, vldrwq_s32(sum[p]), m, h));
        }
        multiplier += by->multiplier_step, shift += by->shift_step;
    }
}
