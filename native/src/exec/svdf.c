/* The Svdf source: a Mac whose results are remembered, filtered over time. */
#include "exec/exec.h"

void es_svdf_push(es_exec *x)
{
    es_svdf svdf;
    es_svdf_view(&x->step, &svdf);
    const es_ring *ring = &x->root->rings[svdf.ring];
    uint32_t head = es_ring_head(x->arena, svdf.ring);
    es_collect collect = {svdf.scale, svdf.feature.geometry->rows, false,
                          x->arena + ring->offset + head * ring->channels};
    es_mac_collect(x, &svdf.feature, 0, &collect);
}

/* The past of a row of the Mac times its filter, modulo 2^32; `head` is the
 * newest column. */
static uint32_t filter(const es_exec *x, const es_svdf *svdf, uint32_t row,
                       uint32_t head)
{
    const es_ring *ring = &x->root->rings[svdf->ring];
    const int16_t *time = svdf->time.data + (size_t)row * ring->columns;
    const uint8_t *past = x->arena + ring->offset + 2 * (size_t)row;
    uint32_t at = head, sum = 0;
    for (uint32_t j = 0; j < ring->columns; j++) {
        at = at + 1 < ring->columns ? at + 1 : 0;
        sum += (uint32_t)(time[j] * es_get_i16(past + at * ring->channels));
    }
    return sum;
}

void es_svdf_column(es_exec *x)
{
    es_svdf svdf;
    es_tile tile;
    es_svdf_view(&x->step, &svdf);
    tile.columns = tile.channels = 1;
    tile.column[0] = 0;
    uint32_t channels = svdf.bias.count;
    uint32_t rank = svdf.feature.geometry->rows / channels;
    uint32_t head = es_ring_head(x->arena, svdf.ring);
    for (uint32_t channel = 0, row = 0; channel < channels; channel++) {
        uint32_t sum = (uint32_t)svdf.bias.data[channel];
        for (uint32_t k = 0; k < rank; k++) {
            sum += filter(x, &svdf, row++, head);
        }
        if (es_lane_takes(x, channel)) {
            tile.channel[0] = (uint16_t)channel;
            tile.value[0][0] = (int32_t)sum;
            es_emit(x, &tile);
        }
    }
}
