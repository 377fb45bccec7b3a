/* Rows of weights, stored in any way, times inputs that stand apart. */
#include "exec/kernels.h"

/* int32, not int16 as in dot_side_by_side.c: with int16, compilers put vectors
 * together from single bytes, which is slower than no vector. */
static int32_t product(int8_t w, int8_t x, int32_t zero)
{
    return w * (x - zero);
}

/* ---- whole rows ---- */

/* Depthwise, one input per tap: inputs at + t * pitch, t < taps. */
static void dot_taps(const es_dot_job *job, uint32_t r, const int8_t *w,
                     uint32_t at, uint32_t taps)
{
    es_tile *tile = job->tile;
    uint32_t pitch = job->pitch;
    int32_t zero = job->zero;
    if (tile->columns < 4) {
        for (uint32_t p = 0; p < tile->columns; p++) {
            const int8_t *x = job->x[p] + at;
            for (uint32_t t = 0; t < taps; t++) {
                tile->value[p][r] += product(w[t], x[t * pitch], zero);
            }
        }
        return;
    }
    const int8_t *x0 = job->x[0] + at, *x1 = job->x[1] + at;
    const int8_t *x2 = job->x[2] + at, *x3 = job->x[3] + at;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (uint32_t t = 0; t < taps; t++) {
        uint32_t from = t * pitch;
        sum0 += product(w[t], x0[from], zero);
        sum1 += product(w[t], x1[from], zero);
        sum2 += product(w[t], x2[from], zero);
        sum3 += product(w[t], x3[from], zero);
    }
    tile->value[0][r] += sum0;
    tile->value[1][r] += sum1;
    tile->value[2][r] += sum2;
    tile->value[3][r] += sum3;
}

/* With convolution groups, the columns (tap, channel of the group) of a row
 * stand in the patch tap by tap, from the first channel of its group on. */
void es_dot_row(const es_dot_job *job, uint32_t r, const int8_t *w,
                uint32_t col, uint32_t cols)
{
    uint32_t width = job->group_channels, pitch = job->pitch;
    if (width == pitch) { /* one group: tap after tap */
        es_dot_side_by_side(job, r, w, col, cols);
        return;
    }
    uint32_t start = job->tile->channel[r] / job->group_rows * width;
    if (width == 1) {
        dot_taps(job, r, w, col * pitch + start, cols);
        return;
    }
    while (cols > 0) {
        uint32_t tap = col / width, within = col % width;
        uint32_t n = width - within < cols ? width - within : cols;
        es_dot_side_by_side(job, r, w, tap * pitch + start + within, n);
        w += n;
        col += n;
        cols -= n;
    }
}

void es_dot_rows(const es_dot_job *job, uint32_t r, uint32_t rows,
                 const int8_t *w, uint32_t cols)
{
#define ES_DOT_ROWS_KERNEL(name)                                               \
    if (name(job, r, rows, w, cols)) {                                         \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    for (uint32_t i = 0; i < rows; i++, w += cols) {
        es_dot_row(job, r + i, w, 0, cols);
    }
}

/* ---- batches of blocks, one convolution group ---- */

/* One row, single columns, four patches: what unstructured rows are made of. */
static void dot_singles(const es_dot_job *job, uint32_t r, const int8_t *w,
                        const es_batch *batch)
{
    es_tile *tile = job->tile;
    const int8_t *x0 = job->x[0], *x1 = job->x[1];
    const int8_t *x2 = job->x[2], *x3 = job->x[3];
    int32_t zero = job->zero;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    uint32_t count = batch->count, stride = batch->block_stride;
    for (uint32_t i = 0; i < count; i++, w += stride) {
        uint32_t at = batch->column[i];
        sum0 += product(*w, x0[at], zero);
        sum1 += product(*w, x1[at], zero);
        sum2 += product(*w, x2[at], zero);
        sum3 += product(*w, x3[at], zero);
    }
    tile->value[0][r] += sum0;
    tile->value[1][r] += sum1;
    tile->value[2][r] += sum2;
    tile->value[3][r] += sum3;
}

/* Four rows side by side, one patch. */
static void dot_fours(const es_batch *batch, const int8_t *x, int32_t zero,
                      int32_t *value)
{
    const int8_t *w = batch->values;
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (uint32_t i = 0; i < batch->count; i++, w += batch->block_stride) {
        int8_t at = x[batch->column[i]];
        sum0 += product(w[0], at, zero);
        sum1 += product(w[1], at, zero);
        sum2 += product(w[2], at, zero);
        sum3 += product(w[3], at, zero);
    }
    value[0] += sum0;
    value[1] += sum1;
    value[2] += sum2;
    value[3] += sum3;
}

/* One row of blocks that are `width` wide, one patch. */
static inline int32_t dot_wide(const es_batch *batch, const int8_t *w,
                               const int8_t *x, uint32_t width, int32_t zero)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < batch->count; i++, w += batch->block_stride) {
        const int8_t *at = x + batch->column[i];
        for (uint32_t c = 0; c < width; c++) {
            sum += product(w[c], at[c], zero);
        }
    }
    return sum;
}

static void dot_row_of_batch(const es_dot_job *job, uint32_t r, const int8_t *w,
                             const es_batch *batch)
{
    es_tile *tile = job->tile;
    if (batch->cols == 1 && tile->columns == 4) {
        dot_singles(job, r, w, batch);
        return;
    }
    for (uint32_t p = 0; p < tile->columns; p++) {
        const int8_t *x = job->x[p];
        int32_t *value = &tile->value[p][r];
        switch (batch->cols) { /* widths the compiler knows: no inner loop */
        case 1:
            *value += dot_wide(batch, w, x, 1, job->zero);
            break;
        case 4:
            *value += dot_wide(batch, w, x, 4, job->zero);
            break;
        default:
            *value += dot_wide(batch, w, x, batch->cols, job->zero);
            break;
        }
    }
}

static void dot_batch(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
#define ES_DOT_BATCH_KERNEL(name)                                              \
    if (name(job, r, batch)) {                                                 \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    if (batch->rows == 4 && batch->row_stride == 1) {
        for (uint32_t p = 0; p < job->tile->columns; p++) {
            dot_fours(batch, job->x[p], job->zero, &job->tile->value[p][r]);
        }
        return;
    }
    if (ES_DOT_HAS_LANES && batch->rows == ES_TILE_CHANNELS &&
        batch->row_stride == 1) {
        es_dot_lanes(job, r, batch);
        return;
    }
    for (uint32_t i = 0; i < batch->rows; i++) {
        dot_row_of_batch(job, r + i, batch->values + i * batch->row_stride,
                         batch);
    }
}

/* ---- row blocks ---- */

/* Depthwise, rows side by side: an input channel for each of them, in order. */
static bool has_own_channels(const es_dot_job *job, uint32_t r,
                             const es_batch *batch)
{
    const uint16_t *channel = job->tile->channel + r;
    bool in_order = job->group_channels == 1 && job->group_rows == 1 &&
                    batch->row_stride == 1 && batch->cols == 1;
    for (uint32_t i = 1; in_order && i < batch->rows; i++) {
        in_order = channel[i] == channel[0] + i;
    }
    return in_order;
}

void es_dot_row_block(const es_dot_job *job, uint32_t r, es_weight_iter *it)
{
    es_batch batch;
    while (es_weights_next_batch(it, &batch)) {
        if (job->group_channels == job->pitch) {
            dot_batch(job, r, &batch);
            continue;
        }
        if (has_own_channels(job, r, &batch)) {
            es_dot_channels(job, r, &batch);
            continue;
        }
        for (uint32_t k = 0; k < batch.rows * batch.count; k++) {
            uint32_t row = k / batch.count, i = k % batch.count;
            const int8_t *w =
                batch.values + row * batch.row_stride + i * batch.block_stride;
            es_dot_row(job, r + row, w, batch.column[i], batch.cols);
        }
    }
}
