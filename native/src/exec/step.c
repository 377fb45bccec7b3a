/* One step: its passes over the columns, and the way of a tile through a
 * branch. */
#include "exec/kernels.h"
#include "elementwise.h"
#include "plan/crc32.h"

es_reader es_reader_of(const es_exec *x, uint32_t tensor)
{
    const uint8_t *data;
    const es_place *place = es_tensor_place(x->root, tensor, &data);
    es_reader reader;
    reader.map = es_map_of(x->arena, x->root->rings, place);
    reader.base =
        data ? (const int8_t *)data
             : (const int8_t *)x->arena + es_base_offset(x->root->rings, place);
    return reader;
}

es_writer es_writer_of(const es_exec *x, uint32_t tensor)
{
    const es_place *place = es_tensor_place(x->root, tensor, NULL);
    es_writer writer;
    writer.map = es_map_of(x->arena, x->root->rings, place);
    writer.base = (int8_t *)x->arena + es_base_offset(x->root->rings, place);
    return writer;
}

/* ---- lanes ---- */

/* Apart: most steps have one branch, and ask only whether it is this one. */
static ES_APART void lane_set(es_exec *x, uint32_t branch)
{
    es_branch_view(&x->step, branch, &x->lane.branch);
    x->lane.index = branch;
    x->lane.output = es_writer_of(x, x->lane.branch.output);
    x->lane.level_count = 0;
}

/* The same, if it is not this branch already. */
static void lane_is(es_exec *x, uint32_t branch)
{
    if (x->lane.index != branch) {
        lane_set(x, branch);
    }
}

static bool lane_has(const es_exec *x, uint32_t channel)
{
    const es_branch *branch = &x->lane.branch;
    return channel - branch->first_channel < branch->channels;
}

bool es_lane_takes(es_exec *x, uint32_t channel)
{
    if (es_has_collect() && x->collect) {
        return true;
    }
    if (x->lane.level_count) { /* a pass for this branch alone */
        return lane_has(x, channel);
    }
    while (!lane_has(x, channel)) {
        uint32_t next = x->lane.index + 1;
        lane_set(x, next < x->step.branches.count ? next : 0);
    }
    return !(x->has_levels >> x->lane.index & 1);
}

static void store(const es_exec *x, const es_part *part)
{
    const es_writer *output = &x->lane.output;
    const es_tile *tile = part->tile;
    for (uint32_t p = 0; p < tile->columns; p++) {
        int8_t *column =
            output->base + es_column_at(&output->map, (int32_t)tile->column[p]);
        for (uint32_t r = part->from; r < part->to; r++) {
            uint32_t channel = tile->channel[r] - part->first_channel;
            column[es_channel_at(&output->map, channel)] =
                (int8_t)tile->value[p][r];
        }
    }
}

bool es_finish_begin(const es_exec *x, const es_tile *tile, es_finish *finish)
{
    const es_lane *lane = &x->lane;
    const es_map *map = &lane->output.map;
    if (x->collect || x->step.branches.count != 1 || lane->level_count ||
        lane->branch.stages.count != 1 || map->place->layout != ES_LAYOUT_NWC) {
        return false;
    }
    es_stage_view(&lane->branch, 0, &finish->stage);
    for (uint32_t p = 0; p < tile->columns; p++) {
        finish->column[p] =
            lane->output.base + es_column_at(map, (int32_t)tile->column[p]);
    }
    return finish->stage.kind == ES_STAGE_REQUANT;
}

void es_finish_tile(const es_finish *finish, es_tile *tile)
{
#define ES_FINISH_KERNEL(name)                                                 \
    if (name(finish, tile)) {                                                  \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    es_part all = {tile, 0, tile->channels, 0};
    es_requant(&finish->stage, &all);
    for (uint32_t p = 0; p < tile->columns; p++) {
        for (uint32_t r = 0; r < tile->channels; r++) {
            finish->column[p][tile->channel[r]] = (int8_t)tile->value[p][r];
        }
    }
}

void es_lane_emit(es_exec *x, const es_part *part, uint32_t level)
{
    const es_lane *lane = &x->lane;
    bool last = level == lane->level_count;
    uint32_t begin = level > 0 ? lane->levels[level - 1].stage + 1U : 0;
    uint32_t end = last ? lane->branch.stages.count : lane->levels[level].stage;
    if (ES_HAS_ELEMENTWISE) {
        es_stages_apply(x, part, begin, end);
    }
    if (!es_has_levels() || last) {
        store(x, part);
    } else {
        es_level_add(&lane->levels[level], part);
    }
}

/* One column: sums stay inside int32 by I-46. */
static void collect(const es_collect *into, const es_tile *tile)
{
    for (uint32_t r = 0; r < tile->channels; r++) {
        uint32_t channel = tile->channel[r];
        const es_scaled *scale = &into->scales[channel / into->block];
        uint8_t *at = into->to + 2 * (size_t)channel;
        int32_t v = es_scale(tile->value[0][r], scale, ES_ROUND_DOUBLE);
        v += into->add ? es_get_i16(at) : 0;
        es_put_i16(at, es_clamp(v, INT16_MIN, INT16_MAX));
    }
}

void es_emit(es_exec *x, es_tile *tile)
{
    if (es_has_collect() && x->collect) {
        collect(x->collect, tile);
        return;
    }
    es_part part = {tile, 0, 0, 0};
    while (part.to < tile->channels) {
        bool taken = es_lane_takes(x, tile->channel[part.to]);
        bool inside = lane_has(x, tile->channel[part.to]);
        part.from = part.to;
        do { /* all of one branch, or all of other branches */
            part.to++;
        } while (part.to < tile->channels &&
                 lane_has(x, tile->channel[part.to]) == inside);
        if (taken) {
            part.first_channel = x->lane.branch.first_channel;
            es_lane_emit(x, &part, 0);
        }
    }
}

/* ---- sources ---- */

void es_load_columns(es_exec *x, const uint32_t *columns, uint32_t count)
{
    const es_place *place = x->input.map.place;
    uint32_t channels, ignored;
    es_step_shape(x->root, &x->step, &ignored, &channels);
    es_tile tile;
    tile.columns = count;
    memcpy(tile.column, columns, count * sizeof *columns);
    tile.channels = 0;
    for (uint32_t channel = 0; channel < channels; channel++) {
        if (es_lane_takes(x, channel)) {
            uint32_t r = tile.channels++;
            tile.channel[r] = (uint16_t)channel;
            ptrdiff_t at =
                es_channel_at(&x->input.map, place->channels > 1 ? channel : 0);
            for (uint32_t p = 0; p < count; p++) {
                int32_t column = place->columns > 1 ? (int32_t)columns[p] : 0;
                tile.value[p][r] =
                    x->input.base[at + es_column_at(&x->input.map, column)];
            }
        }
        if (tile.channels == ES_TILE_CHANNELS ||
            (channel + 1 == channels && tile.channels)) {
            es_emit(x, &tile);
            tile.channels = 0;
        }
    }
}

void es_source_columns(es_exec *x, const es_mac_source *source,
                       const uint32_t *columns, uint32_t count)
{
    if (ES_HAS_MAC_TILES && x->step.source_kind == ES_SOURCE_MAC) {
        es_mac_columns(x, source, columns, count);
    } else if (ES_HAS_SVDF && x->step.source_kind == ES_SOURCE_SVDF) {
        es_svdf_column(x);
    } else if (ES_HAS_LOAD) {
        es_load_columns(x, columns, count);
    }
}

/* A Load that only moves columns: no stage, and the same channels on both
 * sides. Returns whether it was one. */
static bool move_columns(es_exec *x)
{
    if (!ES_HAS_LOAD || x->step.source_kind != ES_SOURCE_LOAD ||
        x->step.branches.count != 1) {
        return false;
    }
    const es_map *from = &x->input.map, *to = &x->lane.output.map;
    const es_place *place = to->place;
    if (x->lane.branch.stages.count || from->place->layout != ES_LAYOUT_NWC ||
        place->layout != ES_LAYOUT_NWC ||
        from->place->columns != place->columns ||
        from->place->channels != place->channels) {
        return false;
    }
    bool whole = from->place->pitch == place->channels &&
                 place->pitch == place->channels;
    for (uint32_t column = 0, count; column < place->columns; column += count) {
        count = whole ? place->columns - column : 1;
        count = es_side_by_side(from, column, count);
        count = es_side_by_side(to, column, count);
        es_copy_bytes(x->lane.output.base +
                          es_nwc_column_at(to, (int32_t)column),
                      x->input.base + es_nwc_column_at(from, (int32_t)column),
                      count * place->channels);
    }
    return true;
}

/* ---- passes ---- */

/* The branches without levels, all in one. */
static void run_elementwise(es_exec *x, const es_mac_source *source)
{
    uint32_t columns, ignored;
    es_step_shape(x->root, &x->step, &columns, &ignored);
    for (uint32_t first = 0; first < columns; first += ES_TILE_COLUMNS) {
        uint32_t column[ES_TILE_COLUMNS], count = 0;
        while (count < ES_TILE_COLUMNS && first + count < columns) {
            column[count] = first + count;
            count++;
        }
        es_source_columns(x, source, column, count);
    }
}

static void run_tiles(es_exec *x)
{
    es_mac_source source;
    uint8_t *scratch = x->arena + x->step.scratch_offset;
    if (ES_HAS_MAC_TILES && x->step.source_kind == ES_SOURCE_MAC) {
        es_mac_begin(x, &source);
        scratch += source.scratch;
    } else if (ES_HAS_SVDF && x->step.source_kind == ES_SOURCE_SVDF) {
        es_svdf_push(x);
    }
    uint32_t branches = x->step.branches.count;
    for (uint32_t b = 0; es_has_levels() && b < branches; b++) {
        lane_set(x, b);
        x->has_levels |= (uint32_t)es_branch_has_levels(&x->lane.branch) << b;
    }
    if (x->has_levels != (1U << branches) - 1) {
        lane_set(x, 0);
        run_elementwise(x, &source);
    }
    for (uint32_t b = 0; es_has_levels() && b < branches; b++) {
        if (x->has_levels >> b & 1) {
            lane_set(x, b);
            es_levels_find(x, scratch);
            es_levels_run(x, &source);
        }
    }
}

void es_halo_fill(const es_writer *tensor)
{
    const es_place *place = tensor->map.place;
    int32_t halo = place->halo * (int32_t)place->phases;
    int32_t columns = (int32_t)place->columns;
    for (int32_t i = 0; i < halo; i++) {
        for (uint32_t channel = 0; channel < place->channels; channel++) {
            *es_write_at(tensor, -1 - i, channel) = place->zero_point;
            *es_write_at(tensor, columns + i, channel) = place->zero_point;
        }
    }
}

void es_step_begin(es_exec *x, uint8_t *arena, const es_root *root,
                   uint32_t index)
{
    x->arena = arena;
    x->root = root;
    x->has_levels = 0;
    x->collect = NULL;
    es_step_view(root, index, &x->step);
    x->input = es_reader_of(x, x->step.input);
    lane_set(x, 0);
}

bool es_step_run(es_exec *x)
{
    if (ES_HAS_COPY && x->step.source_kind == ES_SOURCE_COPY) {
        es_copy_run(x);
    } else if (ES_HAS_LSTM && x->step.source_kind == ES_SOURCE_LSTM) {
        es_lstm_run(x);
    } else if (!es_regular_run(x) && !move_columns(x)) {
        if (!es_has_tiles(x->step.source_kind)) {
            return false;
        }
        run_tiles(x);
    }
    for (uint32_t b = 0; ES_HAS_HALO && b < x->step.branches.count; b++) {
        lane_is(x, b);
        if (x->lane.output.map.place->halo) {
            es_halo_fill(&x->lane.output);
        }
    }
    return true;
}

static void advance(uint8_t *arena, const es_root *root, uint32_t ring,
                    uint32_t by)
{
    uint32_t head = es_ring_head(arena, ring) + by;
    uint32_t columns = root->rings[ring].columns;
    es_ring_set_head(arena, ring, head >= columns ? head - columns : head);
}

void es_step_advance(es_exec *x)
{
    uint16_t rings[2];
    if (!ES_HAS_RINGS) {
        return;
    }
    for (uint32_t b = 0; b < x->step.branches.count; b++) {
        lane_is(x, b);
        const es_place *place = x->lane.output.map.place;
        if (place->ring_role == ES_RING_APPEND) {
            advance(x->arena, x->root, (uint32_t)place->ring, place->columns);
        }
    }
    if (x->step.source_kind < ES_SOURCE_LSTM) {
        return;
    }
    /* Those of an LSTM have one column: their heads stay 0. */
    for (uint32_t i = es_step_rings(&x->step, rings); i-- > 0;) {
        advance(x->arena, x->root, rings[i], 1);
    }
}

uint32_t es_step_trace(es_exec *x, uint32_t crc)
{
    if (x->step.source_kind == ES_SOURCE_COPY) {
        return crc;
    }
    for (uint32_t b = 0; b < x->step.branches.count; b++) {
        lane_is(x, b);
        const es_writer *output = &x->lane.output;
        const es_place *place = output->map.place;
        for (uint32_t column = 0; column < place->columns; column++) {
            for (uint32_t channel = 0; channel < place->channels; channel++) {
                const int8_t *value =
                    es_write_at(output, (int32_t)column, channel);
                crc = es_crc32(crc, value, 1);
            }
        }
    }
    return crc;
}
