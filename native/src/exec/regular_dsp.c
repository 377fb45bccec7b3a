/* Whole Mac steps with SMLAD and SMLAL. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

#define ALONE static __attribute__((noinline))

/* Rows of a matrix, on their way through it. */
typedef struct walk {
    const int8_t *value;
    const uint8_t *count, *column; /* blocks: how many, and where */
} walk;

/* What rows of one encoding do: sums of rows [row, row + rows), which start
 * from the biases. */
typedef void sums_of_rows(const es_row_group *group, walk *at,
                          const void *inputs, uint32_t cols, uint32_t rows,
                          int32_t *sums);

/* ---- dense rows, four columns: 13 instructions for 16 products ---- */

/* r4 to r7 are the pairs of two columns. */
#define FOUR_COLUMNS(x)                                                        \
    "ldmia %[" x "]!, {r4-r7}\n\t"                                             \
    "sxtb16 %[we], %[wo]\n\tsxtb16 %[wo], %[wo], ror #8\n\t"                   \
    "smlad %[a], %[we], r4, %[a]\n\tsmlad %[b], %[we], r6, %[b]\n\t"           \
    "smlad %[a], %[wo], r5, %[a]\n\tsmlad %[b], %[wo], r7, %[b]\n\t"           \
    "ldmia %[" x "]!, {r4-r7}\n\t"                                             \
    "smlad %[c], %[we], r4, %[c]\n\tsmlad %[d], %[we], r6, %[d]\n\t"           \
    "smlad %[c], %[wo], r5, %[c]\n\tsmlad %[d], %[wo], r7, %[d]\n\t"
#define DENSE_WORD "ldr %[wo], [%[w]], #4\n\t" FOUR_COLUMNS("x")

#define DENSE_FOUR(words)                                                      \
    __asm volatile("1:\n\t" words "subs %[turns], %[turns], #1\n\tbne 1b\n\t"  \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w] "+&r"(w), [x] "+&r"(x), [we] "=&r"(we),               \
                     [wo] "=&r"(wo), [turns] "+&r"(turns)                      \
                   :                                                           \
                   : "r4", "r5", "r6", "r7", "memory", "cc")

ALONE void dense_four(const es_row_group *group, walk *at, const void *inputs,
                      uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)group;
    uint32_t groups = (cols + 3) / 4;
    for (const int8_t *w = at->value; rows > 0; rows--, sums += 4) {
        const uint32_t *x = inputs;
        int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        uint32_t we, wo, turns = groups / 4;
        if (turns > 0) {
            DENSE_FOUR(DENSE_WORD DENSE_WORD DENSE_WORD DENSE_WORD);
        }
        turns = groups % 4;
        if (turns > 0) {
            DENSE_FOUR(DENSE_WORD);
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
        w -= (0 - cols) % 4; /* the words end past the row: times zeros */
        at->value = w;
    }
}

ALONE void dense_one(const es_row_group *group, walk *at, const void *inputs,
                     uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)group;
    es_dsp_one_column(at->value, rows, cols, inputs, sums);
    at->value += rows * cols;
}

/* ---- blocks of 1 x 4, 2 x 4, 4 x 4 ---- */

static uint32_t next_count(walk *at)
{
    uint32_t count = at->count[0] | (uint32_t)at->count[1] << 8;
    at->count += 2;
    return count;
}

/* The counter of turns shares a register, and waits on the stack meanwhile. */
#define TURNS(with, body)                                                      \
    "1:\n\tpush {%[" with "]}\n\t" body "pop {%[" with "]}\n\t"                \
    "subs %[" with "], %[" with "], #1\n\tbne 1b\n\t"

#define WIDE_BLOCK                                                             \
    "ldrb %[xa], [%[at]], #1\n\tldr %[wo], [%[w]], %[stride]\n\t"              \
    "add %[xa], %[tile], %[xa], lsl #5\n\t" FOUR_COLUMNS("xa")

#define WIDE_FOUR(body)                                                        \
    __asm volatile(TURNS("xa", body)                                           \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w] "+&r"(w), [at] "+&r"(column), [we] "=&r"(we),         \
                     [wo] "=&r"(wo), [xa] "+&r"(turns)                         \
                   : [tile] "r"(tile), [stride] "i"(stride)                    \
                   : "r4", "r5", "r6", "r7", "memory", "cc")

/* One row of blocks that are `stride` bytes, four columns. */
static inline __attribute__((always_inline)) const uint8_t *
wide_row(const int8_t *w, const uint8_t *column, uint32_t blocks,
         const uint32_t *tile, int32_t *sums, const int stride)
{
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    uint32_t we, wo, turns = blocks / 4;
    if (turns > 0) {
        WIDE_FOUR(WIDE_BLOCK WIDE_BLOCK WIDE_BLOCK WIDE_BLOCK);
    }
    turns = blocks % 4;
    if (turns > 0) {
        WIDE_FOUR(WIDE_BLOCK);
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    return column;
}

#define WIDE_ROW(stride)                                                       \
    ALONE const uint8_t *wide_row_##stride(                                    \
        const int8_t *w, const uint8_t *column, uint32_t blocks,               \
        const uint32_t *tile, int32_t *sums)                                   \
    {                                                                          \
        return wide_row(w, column, blocks, tile, sums, stride);                \
    }
WIDE_ROW(4)
WIDE_ROW(8)
WIDE_ROW(16)

static void wide_four(const es_row_group *group, walk *at, const void *inputs,
                      uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)cols;
    uint32_t height = group->block_rows;
    for (uint32_t row = 0; row < rows; row += height) {
        uint32_t blocks = next_count(at);
        const uint8_t *column = at->column;
        for (uint32_t r = 0; r < height && row + r < rows; r++, sums += 4) {
            const int8_t *w = at->value + 4 * r;
            if (height == 1) {
                column = wide_row_4(w, at->column, blocks, inputs, sums);
            } else if (height == 2) {
                column = wide_row_8(w, at->column, blocks, inputs, sums);
            } else {
                column = wide_row_16(w, at->column, blocks, inputs, sums);
            }
        }
        at->column = column;
        at->value += blocks * height * 4;
    }
}

/* Four rows and one patch: 22 instructions for 16 products. */
#define SQUARE_ROW(row, sum)                                                   \
    "sxtb16 %[e], " row "\n\tsxtb16 " row ", " row ", ror #8\n\t"              \
    "smlad %[" sum "], %[e], %[xe], %[" sum "]\n\t"                            \
    "smlad %[" sum "], " row ", %[xo], %[" sum "]\n\t"
#define SQUARE_BLOCK                                                           \
    "ldrb %[xo], [%[at]], #1\n\tldmia %[w]!, {r4-r5}\n\t"                      \
    "ldr %[xo], [%[x], %[xo], lsl #2]\n\t"                                     \
    "sxtb16 %[xe], %[xo]\n\tsxtb16 %[xo], %[xo], ror #8\n\t" SQUARE_ROW("r4",  \
                                                                        "a")   \
        SQUARE_ROW("r5", "b") "ldmia %[w]!, {r4-r5}\n\t" SQUARE_ROW("r4", "c") \
            SQUARE_ROW("r5", "d")
#define SQUARE(body)                                                           \
    __asm volatile("1:\n\t" body "subs %[turns], %[turns], #1\n\tbne 1b\n\t"   \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w] "+&r"(w), [at] "+&r"(column), [e] "=&r"(e),           \
                     [xe] "=&r"(xe), [xo] "=&r"(xo), [turns] "+&r"(turns)      \
                   : [x] "r"(x)                                                \
                   : "r4", "r5", "memory", "cc")

ALONE void square_one(const es_row_group *group, walk *at, const void *inputs,
                      uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)group, (void)cols;
    const int8_t *x = inputs, *w = at->value;
    const uint8_t *column = at->column;
    for (uint32_t row = 0; row < rows; row += 4, sums += 4) {
        int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        uint32_t e, xe, xo, blocks = next_count(at), turns = blocks / 4;
        if (turns > 0) {
            SQUARE(SQUARE_BLOCK SQUARE_BLOCK SQUARE_BLOCK SQUARE_BLOCK);
        }
        turns = blocks % 4;
        if (turns > 0) {
            SQUARE(SQUARE_BLOCK);
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    }
    at->value = w;
    at->column = column;
}

/* ---- blocks of 4 x 1 ---- */

/* One patch, two blocks: 16 instructions for 8 products. Weights of a row, and
 * the inputs they belong to, become halves of a word. */
#define TALL_PAIR                                                              \
    "ldrb %[i], [%[at]], #1\n\tldrb %[j], [%[at]], #1\n\t"                     \
    "ldrsb %[i], [%[x], %[i]]\n\tldrsb %[j], [%[x], %[j]]\n\t"                 \
    "ldmia %[w]!, {r4-r5}\n\tpkhbt %[i], %[i], %[j], lsl #16\n\t"              \
    "pkhbt %[j], r4, r5, lsl #16\n\tpkhtb r5, r5, r4, asr #16\n\t"             \
    "sxtb16 r4, %[j]\n\tsxtb16 %[j], %[j], ror #8\n\t"                         \
    "smlad %[a], %[i], r4, %[a]\n\tsmlad %[b], %[i], %[j], %[b]\n\t"           \
    "sxtb16 r4, r5\n\tsxtb16 r5, r5, ror #8\n\t"                               \
    "smlad %[c], %[i], r4, %[c]\n\tsmlad %[d], %[i], r5, %[d]\n\t"
#define TALL(body)                                                             \
    __asm volatile("1:\n\t" body "subs %[turns], %[turns], #1\n\tbne 1b\n\t"   \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w] "+&r"(w), [at] "+&r"(column), [i] "=&r"(i),           \
                     [j] "=&r"(j), [turns] "+&r"(turns)                        \
                   : [x] "r"(x)                                                \
                   : "r4", "r5", "memory", "cc")

ALONE void tall_one(const es_row_group *group, walk *at, const void *inputs,
                    uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)group, (void)cols;
    const int8_t *x = inputs, *w = at->value;
    const uint8_t *column = at->column;
    for (uint32_t row = 0; row < rows; row += 4, sums += 4) {
        int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        uint32_t i, j, blocks = next_count(at), turns = blocks / 8;
        if (turns > 0) {
            TALL(TALL_PAIR TALL_PAIR TALL_PAIR TALL_PAIR);
        }
        turns = blocks % 8 / 2;
        if (turns > 0) {
            TALL(TALL_PAIR);
        }
        if (blocks % 2) {
            int32_t last = x[*column++];
            a += w[0] * last, b += w[1] * last;
            c += w[2] * last, d += w[3] * last;
            w += 4;
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    }
    at->value = w;
    at->column = column;
}

/* Two patches: 10 instructions for 8 products. A word holds x0 + x1 * 2^23, a
 * sum of 64 bits those of both: |sum of w * x0| < 2^22 for so many blocks. */
enum { MOST_BLOCKS = 255 };

#define TALL_TWO                                                               \
    "ldrb %[i], [%[at]], #1\n\tldr %[i], [%[x], %[i], lsl #2]\n\t"             \
    "ldrsb %[e], [%[w]], #1\n\tsmlal %Q[a], %R[a], %[e], %[i]\n\t"             \
    "ldrsb %[e], [%[w]], #1\n\tsmlal %Q[b], %R[b], %[e], %[i]\n\t"             \
    "ldrsb %[e], [%[w]], #1\n\tsmlal %Q[c], %R[c], %[e], %[i]\n\t"             \
    "ldrsb %[e], [%[w]], #1\n\tsmlal %Q[d], %R[d], %[e], %[i]\n\t"
#define TALL_BOTH(body)                                                        \
    __asm volatile("1:\n\t" body "subs %[turns], %[turns], #1\n\tbne 1b\n\t"   \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w] "+&r"(w), [at] "+&r"(column), [e] "=&r"(e),           \
                     [i] "=&r"(i), [turns] "+&r"(turns)                        \
                   : [x] "r"(x)                                                \
                   : "memory", "cc")

/* Both sums of one row. */
static void add_both(int64_t both, int32_t *sums)
{
    uint32_t bits = 32 - ES_DSP_PAIR_BITS;
    sums[0] += (int32_t)((uint32_t)both << bits) >> bits;
    sums[1] +=
        (int32_t)((both + (1 << (ES_DSP_PAIR_BITS - 1))) >> ES_DSP_PAIR_BITS);
}

ALONE void tall_two(const es_row_group *group, walk *at, const void *inputs,
                    uint32_t cols, uint32_t rows, int32_t *sums)
{
    (void)group, (void)cols;
    const int32_t *x = inputs;
    const int8_t *w = at->value;
    const uint8_t *column = at->column;
    for (uint32_t row = 0; row < rows; row += 4, sums += 8) {
        uint32_t left = next_count(at);
        while (left > 0) {
            int64_t a = 0, b = 0, c = 0, d = 0;
            uint32_t blocks = left < MOST_BLOCKS ? left : MOST_BLOCKS;
            uint32_t i, turns = blocks / 4;
            int32_t e;
            left -= blocks;
            if (turns > 0) {
                TALL_BOTH(TALL_TWO TALL_TWO TALL_TWO TALL_TWO);
            }
            turns = blocks % 4;
            if (turns > 0) {
                TALL_BOTH(TALL_TWO);
            }
            add_both(a, sums);
            add_both(b, sums + 2);
            add_both(c, sums + 4);
            add_both(d, sums + 6);
        }
    }
    at->value = w;
    at->column = column;
}

/* ---- a step ---- */

/* How the columns of a step are computed: so many together. */
typedef struct method {
    uint32_t width; /* 1, 2 or 4 */
    sums_of_rows *sums;
} method;

static bool choose(const es_regular *step, method *to)
{
    const es_row_group *group = &step->group;
    uint32_t words = 4 * es_dsp_groups(step);
    uint32_t four = 2 * words + (step->geometry->in_c % 4 ? words / 4 : 0);
    bool fours =
        es_has_fours() && step->columns > 2 && step->scratch_bytes >= 4 * four;
    to->width = fours ? 4 : 1;
    if (ES_HAS_DENSE && group->encoding == ES_DENSE) {
        to->sums = fours ? dense_four : dense_one;
        return true;
    }
    if (!ES_HAS_BSR || group->encoding != ES_BSR || group->index_bits != 8) {
        return false;
    }
    if (ES_HAS_WIDE && group->block_cols == 4) {
        to->sums = fours ? wide_four : square_one;
        return fours ? group->block_rows <= 2 || group->block_rows == 4
                     : group->block_rows == 4 && step->patch % 4 == 0 &&
                           group->row_count % 4 == 0;
    }
    if (!ES_HAS_TALL || group->block_cols != 1 || group->block_rows != 4 ||
        group->row_count % 4) {
        return false;
    }
    to->width = es_has_pairs() && step->columns > 1 &&
                        step->scratch_bytes >= 4 * step->patch
                    ? 2
                    : 1;
    to->sums = to->width == 2 ? tall_two : tall_one;
    return true;
}

void es_dsp_set_columns(es_dsp_tile *tile, uint32_t first)
{
    const es_regular *step = tile->step;
    uint32_t rest = step->columns - first;
    tile->count = rest < tile->width ? rest : tile->width;
    for (uint32_t p = 0; p < tile->count; p++) {
        int32_t column = (int32_t)(first + p);
        tile->output[p] =
            step->output.base + es_column_at(&step->output.map, column);
        if (step->add.kind) {
            tile->operand[p] =
                step->operand.base + es_column_at(&step->operand.map, column);
        }
    }
}

/* Where the inputs of the columns from `first` on are now. */
static const void *inputs_of(const es_regular *step, uint32_t width,
                             uint32_t first)
{
    void *scratch = step->scratch;
    if (width == 1) {
        return es_regular_patch(step, first, scratch);
    }
    if (es_has_pairs() && width == 2) {
        es_dsp_pair(step, first, scratch);
    } else if (es_has_fours()) {
        es_dsp_widen(step, first, scratch);
    }
    return scratch;
}

/* Sums start from the biases. */
static void set_biases(es_dsp_tile *tile, uint32_t row, uint32_t rows)
{
    const int32_t *bias = tile->step->bias + row, *end = bias + rows;
    int32_t *sums = tile->sums;
    if (tile->width == 4) {
        for (; bias != end; bias++, sums += 4) {
            sums[0] = sums[1] = sums[2] = sums[3] = *bias;
        }
    } else if (tile->width == 2) {
        for (; bias != end; bias++, sums += 2) {
            sums[0] = sums[1] = *bias;
        }
    } else {
        memcpy(sums, bias, rows * sizeof *sums);
    }
}

static void run(const es_regular *step, const method *how)
{
    const es_row_group *group = &step->group;
    es_dsp_tile tile;
    tile.step = step;
    tile.width = how->width;
    uint32_t most = ES_DSP_SUMS / how->width;
    bool blocks = group->encoding == ES_BSR;
    uint32_t height = blocks ? group->block_rows : 1U;
    uint32_t counts = (group->row_count + height - 1) / height;
    for (uint32_t first = 0; first < step->columns; first += tile.width) {
        walk at = {group->values.data, group->index.data,
                   group->index.data + 2 * counts};
        const void *inputs = inputs_of(step, how->width, first);
        es_dsp_set_columns(&tile, first);
        for (uint32_t row = 0; row < group->row_count; row += most) {
            uint32_t rest = group->row_count - row;
            uint32_t count = rest < most ? rest : most;
            set_biases(&tile, row, count);
            how->sums(group, &at, inputs, step->patch, count, tile.sums);
            es_dsp_finish(&tile, row, count);
        }
    }
}

bool es_regular__dsp(const es_regular *step)
{
    method how;
    if (!es_dsp_finishes(step)) {
        return false;
    }
    if (ES_HAS_GROUPS && step->geometry->groups != 1) {
        return es_dsp_depthwise(step);
    }
    if (!choose(step, &how)) {
        return false;
    }
    run(step, &how);
    return true;
}
