/* The Mac source: patches of the input times weights in any encoding. */
#include "exec/dot.h"
#include "es_assert.h"

/* ---- patches ---- */

static void copy_column(const es_reader *input, uint32_t column, int8_t *to)
{
    const es_place *place = input->map.place;
    if (place->layout == ES_LAYOUT_NWC) {
        es_copy_bytes(
            to, input->base + es_nwc_column_at(&input->map, (int32_t)column),
            place->channels);
        return;
    }
    const int8_t *from =
        input->base + es_column_at(&input->map, (int32_t)column);
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
                 place->pitch == g->in_c;
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
                taps = es_side_by_side(&input->map, column, taps);
                es_copy_bytes(to,
                              input->base + es_nwc_column_at(&input->map,
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

void es_gather(const es_reader *input, const es_geometry *g, uint32_t column,
               int8_t *to)
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
    es_mac_view(x->step.source, &source->mac);
    const es_geometry *g = source->mac.geometry;
    uint32_t bytes = es_mac_patch_bytes(x->input.map.place, g);
    uint8_t *scratch = x->arena + x->step.scratch_offset;
    source->patches = bytes ? (int8_t *)scratch : NULL;
    source->patch = (uint32_t)g->kernel_h * g->kernel_w * g->in_c;
    source->scratch = (bytes + 3) / 4 * 4;
}

/* The patches of `count` columns, gathered or where they stand. */
static void set_columns(const es_exec *x, const es_mac_source *source,
                        const uint32_t *columns, uint32_t count,
                        es_dot_job *job)
{
    const es_geometry *g = source->mac.geometry;
    for (uint32_t p = 0; p < count; p++) {
        if (ES_HAS_PATCHES && source->patches) {
            int8_t *to = source->patches + p * source->patch;
            es_gather(&x->input, g, columns[p], to);
            job->x[p] = to;
        } else { /* no padding, and the taps stand side by side */
            uint32_t row = columns[p] / g->out_w * g->stride_h;
            uint32_t at = columns[p] % g->out_w * g->stride_w + row * g->in_w;
            job->x[p] =
                x->input.base + es_column_at(&x->input.map, (int32_t)at);
        }
    }
}

/* ---- rows ---- */

/* A Mac at work on a tile. */
typedef struct mac_run {
    es_exec *x;
    const es_mac *mac;
    es_tile tile;
    es_dot_job job;
    bool finishes; /* then no lane is asked */
    es_finish finish;
} mac_run;

static uint32_t channel_of(const mac_run *run, uint32_t row)
{
    const es_u16s *order = &run->mac->weights.row_order;
    return order->data ? order->data[row] : row;
}

static bool takes(const mac_run *run, uint32_t row)
{
    return run->finishes || es_lane_takes(run->x, channel_of(run, row));
}

static void flush(mac_run *run)
{
    if (run->tile.channels && run->finishes) {
        es_finish_tile(&run->finish, &run->tile);
    } else if (run->tile.channels) {
        es_emit(run->x, &run->tile);
    }
    run->tile.channels = 0;
}

/* Give stored rows places in the tile, starting from their biases. */
static void add_rows(mac_run *run, uint32_t row, uint32_t count)
{
    const es_u16s *order = &run->mac->weights.row_order;
    es_tile *tile = &run->tile;
    uint32_t first = tile->channels;
    ES_ASSERT(first + count <= ES_TILE_CHANNELS);
    for (uint32_t r = first; r < first + count; r++, row++) {
        uint32_t channel = order->data ? order->data[row] : row;
        int32_t bias = run->mac->bias.data[channel];
        tile->channel[r] = (uint16_t)channel;
        for (uint32_t p = 0; p < ES_TILE_COLUMNS; p++) { /* cheaper than few */
            tile->value[p][r] = bias;
        }
    }
    tile->channels = first + count;
}

/* ---- row groups ---- */

static void run_row_block(mac_run *run, es_weight_iter *it)
{
    uint32_t row = it->group.first_row + it->row;
    bool taken = false;
    for (uint32_t i = 0; i < it->rows && !taken; i++) {
        taken = takes(run, row + i);
    }
    if (!taken) {
        return;
    }
    if (run->tile.channels + it->rows > ES_TILE_CHANNELS) {
        flush(run);
    }
    uint32_t first = run->tile.channels;
    add_rows(run, row, it->rows);
    es_dot_row_block(&run->job, first, it);
}

/* DENSE without the iterator, which costs as much as 100 products a row. Rows
 * go into the tile as long as the lanes take them and it has room, and are
 * multiplied together. */
static void run_dense(mac_run *run, const es_row_group *group)
{
    uint32_t cols = run->mac->weights.cols, from = 0;
    const int8_t *w = group->values.data;
    while (from < group->row_count) {
        uint32_t row = group->first_row + from, count = 0;
        uint32_t room = ES_TILE_CHANNELS - run->tile.channels;
        uint32_t rest = group->row_count - from;
        room = room < rest ? room : rest;
        while (count < room && takes(run, row + count)) {
            count++;
        }
        if (count > 0) {
            uint32_t first = run->tile.channels;
            add_rows(run, row, count);
            es_dot_rows(&run->job, first, count, w + (size_t)from * cols, cols);
        } else if (room > 0) {
            count = 1; /* not taken */
        }
        if (run->tile.channels == ES_TILE_CHANNELS) {
            flush(run);
        }
        from += count;
    }
}

void es_mac_columns(es_exec *x, const es_mac_source *source,
                    const uint32_t *columns, uint32_t count)
{
    const es_mac *mac = &source->mac;
    const es_geometry *g = mac->geometry;
    mac_run run;
    run.x = x;
    run.mac = mac;
    run.tile.columns = count;
    run.tile.channels = 0;
    memcpy(run.tile.column, columns, count * sizeof *columns);
    run.job.tile = &run.tile;
    run.job.zero =
        mac->bias_form == ES_BIAS_PLAIN ? x->input.map.place->zero_point : 0;
    run.job.pitch = g->in_c;
    run.job.group_rows = (uint32_t)g->rows / g->groups;
    run.job.group_channels = (uint32_t)g->in_c / g->groups;
    set_columns(x, source, columns, count, &run.job);
    run.finishes = es_finish_begin(x, &run.tile, &run.finish);
    for (uint32_t i = 0; i < mac->weights.groups.count; i++) {
        es_weight_iter it;
        es_row_group_view(&mac->weights, i, &it.group); /* one copy */
        if (es_has_only_dense() ||
            (ES_HAS_DENSE && it.group.encoding == ES_DENSE)) {
            run_dense(&run, &it.group);
            continue;
        }
        es_weights_begin(&it, &it.group, mac->weights.cols);
        while (es_weights_next_rows(&it)) {
            run_row_block(&run, &it);
        }
    }
    flush(&run);
}

void es_mac_collect(es_exec *x, const es_mac *mac, uint32_t column,
                    const es_collect *collect)
{
    es_mac_source source = {*mac, NULL, 0, 0};
    x->collect = collect;
    es_mac_columns(x, &source, &column, 1);
    x->collect = NULL;
}
