/* Whole Mac steps with SMLAD and SMLAL. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

#define ALONE static __attribute__((noinline))

/* A matrix that rows are taken from, one after the other, and what they are
 * multiplied with. */
typedef struct work {
    uint32_t cols;
    const void *inputs;
    const int8_t *value;           /* of the next row */
    const uint8_t *count, *column; /* blocks: how many, and where */
} work;

/* What the next `rows` rows do: sums that start from their biases. */
typedef void sums_of_rows(work *at, uint32_t rows, const int32_t *bias,
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

ALONE void dense_four(work *at, uint32_t rows, const int32_t *bias,
                      int32_t *sums)
{
    uint32_t cols = at->cols, groups = (cols + 3) / 4;
    const int8_t *w = at->value;
    for (; rows > 0; rows--, sums += 4) {
        const uint32_t *x = at->inputs;
        int32_t a = *bias++, b = a, c = a, d = a;
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
    }
    at->value = w;
}

static void dense_one(work *at, uint32_t rows, const int32_t *bias,
                      int32_t *sums)
{
    memcpy(sums, bias, rows * sizeof *sums);
    es_dsp_one_column(at->value, rows, at->cols, at->inputs, sums);
    at->value += rows * at->cols;
}

/* ---- blocks of 1 x 4, 2 x 4, 4 x 4 ---- */

static uint32_t next_count(work *at)
{
    uint32_t count = at->count[0] | (uint32_t)at->count[1] << 8;
    at->count += 2;
    return count;
}

/* A row of blocks, four columns, as it lies in memory: the loop takes all the
 * registers there are. */
typedef struct wide_row {
    int32_t bias;
    const int8_t *w;
    const uint8_t *column;
    const uint32_t *tile;
    uint32_t turns, rest; /* blocks: four a turn, then those that are left */
    int32_t *sums;        /* where they go: advanced by four */
} wide_row;

/* r0 to r3: sums; r4 to r7: inputs; r8: weights; r9: columns; r10: the tile;
 * r11: where in it; r12, lr: pairs of weights. The counter of turns is r11
 * between them, and waits on the stack meanwhile. */
#define WIDE_BLOCK(stride)                                                     \
    "ldrb r11, [r9], #1\n\tldr lr, [r8], #" stride "\n\t"                      \
    "add r11, r10, r11, lsl #5\n\tldmia r11!, {r4-r7}\n\t"                     \
    "sxtb16 r12, lr\n\tsxtb16 lr, lr, ror #8\n\t"                              \
    "smlad r0, r12, r4, r0\n\tsmlad r1, r12, r6, r1\n\t"                       \
    "smlad r0, lr, r5, r0\n\tsmlad r1, lr, r7, r1\n\t"                         \
    "ldmia r11, {r4-r7}\n\t"                                                   \
    "smlad r2, r12, r4, r2\n\tsmlad r3, r12, r6, r3\n\t"                       \
    "smlad r2, lr, r5, r2\n\tsmlad r3, lr, r7, r3\n\t"

/* Does what is said in the struct; r0 points to it. */
#define WIDE_ROW(stride)                                                       \
    "push {r0}\n\tldmia r0, {r0, r8-r12}\n\tpush {r12}\n\t"                    \
    "mov r1, r0\n\tmov r2, r0\n\tmov r3, r0\n\tcmp r11, #0\n\tbeq 2f\n\t"      \
    "1:\n\tpush {r11}\n\t" WIDE_BLOCK(stride) WIDE_BLOCK(stride)               \
        WIDE_BLOCK(stride) WIDE_BLOCK(                                         \
            stride) "pop {r11}\n\tsubs r11, #1\n\tbne 1b\n\t"                  \
                    "2:\n\tpop {r11}\n\tcmp r11, #0\n\tbeq 4f\n\t"             \
                    "3:\n\tpush {r11}\n\t" WIDE_BLOCK(                         \
                        stride) "pop {r11}\n\tsubs r11, #1\n\tbne 3b\n\t"      \
                                "4:\n\tpop {r4}\n\tldr r5, [r4, "              \
                                "#24]\n\tstmia r5!, {r0-r3}\n\t"               \
                                "str r9, [r4, #8]\n\tstr r5, [r4, #24]\n\t"

/* Rows of blocks that are `height` high. */
#define WIDE_ROWS(height, stride)                                              \
    ALONE void wide_##height(work *at, uint32_t rows, const int32_t *bias,     \
                             int32_t *sums)                                    \
    {                                                                          \
        wide_row row = {0, NULL, NULL, at->inputs, 0, 0, sums};                \
        while (rows > 0) {                                                     \
            uint32_t blocks = next_count(at);                                  \
            uint32_t part = rows < height ? rows : height;                     \
            for (uint32_t r = 0; r < part; r++) {                              \
                register wide_row *it __asm("r0") = &row;                      \
                row.bias = *bias++;                                            \
                row.w = at->value + 4 * r;                                     \
                row.column = at->column;                                       \
                row.turns = blocks / 4;                                        \
                row.rest = blocks % 4;                                         \
                __asm volatile(WIDE_ROW(stride)                                \
                               : "+r"(it)                                      \
                               :                                               \
                               : "r1", "r2", "r3", "r4", "r5", "r6", "r7",     \
                                 "r8", "r9", "r10", "r11", "r12", "lr",        \
                                 "memory", "cc");                              \
            }                                                                  \
            at->column = row.column;                                           \
            at->value += blocks * height * 4;                                  \
            rows -= part;                                                      \
        }                                                                      \
    }
WIDE_ROWS(1, "4")
WIDE_ROWS(2, "8")
WIDE_ROWS(4, "16")

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

ALONE void square_one(work *at, uint32_t rows, const int32_t *bias,
                      int32_t *sums)
{
    const int8_t *x = at->inputs, *w = at->value;
    const uint8_t *column = at->column;
    for (; rows > 0; rows -= 4, bias += 4, sums += 4) {
        int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
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

ALONE void tall_one(work *at, uint32_t rows, const int32_t *bias, int32_t *sums)
{
    const int8_t *x = at->inputs, *w = at->value;
    const uint8_t *column = at->column;
    for (; rows > 0; rows -= 4, bias += 4, sums += 4) {
        int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
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

ALONE void tall_two(work *at, uint32_t rows, const int32_t *bias, int32_t *sums)
{
    const int32_t *x = at->inputs;
    const int8_t *w = at->value;
    const uint8_t *column = at->column;
    for (; rows > 0; rows -= 4, sums += 8) {
        uint32_t left = next_count(at);
        for (uint32_t r = 0; r < 4; r++) {
            sums[2 * r] = sums[2 * r + 1] = *bias++;
        }
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

/* Dense rows are faster with Helium. */
#ifdef ES_BUILD_MVE
enum { TAKES_DENSE = 0 };
#else
enum { TAKES_DENSE = 1 };
#endif

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
        return TAKES_DENSE;
    }
    if (!ES_HAS_BSR || group->encoding != ES_BSR || group->index_bits != 8) {
        return false;
    }
    if (ES_HAS_WIDE && group->block_cols == 4) {
        uint32_t height = group->block_rows;
        to->sums = !fours        ? square_one
                   : height == 1 ? wide_1
                   : height == 2 ? wide_2
                                 : wide_4;
        return fours ? height <= 2 || height == 4
                     : height == 4 && step->patch % 4 == 0 &&
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
        work at = {step->patch, inputs_of(step, how->width, first),
                   group->values.data, group->index.data,
                   group->index.data + 2 * counts};
        es_dsp_set_columns(&tile, first);
        for (uint32_t row = 0; row < group->row_count; row += most) {
            uint32_t rest = group->row_count - row;
            uint32_t count = rest < most ? rest : most;
            how->sums(&at, count, step->bias + row, tile.sums);
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
