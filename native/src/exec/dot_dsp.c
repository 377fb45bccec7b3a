/* Sums of a Mac with SMLAD: two products an instruction.
 *
 * A word of four int8 becomes the pairs (0, 2) and (1, 3), weights and inputs
 * alike, so nothing is shuffled. A word of inputs serves four rows. Sums fit
 * int32 in any order (I-43). */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

/* Loops that need all registers are functions of their own. */
#define ALONE static __attribute__((noinline))

/* ---- dense rows ---- */

/* The loop below takes all 14 registers there are; compilers, left to
 * themselves, keep pointers in memory. */

/* The counter of turns shares a register, and waits on the stack meanwhile. */
#define TURNS(body)                                                            \
    "1:\n\tpush {%[xo]}\n\t" body                                              \
    "pop {%[xo]}\n\tsubs %[xo], %[xo], #1\n\tbne 1b\n\t"

/* Four rows and one patch: 23 instructions for 16 products. */
#define ONE_ROW(w, sum)                                                        \
    "ldr %[o], [%[" w "]], #4\n\t"                                             \
    "sxtb16 %[e], %[o]\n\tsxtb16 %[o], %[o], ror #8\n\t"                       \
    "smlad %[" sum "], %[e], %[xe], %[" sum "]\n\t"                            \
    "smlad %[" sum "], %[o], %[xo], %[" sum "]\n\t"

#define FOUR_BY_ONE_WORDS                                                      \
    "ldr %[xo], [%[x]], #4\n\t"                                                \
    "sxtb16 %[xe], %[xo]\n\tsxtb16 %[xo], %[xo], ror #8\n\t" ONE_ROW(          \
        "w0", "a") ONE_ROW("w1", "b") ONE_ROW("w2", "c") ONE_ROW("w3", "d")

#define FOUR_BY_ONE(repeat)                                                    \
    __asm volatile(repeat                                                      \
                   : [a] "+&r"(a), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d),   \
                     [w0] "+&r"(w), [w1] "+&r"(w1), [w2] "+&r"(w2),            \
                     [w3] "+&r"(w3), [x] "+&r"(x), [e] "=&r"(e), [o] "=&r"(o), \
                     [xe] "=&r"(xe), [xo] "+&r"(turns)                         \
                   :                                                           \
                   : "memory", "cc")

/* Four rows, `cols` weights apart, one patch. */
static void four_by_one(const int8_t *w, uint32_t cols, const int8_t *x,
                        int32_t *value)
{
    int32_t a = value[0], b = value[1], c = value[2], d = value[3];
    const int8_t *w1 = w + cols, *w2 = w1 + cols, *w3 = w2 + cols;
    uint32_t e, o, xe, turns = cols / 16;
    if (turns > 0) {
        FOUR_BY_ONE(TURNS(FOUR_BY_ONE_WORDS FOUR_BY_ONE_WORDS FOUR_BY_ONE_WORDS
                              FOUR_BY_ONE_WORDS));
    }
    turns = cols / 4 % 4;
    if (turns > 0) {
        FOUR_BY_ONE(TURNS(FOUR_BY_ONE_WORDS));
    }
    for (uint32_t i = 0; i < cols % 4; i++) {
        a += w[i] * x[i];
        b += w1[i] * x[i];
        c += w2[i] * x[i];
        d += w3[i] * x[i];
    }
    value[0] = a, value[1] = b, value[2] = c, value[3] = d;
}

static int32_t one_by_one(const int8_t *w, const int8_t *x, uint32_t n,
                          int32_t sum)
{
    const int8_t *end = w + n / 4 * 4;
    for (; w != end; w += 4, x += 4) {
        uint32_t row = es_dsp_load(w), at = es_dsp_load(x);
        sum = es_dsp_smlad(es_dsp_even(row), es_dsp_even(at), sum);
        sum = es_dsp_smlad(es_dsp_odd(row), es_dsp_odd(at), sum);
    }
    for (uint32_t i = 0; i < n % 4; i++) {
        sum += w[i] * x[i];
    }
    return sum;
}

void es_dsp_one_column(const int8_t *w, uint32_t rows, uint32_t cols,
                       const int8_t *x, int32_t *value)
{
    for (; rows >= 4; rows -= 4, w += 4 * cols, value += 4) {
        four_by_one(w, cols, x, value);
    }
    for (; rows > 0; rows--, w += cols, value++) {
        *value = one_by_one(w, x, cols, *value);
    }
}

/* ---- depthwise rows: taps stand a pitch apart ---- */

ALONE void taps_of_four(const es_dot_job *job, uint32_t r, const int8_t *w,
                        uint32_t taps, uint32_t start)
{
    int32_t *value = &job->tile->value[0][r];
    const int8_t *x0 = job->x[0] + start, *x1 = job->x[1] + start;
    const int8_t *x2 = job->x[2] + start, *x3 = job->x[3] + start;
    const int8_t *end = w + taps;
    int32_t a = value[0], b = value[ES_TILE_CHANNELS];
    int32_t c = value[2 * ES_TILE_CHANNELS], d = value[3 * ES_TILE_CHANNELS];
    const uint32_t pitch = job->pitch;
    for (uint32_t from = 0; w != end; from += pitch) {
        int32_t weight = *w++;
        a += weight * x0[from];
        b += weight * x1[from];
        c += weight * x2[from];
        d += weight * x3[from];
    }
    value[0] = a, value[ES_TILE_CHANNELS] = b;
    value[2 * ES_TILE_CHANNELS] = c, value[3 * ES_TILE_CHANNELS] = d;
}

static void taps_of_one(const es_dot_job *job, uint32_t p, uint32_t r,
                        const int8_t *w, uint32_t taps, uint32_t start)
{
    const int8_t *x = job->x[p] + start;
    int32_t sum = job->tile->value[p][r];
    for (uint32_t t = 0; t < taps; t++, x += job->pitch) {
        sum += w[t] * *x;
    }
    job->tile->value[p][r] = sum;
}

ALONE void depthwise(const es_dot_job *job, uint32_t r, uint32_t rows,
                     const int8_t *w, uint32_t taps)
{
    const es_tile *tile = job->tile;
    for (; rows > 0; rows--, r++, w += taps) {
        uint32_t start = tile->channel[r];
        if (job->group_rows > 1) {
            start /= job->group_rows;
        }
        if (tile->columns == ES_TILE_COLUMNS) {
            taps_of_four(job, r, w, taps, start);
            continue;
        }
        for (uint32_t p = 0; p < tile->columns; p++) {
            taps_of_one(job, p, r, w, taps, start);
        }
    }
}

bool es_dot_rows__dsp(const es_dot_job *job, uint32_t r, uint32_t rows,
                      const int8_t *w, uint32_t cols)
{
    es_tile *tile = job->tile;
    if (job->zero != 0) {
        return false;
    }
    if (job->group_channels != job->pitch) {
        if (job->group_channels == 1) {
            depthwise(job, r, rows, w, cols);
        }
        return job->group_channels == 1;
    }
    for (uint32_t p = 0; p < tile->columns; p++) {
        es_dsp_one_column(w, rows, cols, job->x[p], &tile->value[p][r]);
    }
    return true;
}

/* ---- blocks ---- */

/* Blocks of four rows and one column, two patches. */
static void tall_two(const es_batch *batch, const int8_t *x0, const int8_t *x1,
                     int32_t *left, int32_t *right)
{
    int32_t a = left[0], b = left[1], c = left[2], d = left[3];
    int32_t e = right[0], f = right[1], g = right[2], h = right[3];
    const int8_t *w = batch->values;
    const uint32_t *column = batch->column, *end = column + batch->count;
    while (column != end) {
        uint32_t at = *column++, word = es_dsp_load(w);
        uint32_t even = es_dsp_even(word), odd = es_dsp_odd(word);
        uint32_t x = (uint32_t)x0[at];
        a = es_dsp_low_low(x, even, a);
        b = es_dsp_low_low(x, odd, b);
        c = es_dsp_low_high(x, even, c);
        d = es_dsp_low_high(x, odd, d);
        x = (uint32_t)x1[at];
        e = es_dsp_low_low(x, even, e);
        f = es_dsp_low_low(x, odd, f);
        g = es_dsp_low_high(x, even, g);
        h = es_dsp_low_high(x, odd, h);
        w += 4;
    }
    left[0] = a, left[1] = b, left[2] = c, left[3] = d;
    right[0] = e, right[1] = f, right[2] = g, right[3] = h;
}

static void tall_one(const es_batch *batch, const int8_t *x, int32_t *value)
{
    int32_t a = value[0], b = value[1], c = value[2], d = value[3];
    const int8_t *w = batch->values;
    const uint32_t *column = batch->column, *end = column + batch->count;
    while (column != end) {
        uint32_t at = (uint32_t)x[*column++], word = es_dsp_load(w);
        uint32_t even = es_dsp_even(word), odd = es_dsp_odd(word);
        a = es_dsp_low_low(at, even, a);
        b = es_dsp_low_low(at, odd, b);
        c = es_dsp_low_high(at, even, c);
        d = es_dsp_low_high(at, odd, d);
        w += 4;
    }
    value[0] = a, value[1] = b, value[2] = c, value[3] = d;
}

/* Blocks of four columns: one of their rows, two patches. */
static void wide_two(const es_batch *batch, const int8_t *w, const int8_t *x0,
                     const int8_t *x1, int32_t *left, int32_t *right)
{
    int32_t a = *left, b = *right;
    const uint32_t *column = batch->column, *end = column + batch->count;
    uint32_t stride = batch->block_stride;
    while (column != end) {
        uint32_t at = *column++, word = es_dsp_load(w);
        uint32_t even = es_dsp_even(word), odd = es_dsp_odd(word);
        uint32_t x = es_dsp_load(x0 + at);
        a = es_dsp_smlad(even, es_dsp_even(x), a);
        a = es_dsp_smlad(odd, es_dsp_odd(x), a);
        x = es_dsp_load(x1 + at);
        b = es_dsp_smlad(even, es_dsp_even(x), b);
        b = es_dsp_smlad(odd, es_dsp_odd(x), b);
        w += stride;
    }
    *left = a, *right = b;
}

static int32_t wide_one(const es_batch *batch, const int8_t *w, const int8_t *x,
                        int32_t sum)
{
    const uint32_t *column = batch->column, *end = column + batch->count;
    uint32_t stride = batch->block_stride;
    while (column != end) {
        uint32_t word = es_dsp_load(w), at = es_dsp_load(x + *column++);
        sum = es_dsp_smlad(es_dsp_even(word), es_dsp_even(at), sum);
        sum = es_dsp_smlad(es_dsp_odd(word), es_dsp_odd(at), sum);
        w += stride;
    }
    return sum;
}

/* Blocks of 4 x 4, one patch: each word of inputs serves four rows. */
static void square_one(const es_batch *batch, const int8_t *x, int32_t *value)
{
    int32_t a = value[0], b = value[1], c = value[2], d = value[3];
    const int8_t *w = batch->values;
    const uint32_t *column = batch->column, *end = column + batch->count;
    while (column != end) {
        uint32_t at = es_dsp_load(x + *column++), row = es_dsp_load(w);
        uint32_t even = es_dsp_even(at), odd = es_dsp_odd(at);
        a = es_dsp_smlad(es_dsp_even(row), even, a);
        a = es_dsp_smlad(es_dsp_odd(row), odd, a);
        row = es_dsp_load(w + 4);
        b = es_dsp_smlad(es_dsp_even(row), even, b);
        b = es_dsp_smlad(es_dsp_odd(row), odd, b);
        row = es_dsp_load(w + 8);
        c = es_dsp_smlad(es_dsp_even(row), even, c);
        c = es_dsp_smlad(es_dsp_odd(row), odd, c);
        row = es_dsp_load(w + 12);
        d = es_dsp_smlad(es_dsp_even(row), even, d);
        d = es_dsp_smlad(es_dsp_odd(row), odd, d);
        w += 16;
    }
    value[0] = a, value[1] = b, value[2] = c, value[3] = d;
}

static void tall(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
    es_tile *tile = job->tile;
    uint32_t p = 0;
    for (; p + 2 <= tile->columns; p += 2) {
        tall_two(batch, job->x[p], job->x[p + 1], &tile->value[p][r],
                 &tile->value[p + 1][r]);
    }
    if (p < tile->columns) {
        tall_one(batch, job->x[p], &tile->value[p][r]);
    }
}

static void wide(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
    es_tile *tile = job->tile;
    uint32_t p = 0;
    for (; p + 2 <= tile->columns; p += 2) {
        for (uint32_t i = 0; i < batch->rows; i++) {
            wide_two(batch, batch->values + i * batch->row_stride, job->x[p],
                     job->x[p + 1], &tile->value[p][r + i],
                     &tile->value[p + 1][r + i]);
        }
    }
    if (p == tile->columns) {
        return;
    }
    int32_t *value = &tile->value[p][r];
    if (batch->rows == 4 && batch->block_stride == 16) {
        square_one(batch, job->x[p], value);
        return;
    }
    for (uint32_t i = 0; i < batch->rows; i++) {
        value[i] = wide_one(batch, batch->values + i * batch->row_stride,
                            job->x[p], value[i]);
    }
}

bool es_dot_batch__dsp(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
    if (job->zero != 0) {
        return false;
    }
    if (batch->cols == 4) {
        wide(job, r, batch);
        return true;
    }
    if (batch->cols == 1 && batch->rows == 4 && batch->row_stride == 1 &&
        batch->block_stride == 4) {
        tall(job, r, batch);
        return true;
    }
    return false;
}
