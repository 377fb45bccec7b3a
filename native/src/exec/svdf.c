/* The Svdf source: a Mac whose results are remembered, filtered over time. */
#include "exec/exec.h"

static uint8_t *ring_column(const es_exec *x, const es_ring *ring, uint32_t at)
{
    return x->arena + ring->offset + (size_t)at * ring->channels;
}

void es_svdf_push(es_exec *x)
{
    es_svdf svdf;
    es_svdf_view(&x->step, &svdf);
    uint32_t head = es_ring_head(x->arena, svdf.ring), column = 0;
    es_collect collect = {svdf.scale, svdf.feature.geometry->rows, false,
                          ring_column(x, &x->root->rings[svdf.ring], head)};
    es_mac_source source = {svdf.feature, NULL, 0, 0};
    x->collect = &collect;
    es_mac_columns(x, &source, &column, 1);
    x->collect = NULL;
}

/* The past of a row of the Mac times its filter, modulo 2^32; `head` is the
 * newest column. */
static uint32_t filter(const es_exec *x, const es_svdf *svdf, uint32_t row,
                       uint32_t head)
{
    const es_ring *ring = &x->root->rings[svdf->ring];
    const int16_t *time = svdf->time.data + (size_t)row * ring->columns;
    uint32_t at = head, sum = 0;
    for (uint32_t j = 0; j < ring->columns; j++) {
        at = at + 1 < ring->columns ? at + 1 : 0;
        sum += (uint32_t)(time[j] * es_get_i16(ring_column(x, ring, at) +
                                               2 * (size_t)row));
    }
    return sum;
}

void es_svdf_columns(es_exec *x, const uint32_t *columns, uint32_t count)
{
    es_svdf svdf;
    es_tile tile;
    es_svdf_view(&x->step, &svdf);
    uint32_t channels = svdf.bias.count;
    uint32_t rank = svdf.feature.geometry->rows / channels;
    uint32_t head = es_ring_head(x->arena, svdf.ring);
    tile.columns = count;
    memcpy(tile.column, columns, count * sizeof *columns);
    tile.channels = 1;
    for (uint32_t channel = 0; channel < channels; channel++) {
        if (!es_lane_takes(x, channel)) {
            continue;
        }
        uint32_t sum = (uint32_t)svdf.bias.data[channel];
        for (uint32_t k = 0; k < rank; k++) {
            sum += filter(x, &svdf, channel * rank + k, head);
        }
        tile.channel[0] = (uint16_t)channel;
        for (uint32_t p = 0; p < count; p++) {
            tile.value[p][0] = (int32_t)sum;
        }
        es_emit(x, &tile);
    }
}
