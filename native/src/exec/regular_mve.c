/* A whole Mac step with Helium: patches, sums, scaling and addition. */
#include "exec/kernels.h"
#include "exec/mve_mac.h"
#include "es_assert.h"

enum { MOST_TAPS = 64, MOST_ADDED = 256, MOST_PADDED = 1024 };

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

bool es_mve_scale_begin(const es_stage *stage, uint32_t channels,
                        es_mve_scale *scale)
{
    if (stage->rounding != ES_ROUND_DOUBLE ||
        stage->multiplier.count != channels || stage->shift.count != channels ||
        !all_right(&stage->shift)) {
        return false;
    }
    es_mve_range to = {stage->zero_point, stage->qmin, stage->qmax,
                       stage->qmin >= stage->zero_point};
    scale->multiplier = stage->multiplier.data;
    scale->shift = stage->shift.data;
    scale->to = to;
    return true;
}

/* ---- columns one after another ---- */

/* A step at work on a column: what each column needs of the step, and where the
 * column's first tap stands, by row and column of the input. */
typedef struct run {
    const es_regular *step;
    int32_t in_h, in_w, width;            /* width: of an input column, bytes */
    int32_t kernel_h, kernel_w, row;      /* row: of a patch, bytes */
    int32_t dilation_h, dilation_w, line; /* line: to the next row of taps */
    int32_t y, x, end;                    /* end: x after the last of a row */
    int32_t stride_h, stride_w, left;
    uint32_t inside_h, inside_w; /* from 0 to here all taps are inside */
    int32_t next;                /* to the next column, bytes */
    int32_t from;          /* to the first tap, bytes, where there is no ring */
    int8_t *out, *out_end; /* the column of the output; its ring's end */
    uintptr_t bits;        /* patches stand where these are 0 */
    bool ring, copied;     /* copied: patches have to be, wherever they stand */
    bool scattered;        /* taps of a row do not stand side by side */
    int8_t zero;
} run;

/* A column of an NWC tensor, which may be a ring. */
static inline const int8_t *column_at(const es_reader *tensor, int32_t column)
{
    const es_map *map = &tensor->map;
    uint32_t at = map->first + (uint32_t)column;
    if (map->ring_columns && at >= map->ring_columns) {
        at -= map->ring_columns;
    }
    return tensor->base + (ptrdiff_t)at * (ptrdiff_t)map->place->pitch;
}

/* Bytes to the first tap of the column, before the input where it is outside.
 */
static int32_t plain(const run *at)
{
    return (at->y * at->in_w + at->x) * at->width;
}

/* First taps, from 0 on, that have the last one `taps` further inside. */
static uint32_t inside(int32_t size, int32_t taps)
{
    return size > taps ? (uint32_t)(size - taps) : 0;
}

static run begin(const es_regular *step)
{
    const es_geometry *g = step->geometry;
    const es_map *in = &step->input.map, *out = &step->output.map;
    run at = {.step = step};
    at.in_h = g->in_h, at.in_w = g->in_w, at.width = (int32_t)in->place->pitch;
    at.kernel_h = g->kernel_h, at.kernel_w = g->kernel_w;
    at.row = g->kernel_w * g->in_c;
    at.dilation_h = g->dilation_h, at.dilation_w = g->dilation_w;
    at.line = at.width * g->in_w * g->dilation_h;
    at.y = -g->pad_top, at.x = at.left = -g->pad_left;
    at.stride_h = g->stride_h, at.stride_w = g->stride_w;
    at.end = at.left + g->out_w * g->stride_w;
    at.inside_h = inside(g->in_h, (g->kernel_h - 1) * g->dilation_h);
    at.inside_w = inside(g->in_w, (g->kernel_w - 1) * g->dilation_w);
    at.next = g->stride_w * at.width;
    at.out = step->output.base + es_column_at(out, 0);
    at.out_end =
        step->output.base + (size_t)out->ring_columns * out->place->pitch;
    at.bits = step->group.encoding == ES_BSR && step->group.block_cols == 4;
    at.bits *= 3;
    at.ring = in->ring_columns != 0;
    at.scattered =
        g->kernel_w > 1 && (g->dilation_w > 1 || in->place->pitch != g->in_c);
    at.zero = in->place->zero_point;
    at.from = plain(&at);
    return at;
}

static inline void next_column(run *at)
{
    at->x += at->stride_w;
    at->from += at->next;
    if (at->x == at->end) {
        at->x = at->left;
        at->y += at->stride_h;
        at->from = plain(at);
    }
    at->out += at->step->output.map.place->pitch;
    if (at->out == at->out_end) {
        at->out = at->step->output.base;
    }
}

static inline bool all_inside(const run *at)
{
    return (uint32_t)at->x < at->inside_w && (uint32_t)at->y < at->inside_h;
}

/* ---- patches ---- */

/* Tap by tap: dilation, rings, gaps. */
static __attribute__((noinline)) void gather_taps(const run *at, int8_t *patch)
{
    const es_reader *input = &at->step->input;
    const uint32_t channels = at->step->geometry->in_c;
    for (int32_t ky = 0; ky < at->kernel_h; ky++) {
        const int32_t y = at->y + ky * at->dilation_h;
        int32_t x = at->x;
        for (int32_t n = at->kernel_w; n > 0; n--) {
            if (y < 0 || y >= at->in_h || x < 0 || x >= at->in_w) {
                es_mve_fill(patch, at->zero, channels);
            } else {
                es_mve_copy(patch, column_at(input, y * at->in_w + x),
                            channels);
            }
            patch += channels;
            x += at->dilation_w;
        }
    }
}

/* Rows of taps, some of them outside. */
static __attribute__((noinline)) void gather_edge(const run *at, int8_t *patch)
{
    const int32_t row = at->row, inside = (at->in_w - at->x) * at->width;
    const int32_t from = at->x < 0 ? -at->x * at->width : 0;
    const int32_t to = inside < from ? from : inside < row ? inside : row;
    int32_t x = at->from;
    for (int32_t n = at->kernel_h, y = at->y; n > 0; n--) {
        if (y < 0 || y >= at->in_h) {
            es_mve_fill(patch, at->zero, (uint32_t)row);
        } else {
            es_mve_fill(patch, at->zero, (uint32_t)from);
            es_mve_copy(patch + from, at->step->input.base + x + from,
                        (uint32_t)(to - from));
            es_mve_fill(patch + to, at->zero, (uint32_t)(row - to));
        }
        patch += row;
        x += at->line;
        y += at->dilation_h;
    }
}

/* One row of taps in a ring, all inside: where it stands, or NULL where the
 * ring ends within. */
static const int8_t *in_ring(const run *at)
{
    const es_reader *input = &at->step->input;
    const int32_t first = at->y * at->in_w + at->x;
    const int8_t *x = column_at(input, first);
    const int8_t *last = column_at(input, first + at->kernel_w - 1);
    return last >= x ? x : NULL;
}

/* The patch of the column, gathered at `to` or where it stands. */
static __attribute__((noinline)) const int8_t *patch(const run *at, int8_t *to)
{
    const bool whole = all_inside(at);
    if (whole && at->kernel_h == 1 && !at->scattered) {
        const int8_t *x =
            at->ring ? in_ring(at) : at->step->input.base + at->from;
        if (x && ((uintptr_t)x & at->bits) == 0 && !at->copied) {
            return x;
        }
    }
    if (at->scattered || at->ring || at->width != at->row / at->kernel_w) {
        gather_taps(at, to);
    } else if (whole) {
        const int8_t *x = at->step->input.base + at->from;
        int8_t *row = to;
        for (int32_t n = at->kernel_h; n > 0; n--, x += at->line) {
            es_mve_copy(row, x, (uint32_t)at->row);
            row += at->row;
        }
    } else {
        gather_edge(at, to);
    }
    return to;
}

/* ---- depthwise ---- */

/* Addresses of all taps; zeros for those outside. */
static void edge_taps(const run *at, const int8_t *zeros, const int8_t **tap)
{
    for (int32_t n = 0; n < at->kernel_h; n++) {
        int32_t y = at->y + n * at->dilation_h, x = at->x;
        for (int32_t k = at->kernel_w; k > 0; k--, x += at->dilation_w) {
            bool there = y >= 0 && y < at->in_h && x >= 0 && x < at->in_w;
            *tap++ =
                there ? column_at(&at->step->input, y * at->in_w + x) : zeros;
        }
    }
}

/* Addresses of taps that are all inside, where there is no ring. */
static void inner_taps(const run *at, const int8_t **tap)
{
    const int8_t *row = at->step->input.base + at->from;
    const int32_t next = at->width * at->dilation_w;
    for (int32_t n = at->kernel_h; n > 0; n--, row += at->line) {
        const int8_t *here = row;
        for (int32_t k = at->kernel_w; k > 0; k--, here += next) {
            *tap++ = here;
        }
    }
}

/* In the scratch, the weights as es_mve_depthwise wants them, then a column of
 * zero points. There is room for them unless the output has a single column. */
static bool takes_depthwise(const run *at, uint32_t rows, uint32_t count)
{
    const es_regular *step = at->step;
    const es_geometry *g = step->geometry;
    return g->groups == g->in_c && rows == g->in_c && count <= MOST_TAPS &&
           step->scratch_bytes >= step->patch &&
           (step->scratch_bytes >= step->patch + rows ||
            (step->columns == 1 && all_inside(at)));
}

static void depthwise(run *at, const es_mve_mac *mac, const es_mve_scale *by,
                      const es_mve_sum *sum)
{
    const es_regular *step = at->step;
    const int8_t *tap[MOST_TAPS];
    int8_t before[MOST_ADDED], *turned = (int8_t *)step->scratch;
    int8_t *zeros = turned + step->patch;
    es_mve_mac columns = *mac;
    columns.w = turned;
    const bool pairs = es_mve_depthwise_begin(mac, turned);
    if (step->scratch_bytes >= step->patch + mac->rows) {
        es_mve_fill(zeros, at->zero, mac->rows);
    }
    for (uint32_t n = 0; n < step->columns; n++, next_column(at)) {
        if (all_inside(at) && !at->ring) {
            inner_taps(at, tap);
        } else {
            edge_taps(at, zeros, tap);
        }
        es_mve_depthwise(&columns, by, pairs, tap, sum ? before : at->out);
        if (sum) {
            es_mve_add(sum, before, column_at(&step->operand, (int32_t)n),
                       at->out, mac->rows);
        }
    }
}

/* ---- the rest ---- */

/* The addition to columns [first, first + count), which stand one after another
 * in `before`: in one piece where they do so everywhere. */
static void add_columns(const run *at, const es_mve_sum *sum,
                        const int8_t *before, uint32_t first, uint32_t count,
                        int8_t *const *out)
{
    const es_reader *operand = &at->step->operand;
    const uint32_t rows = at->step->geometry->rows;
    const ptrdiff_t all = (ptrdiff_t)((count - 1) * rows);
    const int8_t *from = column_at(operand, (int32_t)first);
    if (out[count - 1] - out[0] == all &&
        column_at(operand, (int32_t)(first + count - 1)) - from == all) {
        es_mve_add(sum, before, from, out[0], count * rows);
        return;
    }
    for (uint32_t p = 0; p < count; p++, before += rows) {
        from = column_at(operand, (int32_t)(first + p));
        es_mve_add(sum, before, from, out[p], rows);
    }
}

/* Where patches are gathered, and how many at once. */
typedef struct room {
    int8_t *at;
    uint32_t stride, columns;
} room;

/* `padded`, MOST_PADDED bytes, where words are wanted and the scratch, or an
 * input that patches stand in, has none; columns: 0 where that is too small. */
static room room_of(run *at, int8_t *padded)
{
    const es_regular *step = at->step;
    room scratch = {(int8_t *)step->scratch, step->patch, ES_TILE_COLUMNS};
    uintptr_t words = step->patch;
    words |= step->in_place ? (uintptr_t)step->input.base | (uintptr_t)at->width
                            : (uintptr_t)step->scratch;
    if ((words & at->bits) == 0) {
        return scratch;
    }
    const uint32_t stride = (step->patch + 3) / 4 * 4;
    const uint32_t columns = MOST_PADDED / stride;
    room own = {padded, stride,
                columns < ES_TILE_COLUMNS ? columns : ES_TILE_COLUMNS};
    at->copied = stride != step->patch;
    es_mve_fill(padded, 0, MOST_PADDED);
    return own;
}

/* Dense rows or blocks; false: and nothing is done. */
static bool full(run *at, const es_mve_mac *mac, const es_mve_scale *by,
                 const es_mve_sum *sum)
{
    const es_regular *step = at->step;
    int8_t before[MOST_ADDED]; /* the addition */
    int8_t padded[MOST_PADDED] __attribute__((aligned(4)));
    const room to_gather = room_of(at, padded);
    uint32_t most = to_gather.columns;
    if (sum && MOST_ADDED / mac->rows < most) {
        most = MOST_ADDED / mac->rows;
    }
    if (most == 0) {
        return false;
    }
    for (uint32_t first = 0, count; first < step->columns; first += count) {
        const int8_t *x[ES_TILE_COLUMNS];
        int8_t *to[ES_TILE_COLUMNS], *out[ES_TILE_COLUMNS];
        const uint32_t rest = step->columns - first;
        count = rest < most ? rest : most;
        for (uint32_t p = 0; p < count; p++, next_column(at)) {
            x[p] = patch(at, to_gather.at + p * to_gather.stride);
            ES_ASSERT(((uintptr_t)x[p] & at->bits) == 0); /* QEMU is lenient */
            out[p] = at->out;
            to[p] = sum ? before + p * mac->rows : out[p];
        }
        if (step->group.encoding == ES_DENSE) {
            es_mve_dense(mac, by, x, to, count);
        } else {
            es_mve_blocks(&step->group, mac->bias, by, x, to, count);
        }
        if (sum) {
            add_columns(at, sum, before, first, count, out);
        }
    }
    return true;
}

bool es_regular__mve(const es_regular *step)
{
    const es_geometry *g = step->geometry;
    const es_row_group *group = &step->group;
    const uint32_t count = (uint32_t)g->kernel_h * g->kernel_w;
    const es_mve_mac mac = {group->values.data, step->bias, g->rows,
                            count * g->in_c / g->groups};
    const bool dense = group->encoding == ES_DENSE, adds = step->add.kind != 0;
    es_mve_scale by;
    es_mve_sum sum;
    if ((!dense && (g->groups > 1 || !es_mve_takes_blocks(group))) ||
        !es_mve_scale_begin(&step->requant, mac.rows, &by) ||
        (adds &&
         (mac.rows > MOST_ADDED || !es_mve_add_begin(&step->add, &sum)))) {
        return false;
    }
    run at = begin(step);
    if (g->groups == 1) {
        return full(&at, &mac, &by, adds ? &sum : NULL);
    }
    if (takes_depthwise(&at, mac.rows, count)) {
        depthwise(&at, &mac, &by, adds ? &sum : NULL);
        return true;
    }
    return false;
}
