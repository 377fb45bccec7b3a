/* Plain loops that compilers turn into vector code where there is any: the
 * build asks for -O3 on this file, which on x86-64 makes es_dot_row 15 times
 * as fast as -O2. A product is at most 128 * 255 and a sum of them fits int32
 * for every row of a plan (I-43). */
#include "exec/dot.h"

static int32_t product(int8_t w, int8_t x, int8_t zero)
{
    /* Both factors as int16: what multiply-and-add-pairs instructions want. */
    return (int16_t)w * (int16_t)(x - zero);
}

static int32_t dot(const int8_t *w, const int8_t *x, uint32_t n, int8_t zero)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += product(w[i], x[i], zero);
    }
    return sum;
}

void es_dot_row(const es_dot_job *job, uint32_t r, const int8_t *w, uint32_t at,
                uint32_t n)
{
    int8_t zero = job->zero;
    if (job->columns < 4) {
        for (uint32_t p = 0; p < job->columns; p++) {
            job->value[p][r] += dot(w, job->x[p] + at, n, zero);
        }
        return;
    }
    const int8_t *x0 = job->x[0] + at, *x1 = job->x[1] + at;
    const int8_t *x2 = job->x[2] + at, *x3 = job->x[3] + at;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum0 += product(w[i], x0[i], zero);
        sum1 += product(w[i], x1[i], zero);
        sum2 += product(w[i], x2[i], zero);
        sum3 += product(w[i], x3[i], zero);
    }
    job->value[0][r] += sum0;
    job->value[1][r] += sum1;
    job->value[2][r] += sum2;
    job->value[3][r] += sum3;
}

/* Blocks of `width` columns, every `stride` weights. */
static inline int32_t dot_blocks(const es_batch *batch, const int8_t *w,
                                 const int8_t *x, uint32_t width, int8_t zero)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const int8_t *at = x + batch->column[i];
        for (uint32_t c = 0; c < width; c++) {
            sum += product(w[c], at[c], zero);
        }
        w += batch->block_stride;
    }
    return sum;
}

/* Single columns of four patches: what unstructured rows are made of. */
static void dot_singles(const es_dot_job *job, uint32_t r, const int8_t *w,
                        const es_batch *batch)
{
    const int8_t *x0 = job->x[0], *x1 = job->x[1];
    const int8_t *x2 = job->x[2], *x3 = job->x[3];
    int8_t zero = job->zero;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t at = batch->column[i];
        sum0 += product(*w, x0[at], zero);
        sum1 += product(*w, x1[at], zero);
        sum2 += product(*w, x2[at], zero);
        sum3 += product(*w, x3[at], zero);
        w += batch->block_stride;
    }
    job->value[0][r] += sum0;
    job->value[1][r] += sum1;
    job->value[2][r] += sum2;
    job->value[3][r] += sum3;
}

void es_dot_blocks(const es_dot_job *job, uint32_t r, const int8_t *w,
                   const es_batch *batch)
{
    if (batch->cols == 1 && job->columns == 4) {
        dot_singles(job, r, w, batch);
        return;
    }
    for (uint32_t p = 0; p < job->columns; p++) {
        const int8_t *x = job->x[p];
        /* A width the compiler knows: no loop. */
        job->value[p][r] +=
            batch->cols == 4 ? dot_blocks(batch, w, x, 4, job->zero)
                             : dot_blocks(batch, w, x, batch->cols, job->zero);
    }
}

static inline void depthwise_tap(const es_dot_job *job, uint32_t rows,
                                 const int8_t *w, uint32_t taps, uint32_t at)
{
    int16_t weight[ES_TILE_CHANNELS];
    for (uint32_t r = 0; r < rows; r++) {
        weight[r] = w[r * taps];
    }
    for (uint32_t p = 0; p < job->columns; p++) {
        const int8_t *x = job->x[p] + at;
        int32_t *value = job->value[p];
        for (uint32_t r = 0; r < rows; r++) {
            value[r] += weight[r] * (int16_t)(x[r] - job->zero);
        }
    }
}

void es_dot_depthwise(const es_dot_job *job, uint32_t rows, const int8_t *w,
                      uint32_t taps, uint32_t pitch, uint32_t at)
{
    for (uint32_t t = 0; t < taps; t++) {
        if (rows == ES_TILE_CHANNELS) { /* a number the compiler knows */
            depthwise_tap(job, ES_TILE_CHANNELS, w + t, taps, t * pitch + at);
        } else {
            depthwise_tap(job, rows, w + t, taps, t * pitch + at);
        }
    }
}
