/* Sums of rows times the inputs of one, two or four columns, with SMLAD and
 * SMLAL. */
#include "exec/sums_dsp.h"
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

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

void es_dsp_dense_four(es_dsp_work *at, uint32_t rows, const int32_t *bias,
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

void es_dsp_dense_one(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                      int32_t *sums)
{
    memcpy(sums, bias, rows * sizeof *sums);
    es_dsp_one_column(at->value, rows, at->cols, at->inputs, sums);
    at->value += rows * at->cols;
}

/* ---- blocks of 1 x 4, 2 x 4, 4 x 4 ---- */

static uint32_t next_count(es_dsp_work *at)
{
    uint32_t count = at->count[0] | (uint32_t)at->count[1] << 8;
    at->count += 2;
    return count;
}

/* What loops over block rows that take all registers find in memory. */
typedef struct block_rows {
    const int32_t *bias;
    const uint8_t *count;
    int32_t *sums;
    uint32_t left; /* block rows */
    const int8_t *w;
    const uint8_t *column;
    const void *inputs;
    uint32_t blocks; /* of a block row, if the loop keeps them here */
} block_rows;

#define RUN_BLOCK_ROWS(many, body)                                             \
    block_rows all = {bias,      at->count,  sums,       many,                 \
                      at->value, at->column, at->inputs, 0};                   \
    register block_rows *it __asm("r0") = &all;                                \
    __asm volatile(body                                                        \
                   : "+r"(it)                                                  \
                   :                                                           \
                   : "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9",     \
                     "r10", "r11", "r12", "lr", "memory", "cc");               \
    at->count = all.count;                                                     \
    at->value = all.w;                                                         \
    at->column = all.column

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
    void es_dsp_wide_##height(es_dsp_work *at, uint32_t rows,                  \
                              const int32_t *bias, int32_t *sums)              \
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
/* Rows of 1 x 4: the next one starts where this one ends. */
void es_dsp_wide_1(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                   int32_t *sums)
{
    RUN_BLOCK_ROWS(
        rows,
        "push {r0}\n\tadd r0, #16\n\tldmia r0, {r8-r10}\n\t"
        "1:\n\tldr r11, [sp]\n\tldrd r4, r5, [r11]\n\t"
        "ldr r0, [r4], #4\n\tldrh r12, [r5], #2\n\tstrd r4, r5, [r11]\n\t"
        "mov r1, r0\n\tmov r2, r0\n\tmov r3, r0\n\tstr r12, [r11, #28]\n\t"
        "lsrs r11, r12, #2\n\tbeq 3f\n\t"
        "2:\n\tpush {r11}\n\t" WIDE_BLOCK("4") WIDE_BLOCK("4") WIDE_BLOCK("4")
            WIDE_BLOCK("4") "pop {r11}\n\tsubs r11, #1\n\tbne 2b\n\t"
                            "3:\n\tldr r4, [sp]\n\tldr r11, [r4, #28]\n\tands "
                            "r11, #3\n\tbeq 5f\n\t"
                            "4:\n\tpush {r11}\n\t" WIDE_BLOCK(
                                "4") "pop {r11}\n\tsubs r11, #1\n\tbne 4b\n\t"
                                     "5:\n\tldr lr, [sp]\n\tldrd r4, r5, [lr, "
                                     "#8]\n\tstmia r4!, {r0-r3}\n\t"
                                     "subs r5, #1\n\tstrd r4, r5, [lr, "
                                     "#8]\n\tbne 1b\n\t"
                                     "pop {r0}\n\tadd r0, #16\n\tstmia r0, "
                                     "{r8-r9}\n\t");
}

WIDE_ROWS(2, "8")
WIDE_ROWS(4, "16")

/* ---- blocks of four rows, one patch ---- */

/* r0 points to the struct. r0 to r3: sums; r8: weights; r9: columns; r10: the
 * patch; r11: blocks of the block row. `many` blocks, 2^shift a turn, while
 * there are so many; `few` for what is left. Others are theirs, but lr counts
 * their turns. */
#define BLOCK_ROWS(many, shift, few)                                           \
    "push {r0}\n\tadd r0, #16\n\tldmia r0, {r8-r10}\n\t"                       \
    "1:\n\tldr lr, [sp]\n\tldrd r4, r5, [lr]\n\t"                              \
    "ldmia r4!, {r0-r3}\n\tldrh r11, [r5], #2\n\tstrd r4, r5, [lr]\n\t"        \
    "lsrs lr, r11, #" shift "\n\tbeq 3f\n\t"                                   \
    "2:\n\t" many "subs lr, #1\n\tbne 2b\n\t"                                  \
    "3:\n\t" few "ldr lr, [sp]\n\tldrd r4, r5, [lr, #8]\n\t"                   \
    "stmia r4!, {r0-r3}\n\tsubs r5, #1\n\tstrd r4, r5, [lr, #8]\n\tbne 1b\n\t" \
    "pop {r0}\n\tadd r0, #16\n\tstmia r0, {r8-r9}\n\t"

/* 4 x 4: 22 instructions for 16 products. r4, r5: rows; r6: even weights; r7,
 * r12: the inputs. */
#define SQUARE_ROW(row, sum)                                                   \
    "sxtb16 r6, " row "\n\tsxtb16 " row ", " row ", ror #8\n\t"                \
    "smlad " sum ", r6, r7, " sum "\n\tsmlad " sum ", " row ", r12, " sum      \
    "\n\t"
#define SQUARE_BLOCK                                                           \
    "ldrb r12, [r9], #1\n\tldmia r8!, {r4-r5}\n\t"                             \
    "ldr r12, [r10, r12, lsl #2]\n\t"                                          \
    "sxtb16 r7, r12\n\tsxtb16 r12, r12, ror #8\n\t" SQUARE_ROW("r4", "r0")     \
        SQUARE_ROW("r5", "r1") "ldmia r8!, {r4-r5}\n\t" SQUARE_ROW("r4", "r2") \
            SQUARE_ROW("r5", "r3")

void es_dsp_square_one(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                       int32_t *sums)
{
    RUN_BLOCK_ROWS(
        rows / 4,
        BLOCK_ROWS(SQUARE_BLOCK SQUARE_BLOCK SQUARE_BLOCK SQUARE_BLOCK, "2",
                   "ands lr, r11, #3\n\tbeq 5f\n\t"
                   "4:\n\t" SQUARE_BLOCK "subs lr, #1\n\tbne 4b\n\t5:\n\t"));
}

/* 4 x 1, two blocks: 16 instructions for 8 products. Weights of a row, and the
 * inputs they belong to, become halves of a word. */
#define TALL_PAIR                                                              \
    "ldrb r6, [r9], #1\n\tldrb r7, [r9], #1\n\t"                               \
    "ldrsb r6, [r10, r6]\n\tldrsb r7, [r10, r7]\n\t"                           \
    "ldmia r8!, {r4-r5}\n\tpkhbt r6, r6, r7, lsl #16\n\t"                      \
    "pkhbt r7, r4, r5, lsl #16\n\tpkhtb r5, r5, r4, asr #16\n\t"               \
    "sxtb16 r4, r7\n\tsxtb16 r7, r7, ror #8\n\t"                               \
    "smlad r0, r6, r4, r0\n\tsmlad r1, r6, r7, r1\n\t"                         \
    "sxtb16 r4, r5\n\tsxtb16 r5, r5, ror #8\n\t"                               \
    "smlad r2, r6, r4, r2\n\tsmlad r3, r6, r5, r3\n\t"
#define TALL_ONE                                                               \
    "ldrb r6, [r9], #1\n\tldr r4, [r8], #4\n\tldrsb r6, [r10, r6]\n\t"         \
    "sxtb16 r5, r4\n\tsxtb16 r4, r4, ror #8\n\t"                               \
    "smlabb r0, r6, r5, r0\n\tsmlabt r2, r6, r5, r2\n\t"                       \
    "smlabb r1, r6, r4, r1\n\tsmlabt r3, r6, r4, r3\n\t"

/* r0 to r3: sums; r8: weights; r9: columns; r10: the patch; r11: blocks that
 * are left; r12: counts of blocks; lr: biases. On the stack: how far behind the
 * biases sums are, and the last bias. */
void es_dsp_tall_one(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                     int32_t *sums)
{
    RUN_BLOCK_ROWS(
        rows / 4,
        "ldr lr, [r0]\n\tldr r12, [r0, #4]\n\tldrd r4, r5, [r0, #8]\n\t"
        "add r6, r0, #16\n\tldmia r6, {r8-r10}\n\tsub r4, lr\n\t"
        "subs r4, #16\n\tadd r5, lr, r5, lsl #4\n\tpush {r0, r4, r5}\n\t"
        "1:\n\tldrh r11, [r12], #2\n\tldmia lr!, {r0-r3}\n\t"
        "subs r11, #8\n\tblt 3f\n\t"
        "2:\n\t" TALL_PAIR TALL_PAIR TALL_PAIR TALL_PAIR
        "subs r11, #8\n\tbge 2b\n\t"
        "3:\n\tadds r11, #6\n\tblt 5f\n\t"
        "4:\n\t" TALL_PAIR "subs r11, #2\n\tbge 4b\n\t"
        "5:\n\ttst r11, #1\n\tbeq 6f\n\t" TALL_ONE
        "6:\n\tldrd r4, r5, [sp, #4]\n\tadd r4, lr\n\t"
        "stmia r4, {r0-r3}\n\tcmp lr, r5\n\tbne 1b\n\t"
        "pop {r0, r4, r5}\n\tstr r12, [r0, #4]\n\t"
        "adds r0, #16\n\tstmia r0, {r8-r9}\n\t");
}

/* ---- blocks of 4 x 1, two patches ---- */

/* 10 instructions for 8 products. A word holds x0 + x1 * 2^23, a sum of 64 bits
 * those of both: |sum of w * x0| < 2^22 for so many blocks, and 2^22 is added
 * to it, so that it is no negative number. r0 to r7: the sums; r11: a weight;
 * r12: the inputs. */
#define TALL_WEIGHT(low, high)                                                 \
    "ldrsb r11, [r8], #1\n\tsmlal " low ", " high ", r11, r12\n\t"
#define TALL_TWO                                                               \
    "ldrb r12, [r9], #1\n\tldr r12, [r10, r12, lsl #2]\n\t" TALL_WEIGHT(       \
        "r0", "r1") TALL_WEIGHT("r2", "r3") TALL_WEIGHT("r4", "r5")            \
        TALL_WEIGHT("r6", "r7")

/* Both sums of a row, and its bias. */
#define TALL_BOTH(low, high)                                                   \
    "ldr r11, [r12], #4\n\tlsr lr, " low ", #23\n\t"                           \
    "orr " high ", lr, " high ", lsl #9\n\tubfx " low ", " low ", #0, #23\n\t" \
    "add " high ", r11\n\tadd " low ", r11\n\tsub " low ", #0x400000\n\t"

void es_dsp_tall_two(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                     int32_t *sums)
{
    RUN_BLOCK_ROWS(
        rows / 4,
        "push {r0}\n\tadd r0, #16\n\tldmia r0, {r8-r10}\n\t"
        "1:\n\tldr r11, [sp]\n\tldr r12, [r11, #4]\n\tldrh lr, [r12], #2\n\t"
        "str r12, [r11, #4]\n\tstr lr, [r11, #28]\n\t"
        "mov r0, #0x400000\n\tmov r2, r0\n\tmov r4, r0\n\tmov r6, r0\n\t"
        "movs r1, #0\n\tmovs r3, #0\n\tmovs r5, #0\n\tmovs r7, #0\n\t"
        "lsrs lr, #2\n\tbeq 3f\n\t"
        "2:\n\t" TALL_TWO TALL_TWO TALL_TWO TALL_TWO "subs lr, #1\n\tbne 2b\n\t"
        "3:\n\tldr r11, [sp]\n\tldr lr, [r11, #28]\n\tands lr, #3\n\tbeq 5f\n\t"
        "4:\n\t" TALL_TWO "subs lr, #1\n\tbne 4b\n\tldr r11, [sp]\n\t"
        "5:\n\tldr r12, [r11]\n\t" TALL_BOTH("r0", "r1") TALL_BOTH("r2", "r3")
            TALL_BOTH("r4", "r5") TALL_BOTH(
                "r6", "r7") "ldr r11, [sp]\n\tldr lr, [r11, #8]\n\tstmia lr!, "
                            "{r0-r7}\n\t"
                            "ldr r0, [r11, #12]\n\tsubs r0, #1\n\tstr r0, "
                            "[r11, #12]\n\t"
                            "str r12, [r11]\n\tstr lr, [r11, #8]\n\tbne 1b\n\t"
                            "pop {r0}\n\tadd r0, #16\n\tstmia r0, {r8-r9}\n\t");
}
