/* A whole Mac step with Helium: patches, sums, scaling and addition. */
#include "exec/kernels.h"
#include "exec/mve_mac.h"

enum { MOST_TAPS = 64, MOST_ADDED = 256 };

/* Every shift is to the right, by 31 at most. */
static bool all_right(const es_i8s *shift)
{
    int8x16_t most = vdupq_n_s8(-128);
    for (uint32_t i = 0; i < shift->count; i += 16) {
        mve_pred16_t there = vctp8q(shift->count - i);
        most =
            vmaxq_m_s8(most, most, vldrbq_z_s8(shift->data + i, there), there);
    }
    return vmaxvq_s8(-128, most) < 0;
}

bool es_mve_scale_begin(const es_stage *stage, es_mve_scale *scale)
{
    if (stage->rounding != ES_ROUND_DOUBLE || !all_right(&stage->shift)) {
        return false;
    }
    scale->to.zero_point = stage->zero_point;
    scale->to.low = stage->qmin;
    scale->to.high = stage->qmax;
    scale->to.rectified = stage->qmin >= stage->zero_point;
    scale->multiplier = stage->multiplier.data;
    scale->shift = stage->shift.data;
    scale->multiplier_step = scale->shift_step = 4;
    if (stage->multiplier.count == 1) {
        vstrwq_s32(scale->same_multiplier,
                   vdupq_n_s32(stage->multiplier.data[0]));
        scale->multiplier = scale->same_multiplier;
        scale->multiplier_step = 0;
    }
    if (stage->shift.count == 1) {
        vstrbq_s32(scale->same_shift, vdupq_n_s32(stage->shift.data[0]));
        scale->shift = scale->same_shift;
        scale->shift_step = 0;
    }
    return true;
}

/* ---- columns one after another ---- */

/* A step at work: what each column needs of it, and where the first tap of the
 * next column stands, as numbers of row and column of the input. */
typedef struct run {
    const es_regular *step;
    int32_t in_h, in_w, width;            /* width: of an input column, bytes */
    int32_t kernel_h, kernel_w, row;      /* row: of a patch, bytes */
    int32_t dilation_h, dilation_w, line; /* line: to the next row of taps */
    int32_t y, x, end;                    /* end: x after the last of a row */
    int32_t stride_h, stride_w, left;
    bool scattered; /* taps of a row do not stand side by side */
    bool words;     /* patches have to start at multiples of 4 */
    int8_t zero;
    uint32_t column;
} run;

static run begin(const es_regular *step)
{
    const es_geometry *g = step->geometry;
    const es_place *place = step->input.map.place;
    run at = {.step = step};
    at.in_h = g->in_h, at.in_w = g->in_w, at.width = (int32_t)place->pitch;
    at.kernel_h = g->kernel_h, at.kernel_w = g->kernel_w;
    at.row = g->kernel_w * g->in_c;
    at.dilation_h = g->dilation_h, at.dilation_w = g->dilation_w;
    at.line = at.width * g->in_w * g->dilation_h;
    at.y = -g->pad_top, at.x = at.left = -g->pad_left;
    at.stride_h = g->stride_h, at.stride_w = g->stride_w;
    at.end = at.left + g->out_w * g->stride_w;
    at.scattered = g->dilation_w > 1 || place->pitch != g->in_c;
    at.words = step->group.encoding == ES_BSR && step->group.block_cols == 4;
    at.zero = place->zero_point;
    return at;
}

static inline void next_column(run *at)
{
    at->column++;
    at->x += at->stride_w;
    if (at->x == at->end) {
        at->x = at->left;
        at->y += at->stride_h;
    }
}

/* Bytes from the first column of the input to column x of row y, where there is
 * no ring. */
static inline int32_t plain_at(const run *at)
{
    return (at->y * at->in_w + at->x) * at->width;
}

static inline bool all_inside(const run *at)
{
    return at->y >= 0 && at->x >= 0 &&
           at->x + at->dilation_w * (at->kernel_w - 1) < at->in_w &&
           at->y + at->dilation_h * (at->kernel_h - 1) < at->in_h;
}

/* ---- patches ---- */

/* No tap side by side with the next: dilation, rings, gaps. */
static void gather_taps(const run *at, int8_t *patch)
{
    const es_map *map = &at->step->input.map;
    const uint32_t channels = at->step->geometry->in_c;
    for (int32_t ky = 0; ky < at->kernel_h; ky++) {
        int32_t y = at->y + ky * at->dilation_h, x = at->x;
        for (int32_t n = at->kernel_w; n > 0; n--) {
            if (y < 0 || y >= at->in_h || x < 0 || x >= at->in_w) {
                es_mve_fill(patch, at->zero, channels);
            } else {
                const int8_t *from =
                    at->step->input.base + es_column_at(map, y * at->in_w + x);
                es_mve_copy(patch, from, channels);
            }
            patch += channels;
            x += at->dilation_w;
        }
    }
}

/* Rows of taps, some of them outside. */
static void gather_edge(const run *at, const int8_t *x, int8_t *patch)
{
    const int32_t row = at->row, inside = (at->in_w - at->x) * at->width;
    const int32_t from = at->x < 0 ? -at->x * at->width : 0;
    const int32_t to = inside < from ? from : inside < row ? inside : row;
    for (int32_t n = at->kernel_h, y = at->y; n > 0; n--) {
        if (y < 0 || y >= at->in_h) {
            es_mve_fill(patch, at->zero, (uint32_t)row);
        } else {
            es_mve_fill(patch, at->zero, (uint32_t)from);
            es_mve_copy(patch + from, x + from, (uint32_t)(to - from));
            es_mve_fill(patch + to, at->zero, (uint32_t)(row - to));
        }
        patch += row;
        x += at->line;
        y += at->dilation_h;
    }
}

/* Where the whole patch stands in the input, if it does. */
static const int8_t *standing(const run *at)
{
    const es_regular *step = at->step;
    const es_map *map = &step->input.map;
    if (step->in_place) {
        return step->input.base + es_column_at(map, at->y * at->in_w + at->x);
    }
    if (at->kernel_h > 1 || at->scattered || !all_inside(at)) {
        return NULL;
    }
    const int32_t first = at->y * at->in_w + at->x, last = at->kernel_w - 1;
    const int8_t *x = step->input.base + es_column_at(map, first);
    bool wraps = map->ring_columns &&
                 step->input.base + es_column_at(map, first + last) < x;
    return wraps || (at->words && (uintptr_t)x % 4) ? NULL : x;
}

/* The patch of the column, gathered at `to` or where it stands. */
static const int8_t *patch(const run *at, int8_t *to)
{
    const int8_t *x = standing(at);
    if (x) {
        return x;
    }
    if (at->scattered || at->step->input.map.ring_columns) {
        gather_taps(at, to);
        return to;
    }
    x = at->step->input.base + plain_at(at);
    if (!all_inside(at)) {
        gather_edge(at, x, to);
        return to;
    }
    int8_t *row = to;
    for (int32_t n = at->kernel_h; n > 0; n--, x += at->line) {
        es_mve_copy(row, x, (uint32_t)at->row);
        row += at->row;
    }
    return to;
}

static inline int8_t *output_at(const run *at)
{
    const es_writer *output = &at->step->output;
    return output->base + es_column_at(&output->map, (int32_t)at->column);
}

/* ---- depthwise ---- */

/* Addresses of all taps; zeros for those outside. */
static void taps(const run *at, const int8_t *zeros, const int8_t **tap)
{
    const bool inside = all_inside(at);
    const uint32_t in_w = (uint32_t)at->in_w, in_h = (uint32_t)at->in_h;
    const int32_t dilation = at->dilation_w, next = at->width * dilation;
    const int8_t *from = at->step->input.base + plain_at(at);
    int32_t y = at->y;
    for (int32_t n = at->kernel_h; n > 0; n--, from += at->line) {
        const int8_t *here = from;
        if (inside) {
            for (int32_t k = at->kernel_w; k > 0; k--, here += next) {
                *tap++ = here;
            }
            continue;
        }
        uint32_t x = (uint32_t)at->x; /* huge: before the first column */
        const uint32_t limit = (uint32_t)y < in_h ? in_w : 0;
        for (int32_t k = at->kernel_w; k > 0; k--, here += next) {
            *tap++ = x < limit ? here : zeros;
            x += (uint32_t)dilation;
        }
        y += at->dilation_h;
    }
}

static bool depthwise(const es_regular *step, const es_mve_scale *by,
                      es_mve_mac *mac)
{
    const es_geometry *g = step->geometry;
    if (g->groups != g->in_c || mac->rows != g->in_c || step->in_place ||
        step->columns < 2 || mac->cols > MOST_TAPS || step->add.kind ||
        step->input.map.ring_columns) {
        return false;
    }
    const int8_t *tap[MOST_TAPS];
    int8_t *turned =
        (int8_t *)step->scratch; /* there is room for two patches */
    int8_t *zeros = turned + step->patch;
    run at = begin(step);
    bool pairs = es_mve_depthwise_begin(mac, turned);
    es_mve_fill(zeros, at.zero, g->in_c);
    mac->w = turned;
    for (uint32_t n = step->columns; n > 0; n--, next_column(&at)) {
        taps(&at, zeros, tap);
        es_mve_depthwise(mac, by, pairs, tap, output_at(&at));
    }
    return true;
}

/* ---- the rest ---- */

/* Rows of one kind or the other, for up to four columns. */
static void rows(const es_mve_mac *mac, const es_row_group *group,
                 const es_mve_scale *by, const int8_t *const *x,
                 int8_t *const *to, uint32_t columns)
{
    if (group->encoding == ES_DENSE) {
        es_mve_dense(mac, by, x, to, columns);
    } else {
        es_mve_blocks(group, mac->bias, by, x, to, columns);
    }
}

bool es_regular__mve(const es_regular *step)
{
    const es_geometry *g = step->geometry;
    const es_row_group *group = &step->group;
    const uint32_t taps = (uint32_t)g->kernel_h * g->kernel_w;
    es_mve_mac mac = {group->values.data, step->bias, g->rows,
                      taps * g->in_c / g->groups};
    const bool dense = group->encoding == ES_DENSE, adds = step->add.kind != 0;
    es_mve_scale by;
    es_mve_sum sum;
    int8_t before[MOST_ADDED]; /* the addition */
    if ((!dense && (g->groups > 1 || !es_mve_takes_blocks(step))) ||
        !es_mve_scale_begin(&step->requant, &by)) {
        return false;
    }
    if (g->groups > 1) {
        return depthwise(step, &by, &mac);
    }
    uint32_t most = ES_TILE_COLUMNS;
    if (adds) {
        if (mac.rows > MOST_ADDED || !es_mve_add_begin(&step->add, &sum)) {
            return false;
        }
        most = MOST_ADDED / mac.rows < most ? MOST_ADDED / mac.rows : most;
    }
    run at = begin(step);
    while (at.column < step->columns) {
        const int8_t *x[ES_TILE_COLUMNS];
        int8_t *to[ES_TILE_COLUMNS], *out[ES_TILE_COLUMNS];
        const uint32_t rest = step->columns - at.column;
        const uint32_t first = at.column, count = rest < most ? rest : most;
        for (uint32_t p = 0; p < count; p++, next_column(&at)) {
            x[p] = patch(&at, (int8_t *)step->scratch + p * step->patch);
            out[p] = output_at(&at);
            to[p] = adds ? before + p * mac.rows : out[p];
        }
        rows(&mac, group, &by, x, to, count);
        for (uint32_t p = 0; adds && p < count; p++) {
            const int8_t *operand =
                step->operand.base +
                es_column_at(&step->operand.map, (int32_t)(first + p));
            es_mve_add(&sum, to[p], operand, out[p], mac.rows);
        }
    }
    return true;
}
