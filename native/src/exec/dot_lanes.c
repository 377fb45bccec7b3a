/* Rows side by side: weights of one column stand next to each other, so that a
 * row is a vector lane and an input belongs to all of them (or, depthwise, each
 * input to its own). Built as dot_side_by_side.c is. A product is at most
 * 128 * 255, which int16 holds: what vector units multiply in one go. */
#include "exec/dot.h"

static int16_t product(int8_t w, int16_t x)
{
    return (int16_t)(w * x);
}

/* value[l] += sum over the batch of w[l] * (x[column] - zero) */
static void one_patch(const es_batch *batch, const int8_t *x, int8_t zero,
                      int32_t *value)
{
    const int8_t *w = batch->values;
    uint32_t stride = batch->block_stride;
    int32_t sum[ES_TILE_CHANNELS]; /* registers, where there are so many */
    memcpy(sum, value, sizeof sum);
    for (uint32_t i = 0; i < batch->count; i++, w += stride) {
        int16_t at = (int16_t)(x[batch->column[i]] - zero);
        for (uint32_t l = 0; l < ES_TILE_CHANNELS; l++) {
            sum[l] += product(w[l], at);
        }
    }
    memcpy(value, sum, sizeof sum);
}

void es_dot_lanes(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
    for (uint32_t p = 0; p < job->tile->columns; p++) {
        one_patch(batch, job->x[p], job->zero, &job->tile->value[p][r]);
    }
}

void es_dot_channels(const es_dot_job *job, uint32_t r, const es_batch *batch)
{
    es_tile *tile = job->tile;
    uint32_t rows = batch->rows, first = tile->channel[r];
    for (uint32_t p = 0; p < tile->columns; p++) {
        const int8_t *w = batch->values;
        int32_t *value = &tile->value[p][r];
        for (uint32_t i = 0; i < batch->count; i++, w += batch->block_stride) {
            const int8_t *x = job->x[p] + batch->column[i] * job->pitch + first;
            for (uint32_t l = 0; l < rows; l++) {
                value[l] += product(w[l], (int16_t)(x[l] - job->zero));
            }
        }
    }
}
