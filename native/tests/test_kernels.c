/* The kernels of exec_kernels.inc against plain sums and the words of the
 * format, on random work. */
#include <stdio.h>

#include "check.h"
#include "elementwise.h"
#include "exec/kernels.h"

static uint32_t state = 1, claimed;

static uint32_t any(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static uint32_t below(uint32_t n)
{
    return any() % n;
}

/* int8, extremes as often as not */
static int8_t byte(void)
{
    return (int8_t)(below(4) ? any() : below(2) ? 127 : 128);
}

enum { K = 96, INPUTS = 4 * K };

static int8_t weights[ES_TILE_CHANNELS * K];
static int8_t inputs[ES_TILE_COLUMNS][INPUTS];
static es_tile tile, expected;
static es_dot_job job;

static void make_job(void)
{
    for (uint32_t i = 0; i < sizeof weights; i++) {
        weights[i] = byte();
    }
    tile.columns = 1 + below(ES_TILE_COLUMNS);
    tile.channels = ES_TILE_CHANNELS;
    for (uint32_t p = 0; p < ES_TILE_COLUMNS; p++) {
        job.x[p] = inputs[p];
        for (uint32_t i = 0; i < INPUTS; i++) {
            inputs[p][i] = byte();
        }
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            tile.value[p][r] = (int32_t)any() / 4;
            tile.channel[r] = (uint16_t)r;
        }
    }
    job.tile = &tile;
    job.zero = 0;
    job.pitch = job.group_channels = job.group_rows = 1;
    expected = tile;
}

static void compare(bool done)
{
    claimed += done;
    for (uint32_t p = 0; done && p < ES_TILE_COLUMNS; p++) {
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            CHECK(tile.value[p][r] == expected.value[p][r]);
        }
    }
}

/* Tap t of row r reads input t, or, depthwise, t * pitch + r. */
static void dot_rows(es_dot_rows_kernel *kernel, bool depthwise)
{
    make_job();
    uint32_t r = below(ES_TILE_CHANNELS);
    uint32_t rows = 1 + below(ES_TILE_CHANNELS - r), cols = 1 + below(K);
    if (depthwise) {
        job.pitch = ES_TILE_CHANNELS;
        cols = 1 + below(INPUTS / ES_TILE_CHANNELS);
    }
    for (uint32_t p = 0; p < tile.columns; p++) {
        for (uint32_t i = 0; i < rows * cols; i++) {
            uint32_t row = r + i / cols, tap = i % cols;
            uint32_t at = depthwise ? tap * job.pitch + row : tap;
            expected.value[p][row] += weights[i] * inputs[p][at];
        }
    }
    compare(kernel(&job, r, rows, weights, cols));
}

static void dot_batch(es_dot_batch_kernel *kernel, uint32_t rows, uint32_t cols)
{
    es_batch batch = {
        1 + below(ES_MAX_BATCH), rows, cols, cols, rows * cols, weights, {0}};
    make_job();
    if (batch.count * rows * cols > sizeof weights) {
        batch.count = (uint32_t)sizeof weights / (rows * cols);
    }
    for (uint32_t i = 0; i < batch.count; i++) {
        batch.column[i] = below(INPUTS - cols + 1);
    }
    uint32_t r = below(ES_TILE_CHANNELS - rows + 1);
    for (uint32_t p = 0; p < tile.columns; p++) {
        for (uint32_t i = 0; i < batch.count * rows * cols; i++) {
            uint32_t block = i / (rows * cols), row = i / cols % rows;
            int8_t x = inputs[p][batch.column[block] + i % cols];
            expected.value[p][r + row] += weights[i] * x;
        }
    }
    compare(kernel(&job, r, &batch));
}

static int32_t multipliers[ES_TILE_CHANNELS];
static int8_t shifts[ES_TILE_CHANNELS];

static es_stage make_requant(void)
{
    es_stage stage = {0};
    uint32_t count = below(2) ? ES_TILE_CHANNELS : 1;
    for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
        multipliers[r] = (int32_t)(any() >> 1);
        shifts[r] = (int8_t) - (int)below(32);
    }
    stage.kind = ES_STAGE_REQUANT;
    stage.zero_point = byte();
    stage.qmin = below(2) ? INT8_MIN : stage.zero_point;
    stage.qmax = below(2) || stage.zero_point > 99 ? INT8_MAX : 100;
    stage.multiplier.data = multipliers;
    stage.shift.data = shifts;
    stage.multiplier.count = stage.shift.count = count;
    return stage;
}

/* Sums of every size. */
static void make_sums(void)
{
    make_job();
    for (uint32_t p = 0; p < ES_TILE_COLUMNS; p++) {
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            tile.value[p][r] = (int32_t)any() >> below(31);
        }
    }
    expected = tile;
}

static void expect_requant(const es_stage *stage)
{
    for (uint32_t p = 0; p < tile.columns; p++) {
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            uint32_t at = stage->shift.count > 1 ? r : 0;
            int32_t v = es_mbqm(tile.value[p][r], multipliers[at], shifts[at],
                                stage->rounding);
            expected.value[p][r] =
                es_clamp(stage->zero_point + v, stage->qmin, stage->qmax);
        }
    }
}

static void requant(es_requant_kernel *kernel)
{
    es_stage stage = make_requant();
    make_sums();
    es_part part = {&tile, 0, ES_TILE_CHANNELS, 0};
    expect_requant(&stage);
    compare(kernel(&stage, &part));
}

static void finish(es_finish_kernel *kernel)
{
    static int8_t out[ES_TILE_COLUMNS][ES_TILE_CHANNELS];
    es_finish to = {.stage = make_requant()};
    make_sums();
    expect_requant(&to.stage);
    for (uint32_t p = 0; p < ES_TILE_COLUMNS; p++) {
        to.column[p] = out[p];
    }
    bool done = kernel(&to, &tile);
    claimed += done;
    for (uint32_t p = 0; done && p < tile.columns; p++) {
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            CHECK(out[p][r] == expected.value[p][r]);
        }
    }
}

static es_scaled factor(void)
{
    es_scaled by = {byte(), (int16_t) - (int)below(24), (int32_t)(any() >> 1)};
    return by;
}

static void add(es_add_kernel *kernel)
{
    es_scaled value = factor(), other = factor(), out = factor();
    es_stage stage = {0};
    stage.kind = ES_STAGE_ADD;
    stage.left_shift = 20;
    stage.qmin = INT8_MIN;
    stage.qmax = INT8_MAX;
    stage.value = &value;
    stage.other = &other;
    stage.out = &out;
    make_job();
    const ptrdiff_t column[ES_TILE_COLUMNS] = {0, INPUTS, 2 * INPUTS,
                                               3 * INPUTS};
    for (uint32_t p = 0; p < tile.columns; p++) {
        for (uint32_t r = 0; r < ES_TILE_CHANNELS; r++) {
            tile.value[p][r] = byte();
            expected.value[p][r] =
                es_clamp(es_stage_add(&stage, tile.value[p][r], inputs[p][r]),
                         -128, 127);
        }
    }
    es_part part = {&tile, 0, ES_TILE_CHANNELS, 0};
    compare(kernel(&stage, &part, inputs[0], column, 1));
}

static void sum(es_sum_kernel *kernel)
{
    int32_t got[K], wanted[K], zeros = (int32_t)any() / 4;
    uint32_t channels = below(K + 1);
    make_job();
    for (uint32_t i = 0; i < K; i++) {
        got[i] = wanted[i] = (int32_t)any() / 4;
        for (uint32_t p = 0; i < channels && p < tile.columns; p++) {
            wanted[i] += inputs[p][i] - (p ? 0 : zeros);
        }
    }
    claimed += kernel(got, job.x, tile.columns, zeros, channels);
    CHECK(memcmp(got, wanted, sizeof got) == 0);
}

int main(void)
{
    (void)sum; /* not every core has a kernel for it */
    uint32_t kernels = 0, depthwise = 0, others;
    (void)finish; /* not every instruction set has one */
    for (int i = 0; i < 400; i++) {
        kernels = 0;
#define ES_DOT_ROWS_KERNEL(name)                                               \
    dot_rows(name, false);                                                     \
    kernels++;                                                                 \
    others = claimed;                                                          \
    dot_rows(name, true);                                                      \
    depthwise += claimed - others;                                             \
    claimed = others;
#define ES_DOT_BATCH_KERNEL(name)                                              \
    dot_batch(name, 4, 1);                                                     \
    dot_batch(name, 1, 4);                                                     \
    dot_batch(name, 2, 4);                                                     \
    dot_batch(name, 4, 4);                                                     \
    kernels += 4;
#define ES_REQUANT_KERNEL(name)                                                \
    requant(name);                                                             \
    kernels++;
#define ES_ADD_KERNEL(name)                                                    \
    add(name);                                                                 \
    kernels++;
#define ES_FINISH_KERNEL(name)                                                 \
    finish(name);                                                              \
    kernels++;
#define ES_SUM_KERNEL(name)                                                    \
    sum(name);                                                                 \
    kernels++;
#include "exec/exec_kernels.inc"
    }
    CHECK(claimed == 400 * kernels); /* none of it left to portable C */
    CHECK(depthwise == 400);         /* one of the kernels is for it */
    printf("%lu pieces of work by kernels\n", (unsigned long)claimed);
    return failures != 0;
}
