/* Stages that need whole columns: pools, Mean, Softmax.
 *
 * Each is a level with a buffer for the column it is computing. A column of a
 * level is made from columns of the level below, one at a time, down to the
 * source, which gives up to four at once. Pools that overlap compute what lies
 * below them again. There are at most 4 levels (I-7), and this is a loop,
 * not a recursion. */
#include "exec/kernels.h"
#include "es_assert.h"
#include "elementwise.h"

static bool has_level(uint8_t kind)
{
    return es_stage_pools(kind) || (ES_HAS_SOFTMAX && kind == ES_STAGE_SOFTMAX);
}

static bool sums(uint8_t kind)
{
    return (ES_HAS_AVG_POOL && kind == ES_STAGE_AVG_POOL) ||
           (ES_HAS_MEAN && kind == ES_STAGE_MEAN);
}

static int32_t *sums_of(const es_level *level)
{
    return (int32_t *)(void *)level->buffer; /* 4-aligned: I-16 */
}

static int8_t *bytes_of(const es_level *level)
{
    return (int8_t *)level->buffer;
}

/* ---- one level ---- */

static void begin_column(es_level *level, uint32_t column, uint32_t channels)
{
    level->column = column;
    level->tap = 0;
    level->inside = 0;
    if (sums(level->kind)) {
        memset(level->buffer, 0, channels * sizeof(int32_t));
    } else {
        memset(level->buffer, INT8_MIN, channels);
    }
}

/* The next column of the level below that goes into this one's column. */
static bool next_tap(es_level *level, uint32_t *column)
{
    if (!es_has_windows() || !level->window) {
        if (level->tap == level->taps) {
            return false;
        }
        *column = level->kind == ES_STAGE_MEAN ? level->tap : level->column;
        level->tap++;
        return true;
    }
    const es_window *w = level->window;
    while (level->tap < level->taps) {
        uint32_t ky = level->tap / w->kernel_w, kx = level->tap % w->kernel_w;
        level->tap++;
        /* Before the first row or column: a huge number. */
        uint32_t y = level->column / w->out_w * w->stride_h + ky - w->pad_top;
        uint32_t x = level->column % w->out_w * w->stride_w + kx - w->pad_left;
        if (y < w->in_h && x < w->in_w) {
            level->inside++;
            *column = y * w->in_w + x;
            return true;
        }
    }
    return false;
}

void es_level_add(const es_level *level, const es_part *part)
{
    const es_tile *tile = part->tile;
    for (uint32_t r = part->from; r < part->to; r++) {
        uint32_t channel = tile->channel[r] - part->first_channel;
        for (uint32_t p = 0; p < tile->columns; p++) {
            int32_t v = tile->value[p][r];
            if (sums(level->kind)) {
                sums_of(level)[channel] += v - level->in_zero_point;
            } else if (v > bytes_of(level)[channel]) { /* Softmax: only one */
                bytes_of(level)[channel] = (int8_t)v;
            }
        }
    }
}

static int32_t result(const es_level *level, const es_stage *stage,
                      uint32_t channel)
{
    int32_t v;
    switch (level->kind) {
    case ES_STAGE_SOFTMAX:
        return bytes_of(level)[channel];
    case ES_STAGE_MAX_POOL:
        v = bytes_of(level)[channel];
        break;
    case ES_STAGE_AVG_POOL:
        v = es_average(sums_of(level)[channel], (int32_t)level->inside);
        break;
    default:
        v = stage->out->zero_point +
            es_mbqm(sums_of(level)[channel], stage->out->multiplier,
                    stage->out->shift, stage->rounding);
        break;
    }
    return es_clamp(v, stage->qmin, stage->qmax);
}

/* The column is complete: give it to what follows. */
static void end_column(es_exec *x, uint32_t number)
{
    const es_level *level = &x->lane.levels[number];
    const es_branch *branch = &x->lane.branch;
    es_stage stage;
    es_stage_view(branch, level->stage, &stage);
    if (ES_HAS_SOFTMAX && level->kind == ES_STAGE_SOFTMAX) {
        es_softmax(bytes_of(level), branch->channels, &stage);
    }
    es_tile tile;
    tile.columns = 1;
    tile.column[0] = level->column;
    for (uint32_t first = 0; first < branch->channels;
         first += ES_TILE_CHANNELS) {
        uint32_t count = branch->channels - first;
        count = count < ES_TILE_CHANNELS ? count : ES_TILE_CHANNELS;
        for (uint32_t r = 0; r < count; r++) {
            tile.channel[r] = (uint16_t)(first + r);
            tile.value[0][r] = result(level, &stage, first + r);
        }
        tile.channels = count;
        es_part part = {&tile, 0, count, 0};
        es_lane_emit(x, &part, number + 1);
    }
}

/* ---- all levels of a branch ---- */

bool es_branch_has_levels(const es_branch *branch)
{
    for (uint32_t i = 0; i < branch->stages.count; i++) {
        es_stage stage;
        es_stage_view(branch, i, &stage);
        if (has_level(stage.kind)) {
            return true;
        }
    }
    return false;
}

/* Lowest first. */
void es_levels_find(es_exec *x, uint8_t *scratch)
{
    const es_branch *branch = &x->lane.branch;
    uint32_t columns, ignored;
    es_step_shape(x->root, &x->step, &columns, &ignored);
    for (uint32_t i = 0; i < branch->stages.count; i++) {
        es_stage stage;
        es_stage_view(branch, i, &stage);
        if (!has_level(stage.kind)) {
            continue;
        }
        ES_ASSERT(x->lane.level_count < ES_MAX_LEVELS);
        es_level *level = &x->lane.levels[x->lane.level_count++];
        level->stage = (uint8_t)i;
        level->kind = stage.kind;
        level->in_zero_point = stage.in_zero_point;
        level->window = stage.window;
        level->running = stage.running;
        level->buffer = scratch;
        level->taps = 1;
        if (stage.window) {
            level->taps =
                (uint32_t)stage.window->kernel_h * stage.window->kernel_w;
            columns = (uint32_t)stage.window->out_h * stage.window->out_w;
        } else if (stage.kind == ES_STAGE_MEAN) {
            level->taps = columns;
            columns = 1;
        }
        scratch += sums(stage.kind) ? 4 * branch->channels
                                    : (branch->channels + 3) / 4 * 4;
    }
}

/* Whether the taps so far are fresh columns and end a block of them. */
static bool ends_block(const es_level *level)
{
    const es_running *running = &level->running;
    uint32_t tap = level->tap;
    if (!ES_HAS_RUNNING || !running->there || tap > running->fresh) {
        return false;
    }
    return running->each || tap == running->fresh ||
           tap == running->fresh - es_running_tail(running);
}

static void end_block(const es_exec *x, es_level *level)
{
    const es_running *running = &level->running;
    uint32_t tail = es_running_tail(running);
    uint32_t leaving = running->each ? 1 : running->fresh;
    if (tail) { /* an odd number of blocks: one of the other kind leaves */
        leaving = level->tap < running->fresh ? tail : running->fresh - tail;
    }
    es_running_push(x, level, leaving);
    if (level->tap == running->fresh) { /* the other columns are only counted */
        es_running_total(x, level);
        level->inside += running->columns - running->fresh;
    }
}

/* Whether columns of the input are what the level takes: the source is a Load
 * that repeats nothing, no stage comes before, and channels stand side by side.
 */
static bool takes_input(const es_exec *x, const es_level *level)
{
    const es_place *place = x->input.map.place;
    return ES_HAS_LOAD && x->step.source_kind == ES_SOURCE_LOAD &&
           level->stage == 0 && x->step.branches.count == 1 &&
           place->layout == ES_LAYOUT_NWC &&
           place->channels == x->lane.branch.channels &&
           (place->columns > 1 || level->taps == 1) &&
           level->kind != ES_STAGE_SOFTMAX;
}

/* Of `count` columns each value to the level's. */
static void add_input(const es_exec *x, const es_level *level,
                      const uint32_t *columns, uint32_t count)
{
    uint32_t channels = x->lane.branch.channels;
    const int8_t *at[ES_TILE_COLUMNS];
    for (uint32_t p = 0; p < count; p++) {
        at[p] = x->input.base +
                es_nwc_column_at(&x->input.map, (int32_t)columns[p]);
    }
    if (!sums(level->kind)) {
        int8_t *most = bytes_of(level);
        for (uint32_t c = 0; c < channels; c++) {
            for (uint32_t p = 0; p < count; p++) {
                most[c] = at[p][c] > most[c] ? at[p][c] : most[c];
            }
        }
        return;
    }
    int32_t *sum = sums_of(level), zeros = (int32_t)count;
    zeros *= level->in_zero_point;
#define ES_SUM_KERNEL(name)                                                    \
    if (name(sum, at, count, zeros, channels)) {                               \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    if (count == ES_TILE_COLUMNS) {
        const int8_t *a = at[0], *b = at[1], *c = at[2], *d = at[3];
        for (uint32_t i = 0; i < channels; i++) {
            sum[i] += a[i] + b[i] + c[i] + d[i] - zeros;
        }
        return;
    }
    for (uint32_t i = 0; i < channels; i++) {
        int32_t all = sum[i] - zeros;
        for (uint32_t p = 0; p < count; p++) {
            all += at[p][i];
        }
        sum[i] = all;
    }
}

/* `count` columns of the source to the lowest level. */
static void add_columns(es_exec *x, const es_mac_source *source,
                        const es_level *level, const uint32_t *columns,
                        uint32_t count)
{
    if (takes_input(x, level)) {
        add_input(x, level, columns, count);
    } else {
        es_source_columns(x, source, columns, count);
    }
}

/* All taps of the lowest level's column, four by four. */
static void add_source(es_exec *x, const es_mac_source *source, es_level *level)
{
    uint32_t column[ES_TILE_COLUMNS], count = 0;
    while (next_tap(level, &column[count])) {
        bool ends = ends_block(level);
        if (++count == ES_TILE_COLUMNS || ends) {
            add_columns(x, source, level, column, count);
            count = 0;
        }
        if (ends) {
            end_block(x, level);
        }
    }
    if (count) {
        add_columns(x, source, level, column, count);
    }
}

/* One column of the highest level. */
static void run_column(es_exec *x, const es_mac_source *source, uint32_t column)
{
    es_level *levels = x->lane.levels;
    uint32_t channels = x->lane.branch.channels;
    uint32_t top = x->lane.level_count - 1, at = top;
    begin_column(&levels[top], column, channels);
    for (;;) {
        uint32_t tap;
        if (at == 0) {
            add_source(x, source, &levels[0]);
        } else if (next_tap(&levels[at], &tap)) {
            begin_column(&levels[--at], tap, channels);
            continue;
        }
        end_column(x, at);
        if (at == top) {
            return;
        }
        at++;
    }
}

void es_levels_run(es_exec *x, const es_mac_source *source)
{
    uint32_t columns = x->lane.output.map.place->columns;
    for (uint32_t column = 0; column < columns; column++) {
        run_column(x, source, column);
    }
}
