/* Kernels of whole steps (exec/regular.h) against the words of the format, on
 * random steps: every shape that they take, and none that they must not. */
#include <stdio.h>

#include "check.h"
#include "elementwise.h"
#include "exec/kernels.h"

static uint32_t state = 1;

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

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + below(high - low + 1);
}

/* int8, extremes as often as not */
static int8_t byte(void)
{
    return (int8_t)(below(4) ? any() : below(2) ? 127 : 128);
}

enum {
    INPUTS = 2048,
    MOST_ROWS = 40,
    MOST_COLUMNS = 40,
    MOST_PATCH = 320,
    GAP = 3, /* of the pitches */
    OUTPUTS = MOST_COLUMNS * (MOST_ROWS + GAP)
};

/* The step, and what it points to. */
static es_regular step;
static es_geometry geometry;
static es_place input_place, output_place, operand_place;
static int8_t input[INPUTS], operand[OUTPUTS], output[OUTPUTS],
    expected[OUTPUTS];
static int8_t matrix[MOST_ROWS * MOST_PATCH]; /* as it is stored, but dense */
static int8_t values[MOST_ROWS * MOST_PATCH + 64] __attribute__((aligned(16)));
static uint8_t places[MOST_ROWS * (MOST_PATCH + 2)];
static int32_t bias[MOST_ROWS], multipliers[MOST_ROWS];
static int8_t shifts[MOST_ROWS];
static es_scaled value_by, operand_by, out_by;
static uint8_t scratch[9 * MOST_PATCH] __attribute__((aligned(16)));

/* ---- a step ---- */

static void make_geometry(bool depthwise)
{
    es_geometry *g = &geometry;
    do {
        memset(g, 0, sizeof *g);
        g->in_h = (uint16_t)(below(2) ? 1 : between(1, 6));
        g->in_w = (uint16_t)between(1, 12);
        g->in_c = (uint16_t)(below(4) ? 4 * between(1, 10) : between(1, 9));
        g->kernel_h = (uint16_t)(g->in_h == 1 ? 1 : between(1, 3));
        g->kernel_w = (uint16_t)between(1, 5);
        g->stride_h = (uint16_t)between(1, 2);
        g->stride_w = (uint16_t)between(1, 2);
        g->dilation_h = (uint16_t)between(1, 2);
        g->dilation_w = (uint16_t)between(1, 2);
        g->pad_top = (uint16_t)below(g->kernel_h);
        g->pad_left = (uint16_t)below(g->kernel_w);
        g->out_h = (uint16_t)between(1, g->in_h);
        g->out_w = (uint16_t)between(1, g->in_w);
        g->rows = depthwise ? g->in_c : (uint16_t)between(1, MOST_ROWS);
        g->rows = below(3) ? (uint16_t)((g->rows + 3) / 4 * 4) : g->rows;
        g->groups = depthwise ? g->in_c : 1;
        step.patch = (uint32_t)g->kernel_h * g->kernel_w * g->in_c;
        step.columns = (uint32_t)g->out_h * g->out_w;
    } while (step.patch > MOST_PATCH || step.columns > MOST_COLUMNS ||
             (uint32_t)g->in_h * g->in_w * (g->in_c + GAP) > INPUTS);
    step.geometry = g;
}

/* Whether no tap is outside, and those of a patch stand side by side. */
static bool stands_in_place(void)
{
    const es_geometry *g = &geometry;
    bool inside =
        g->pad_top == 0 && g->pad_left == 0 &&
        (g->out_h - 1) * g->stride_h + (g->kernel_h - 1) * g->dilation_h <
            g->in_h &&
        (g->out_w - 1) * g->stride_w + (g->kernel_w - 1) * g->dilation_w <
            g->in_w;
    bool one = g->kernel_h == 1 && g->kernel_w == 1;
    bool row = g->kernel_h == 1 && g->dilation_w == 1 &&
               input_place.pitch == g->in_c && !step.input.map.ring_columns;
    return inside && (one || row);
}

static void make_places(void)
{
    const es_geometry *g = &geometry;
    es_place none = {0};
    input_place = output_place = none;
    input_place.channels = g->in_c;
    input_place.columns = (uint32_t)g->in_h * g->in_w;
    input_place.pitch = g->in_c + (below(2) ? 0 : below(GAP + 1));
    input_place.zero_point = byte();
    output_place.channels = g->rows;
    output_place.columns = step.columns;
    output_place.pitch = g->rows + below(GAP + 1);
    operand_place = output_place;
    operand_place.pitch = g->rows + below(GAP + 1);
    es_map in = {&input_place, 0, 0};
    if (below(3) == 0) { /* the window starts anywhere in the ring */
        in.ring_columns = INPUTS / input_place.pitch;
        in.first = below(in.ring_columns);
    }
    es_map out = {&output_place, 0, 0};
    if (below(3) == 0) {
        out.ring_columns = step.columns + below(3);
        out.first = below(out.ring_columns);
        while (out.ring_columns * output_place.pitch > OUTPUTS) {
            out.ring_columns = 0;
            out.first = 0;
        }
    }
    step.input.base = input;
    step.input.map = in;
    step.output.base = output;
    step.output.map = out;
    step.operand.base = operand;
    step.operand.map = (es_map){&operand_place, 0, 0};
    if (below(2)) { /* in place */
        step.operand.base = output;
        step.operand.map = out;
    }
    step.in_place = stands_in_place();
}

static void put_u16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

/* Blocks of height x width, one in `sparse` stored; in `matrix` as well. */
static void make_blocks(uint32_t height, uint32_t width, uint32_t sparse)
{
    uint32_t rows = geometry.rows, cols = step.patch;
    uint32_t counts = (rows + height - 1) / height;
    uint32_t stored = 0, at = 2 * counts;
    uint32_t bits = cols > 256 * width || below(2) ? 16 : 8;
    memset(matrix, 0, sizeof matrix);
    for (uint32_t row = 0; row < counts; row++) {
        uint32_t before = stored;
        for (uint32_t col = 0; col < (cols + width - 1) / width; col++) {
            if (below(sparse)) {
                continue;
            }
            int8_t *block = values + stored++ * height * width;
            memset(block, 0, height * width);
            for (uint32_t i = 0; i < height * width; i++) {
                uint32_t r = row * height + i / width;
                uint32_t c = col * width + i % width;
                if (r < rows && c < cols) {
                    block[i] = matrix[r * cols + c] = byte();
                }
            }
            put_u16(places + at, col);
            at += bits / 8;
        }
        put_u16(places + 2 * row, stored - before);
    }
    es_row_group group = {0,
                          rows,
                          0,
                          ES_BSR,
                          0,
                          (uint8_t)height,
                          (uint8_t)width,
                          0,
                          0,
                          (uint8_t)bits,
                          {values, stored * height * width},
                          {places, at}};
    step.group = group;
}

static void make_dense(uint32_t cols)
{
    int8_t least = below(2) ? INT8_MIN : -127; /* as converters have it */
    for (uint32_t i = 0; i < geometry.rows * cols; i++) {
        int8_t w = byte();
        matrix[i] = values[i] = w < least ? least : w;
    }
    es_row_group group = {0,
                          geometry.rows,
                          0,
                          ES_DENSE,
                          0,
                          1,
                          1,
                          0,
                          0,
                          0,
                          {values, geometry.rows * cols},
                          {places, 0}};
    step.group = group;
}

static void make_requant(bool full)
{
    es_stage stage = {0};
    bool each = below(8) > 0; /* what converters make */
    for (uint32_t r = 0; r < MOST_ROWS; r++) {
        bias[r] = (int32_t)any() >> between(3, 20);
        multipliers[r] = (int32_t)(any() >> 1 | 1U << 30);
        shifts[r] = (int8_t) - (int)between(8, 14);
        if (below(20) == 0) {
            bias[r] = (int32_t)any() / 2;
            multipliers[r] = (int32_t)(any() >> 1);
            shifts[r] = (int8_t) - (int)below(32);
        }
    }
    stage.kind = ES_STAGE_REQUANT;
    stage.zero_point = byte();
    stage.qmin = full || below(2) ? INT8_MIN : stage.zero_point;
    stage.qmax = full || below(2) || stage.zero_point > 99 ? INT8_MAX : 100;
    stage.multiplier.data = multipliers;
    stage.shift.data = shifts;
    stage.multiplier.count = each ? geometry.rows : 1;
    stage.shift.count = below(8) ? stage.multiplier.count : 1;
    step.requant = stage;
    step.bias = bias;
}

static es_scaled factor(void)
{
    es_scaled by = {byte(), (int16_t) - (int)below(20), (int32_t)(any() >> 1)};
    return by;
}

static void make_add(void)
{
    es_stage stage = {0};
    step.add = stage;
    if (below(2)) {
        return;
    }
    stage.kind = ES_STAGE_ADD;
    stage.left_shift = 20;
    stage.qmin = below(2) ? INT8_MIN : -20;
    stage.qmax = below(2) ? INT8_MAX : 20;
    value_by = factor();
    operand_by = factor();
    out_by = factor();
    out_by.shift = (int16_t) - (int)between(14, 20);
    es_scaled *larger = below(2) ? &value_by : &operand_by; /* only halved */
    larger->multiplier = 1 << 30;
    larger->shift = 0;
    stage.value = &value_by;
    stage.other = &operand_by;
    stage.out = &out_by;
    step.add = stage;
}

/* ---- what it gives ---- */

/* Input of tap `tap` of a column; outside it is the zero point. */
static int32_t input_of(uint32_t column, uint32_t tap, uint32_t channel)
{
    const es_geometry *g = &geometry;
    int32_t y = (int32_t)(column / g->out_w * g->stride_h +
                          tap / g->kernel_w * g->dilation_h) -
                g->pad_top;
    int32_t x = (int32_t)(column % g->out_w * g->stride_w +
                          tap % g->kernel_w * g->dilation_w) -
                g->pad_left;
    if (y < 0 || y >= g->in_h || x < 0 || x >= g->in_w) {
        return input_place.zero_point;
    }
    return *es_read_at(&step.input, y * g->in_w + x, channel);
}

static int32_t sum_of(uint32_t column, uint32_t row)
{
    const es_geometry *g = &geometry;
    bool depthwise = g->groups > 1;
    uint32_t taps = (uint32_t)g->kernel_h * g->kernel_w;
    uint32_t width = depthwise ? 1 : g->in_c;
    int32_t sum = bias[row];
    for (uint32_t i = 0; i < taps * width; i++) {
        uint32_t channel = depthwise ? row : i % width;
        sum += matrix[row * taps * width + i] *
               input_of(column, i / width, channel);
    }
    return sum;
}

static int32_t result_of(uint32_t column, uint32_t row)
{
    const es_stage *r = &step.requant, *add = &step.add;
    int32_t v = es_mbqm(sum_of(column, row),
                        multipliers[r->multiplier.count > 1 ? row : 0],
                        shifts[r->shift.count > 1 ? row : 0], r->rounding);
    v = es_clamp(r->zero_point + v, r->qmin, r->qmax);
    if (add->kind) {
        v = es_stage_add(add, v,
                         *es_read_at(&step.operand, (int32_t)column, row));
        v = es_clamp(v, add->qmin, add->qmax);
    }
    return v;
}

/* ---- kinds of work ---- */

enum { DENSE, TALL, WIDE_1, WIDE_2, WIDE_4, DEPTHWISE, KINDS };

static void make_step(uint32_t kind)
{
    static const uint8_t height[KINDS] = {0, 4, 1, 2, 4, 0};
    make_geometry(kind == DEPTHWISE);
    make_places();
    if (kind == DENSE || kind == DEPTHWISE) {
        make_dense(step.patch / geometry.groups);
    } else {
        make_blocks(height[kind], kind == TALL ? 1 : 4, between(1, 6));
    }
    make_add();
    make_requant(step.add.kind != 0);
    uint32_t least = step.in_place ? 0 : step.columns < 4 ? step.columns : 4;
    step.scratch = scratch;
    step.scratch_bytes = least * step.patch;
    if (below(4)) { /* what a target gives that asks for it */
        step.scratch_bytes = sizeof scratch;
    }
    for (uint32_t i = 0; i < sizeof scratch; i++) {
        scratch[i] = (uint8_t)any();
    }
    for (uint32_t i = 0; i < INPUTS; i++) {
        input[i] = byte();
    }
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        operand[i] = byte();
        expected[i] = output[i] = byte();
    }
}

#ifdef ES_BUILD_MVE
/* Memory of the board ends here: a read past it is a fault. */
static uint8_t *volatile memory_end = (uint8_t *)0x31400000u;

static const void *moved(const void *from, uint32_t bytes)
{
    return memcpy(memory_end - bytes, from, bytes);
}

/* One of the things that a kernel reads, to the end of the memory. */
static void move_to_the_end(uint32_t what)
{
    const uint32_t rows = geometry.rows;
    if (what == 0) {
        es_i8s *w = &step.group.values;
        w->data = moved(w->data, w->count);
    } else if (what == 1) {
        es_bytes *index = &step.group.index;
        index->data = moved(index->data, index->count);
    } else if (what == 2 && !step.input.map.ring_columns) {
        step.input.base =
            moved(input, (input_place.columns - 1) * input_place.pitch +
                             input_place.channels);
    } else if (what == 3) {
        step.bias = moved(bias, 4 * rows);
    } else if (what == 4 && step.requant.multiplier.count > 1) {
        step.requant.multiplier.data = moved(multipliers, 4 * rows);
    } else if (what == 5 && step.requant.shift.count > 1) {
        step.requant.shift.data = moved(shifts, rows);
    } else if (what == 6) {
        step.scratch = memory_end - step.scratch_bytes;
    }
}
#endif

/* Returns whether the kernel took it. */
static bool compare(es_regular_kernel *kernel)
{
    for (uint32_t column = 0; column < step.columns; column++) {
        for (uint32_t row = 0; row < geometry.rows; row++) {
            ptrdiff_t at = es_column_at(&step.output.map, (int32_t)column) +
                           (ptrdiff_t)row;
            expected[at] = (int8_t)result_of(column, row);
        }
    }
#ifdef ES_BUILD_MVE
    move_to_the_end(below(8));
#endif
    bool done = kernel(&step);
    if (done) {
        CHECK(memcmp(output, expected, sizeof output) == 0);
    }
    return done;
}

int main(void)
{
    uint32_t taken[KINDS] = {0};
    for (uint32_t i = 0; i < 2400; i++) {
        uint32_t kind = i % KINDS;
#define ES_REGULAR_KERNEL(name)                                                \
    make_step(kind);                                                           \
    taken[kind] += compare(name);
#include "exec/exec_kernels.inc"
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        printf("kind %lu: %lu\n", (unsigned long)kind,
               (unsigned long)taken[kind]);
        CHECK(taken[kind] > 60); /* not left to portable C */
    }
    return failures != 0;
}
