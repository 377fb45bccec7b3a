/* The Mac source: patches of the input times weights in any encoding. */
#include "exec/dot.h"
#include "es_assert.h"

/* ---- patches ---- */

static void copy_column(const es_reader *input, uint32_t column, int8_t *to)
{
    const es_place *place = input->map.place;
    const int8_t *from = input->base + es_column_at(&input->map, (int32_t)column);
    if (place->layout == ES_LAYOUT_NWC) {
        memcpy(to, from, place->channels);
        return;
    }
    for (uint32_t c = 0; c < place->channels; c++) {
        to[c] = from[es_channel_at(&input->map, c)];
    }
}

/* One row of a patch: kernel_w taps from column x of row y on. */
static void gather_row(const es_reader *input, const es_geometry *g, int32_t y,
                       int32_t x, int8_t *to)
{
    const es_place *place = input->map.place;
    bool dense = g->dilation_w == 1 && place->layout == ES_LAYOUT_NWC &&
                 place->pitch == g->in_c && !input->map.ring_columns;
    bool inside = y >= 0 && y < g->in_h;
    uint32_t kx = 0;
    while (kx < g->kernel_w) {
        int32_t at = x + (int32_t)kx * g->dilation_w;
        uint32_t taps = 1;
        if (!inside || at < 0 || at >= g->in_w) {
            memset(to, place->zero_point, g->in_c);
        } else {
            uint32_t column = (uint32_t)y * g->in_w + (uint32_t)at;
            if (dense) { /* all taps inside at once */
                uint32_t rest = g->in_w - (uint32_t)at;
                taps = g->kernel_w - kx < rest ? g->kernel_w - kx : rest;
                memcpy(to, input->base + es_column_at(&input->map,
                                                      (int32_t)column),
                       taps * g->in_c);
            } else {
                copy_column(input, column, to);
            }
        }
        to += taps * g->in_c;
        kx += taps;
    }
}

static void gather(const es_reader *input, const es_geometry *g,
                   uint32_t column, int8_t *to)
{
    int32_t y = (int32_t)(column / g->out_w * g->stride_h) - g->pad_top;
    int32_t x = (int32_t)(column % g->out_w * g->stride_w) - g->pad_left;
    for (uint32_t ky = 0; ky < g->kernel_h; ky++) {
        gather_row(input, g, y + (int32_t)ky * g->dilation_h, x, to);
        to += (uint32_t)g->kernel_w * g->in_c;
    }
}

void es_mac_begin(const es_exec *x, es_mac_source *source)
{
    es_mac_view(&x->step, &source->mac);
    const es_geometry *g = source->mac.geometry;
    uint32_t bytes = es_mac_patch_bytes(x->root, &x->step, &source->mac);
    uint8_t *scratch = x->arena + x->step.scratch_offset;
    source->patches = bytes ? (int8_t *)scratch : NULL;
    source->patch = (uint32_t)g->kernel_h * g->kernel_w * g->in_c;
    source->scratch = (bytes + 3) / 4 * 4;
    source->zero = source->mac.bias_form == ES_BIAS_PLAIN
                       ? x->input.map.place->zero_point
                       : 0;
}

static void set_columns(const es_exec *x, es_mac_source *source,
                        const uint32_t *columns, uint32_t count)
{
    const es_geometry *g = source->mac.geometry;
    source->columns = count;
    for (uint32_t p = 0; p < count; p++) {
        if (source->patches) {
            int8_t *to = source->patches + p * source->patch;
            gather(&x->input, g, columns[p], to);
            source->x[p] = to;
        } else { /* no padding, and the taps stand side by side */
            uint32_t row = columns[p] / g->out_w * g->stride_h;
            uint32_t at = columns[p] % g->out_w * g->stride_w + row * g->in_w;
            source->x[p] =
                x->input.base + es_column_at(&x->input.map, (int32_t)at);
        }
    }
}

/* ---- rows ---- */

static uint32_t channel_of(const es_weights *weights, uint32_t row)
{
    return weights->row_order.data ? weights->row_order.data[row] : row;
}

/* Give stored row `row` a place in the tile, starting from its bias. */
static uint32_t add_row(const es_mac *mac, es_tile *tile, uint32_t row)
{
    uint32_t channel = channel_of(&mac->weights, row), r = tile->channels++;
    tile->channel[r] = (uint16_t)channel;
    for (uint32_t p = 0; p < tile->columns; p++) {
        tile->value[p][r] = mac->bias.data[channel];
    }
    return r;
}

static void flush(es_exec *x, es_tile *tile)
{
    if (tile->channels) {
        es_emit(x, tile);
    }
    tile->channels = 0;
}

/* Where in a patch the inputs of an output channel's conv group start. */
static uint32_t group_start(const es_geometry *g, uint32_t channel)
{
    return channel / (g->rows / g->groups) * (g->in_c / g->groups);
}

/* Grouped: columns (tap, channel of the group) stand apart in the patch. */
static void add_grouped(const es_mac_source *source, es_tile *tile, uint32_t r,
                        const es_batch *batch, const int8_t *values)
{
    const es_geometry *g = source->mac.geometry;
    uint32_t width = g->in_c / g->groups;
    const uint32_t start = group_start(g, tile->channel[r]);
    for (uint32_t i = 0; i < batch->count; i++) {
        const int8_t *w = values + i * batch->block_stride;
        uint32_t col = batch->column[i], end = col + batch->cols;
        while (col < end) {
            uint32_t tap = col / width, within = col % width;
            uint32_t n = width - within < end - col ? width - within : end - col;
            uint32_t at = tap * g->in_c + start + within;
            for (uint32_t p = 0; p < tile->columns; p++) {
                tile->value[p][r] +=
                    es_dot(w, source->x[p] + at, n, source->zero);
            }
            w += n;
            col += n;
        }
    }
}

/* ---- row groups ---- */

static void sparse_group(es_exec *x, const es_mac_source *source,
                         es_tile *tile, const es_row_group *group)
{
    const es_mac *mac = &source->mac;
    es_weight_iter it;
    es_weights_begin(&it, group, mac->weights.cols);
    while (es_weights_next_rows(&it)) {
        uint32_t row = group->first_row + it.row, wanted = 0;
        for (uint32_t i = 0; i < it.rows; i++) {
            wanted += es_lane_takes(x, channel_of(&mac->weights, row + i));
        }
        if (wanted == 0) {
            continue;
        }
        if (tile->channels + it.rows > ES_TILE_CHANNELS) {
            flush(x, tile);
        }
        uint32_t first = tile->channels;
        for (uint32_t i = 0; i < it.rows; i++) {
            add_row(mac, tile, row + i);
        }
        es_batch batch;
        while (es_weights_next_batch(&it, &batch)) {
            for (uint32_t i = 0; i < batch.rows; i++) {
                const int8_t *values = batch.values + i * batch.row_stride;
                if (mac->geometry->groups > 1) {
                    add_grouped(source, tile, first + i, &batch, values);
                } else {
                    es_dot_blocks(source, tile, first + i, &batch, values);
                }
            }
        }
        if (wanted < it.rows) {
            drop_others(x, tile, first);
        }
    }
}
