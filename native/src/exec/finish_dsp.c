/* Sums of a regular step to int8, with SMMULR: scaling, then perhaps an Add. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"
#include "fixedpoint.h"

/* ---- scaling ---- */

/* Exact for multipliers of 2^30 and more and 1 <= right <= MOST_RIGHT: SMMULR
 * of 2 v is the first rounding; the second, a half away from zero, is a half up
 * after 1 is taken from what is negative; the zero point is added before the
 * shift. Where 2 v does not fit, the result is past int8 with and without. */
enum { MOST_RIGHT = 20 };

typedef struct scaling {
    const int32_t *multiplier;
    const int8_t *shift;
    uint32_t each, shifts; /* bytes from channel to channel: 0 or their size */
    int32_t twice_zero_and_1;
} scaling;

static scaling scaling_of(const es_stage *stage, uint32_t row)
{
    scaling s;
    s.each = stage->multiplier.count > 1;
    s.shifts = stage->shift.count > 1;
    s.multiplier = stage->multiplier.data + (s.each ? row : 0);
    s.shift = stage->shift.data + (s.shifts ? row : 0);
    s.twice_zero_and_1 = 2 * stage->zero_point + 1;
    return s;
}

/* A row as the words of the format have it. */
static __attribute__((noinline)) void
row_slowly(const es_stage *stage, const int32_t *sums, uint32_t width,
           int8_t *const *to, uint32_t row, int32_t multiplier, int shift)
{
    for (uint32_t p = 0; p < width; p++) {
        int32_t v = es_mbqm_double(sums[p], multiplier, shift);
        to[p][row] =
            (int8_t)es_clamp(stage->zero_point + v, INT8_MIN, INT8_MAX);
    }
}

static inline __attribute__((always_inline)) void
scale(const es_dsp_tile *tile, uint32_t first, uint32_t rows,
      int8_t *const *places, const uint32_t width)
{
    const es_stage *stage = &tile->step->requant;
    scaling by = scaling_of(stage, first);
    const int32_t *sums = tile->sums;
    int8_t *to[ES_TILE_COLUMNS] = {0};
#pragma GCC unroll 4
    for (uint32_t p = 0; p < width; p++) {
        to[p] = places[p];
    }
    for (uint32_t row = 0; row < rows; row++, sums += width) {
        int32_t multiplier = *by.multiplier, shift = *by.shift;
        by.multiplier += by.each;
        by.shift += by.shifts;
        uint32_t half = (uint32_t)-1 - (uint32_t)shift; /* right - 1 */
        if (half >= MOST_RIGHT || !(multiplier >> 30)) {
            row_slowly(stage, sums, width, places, row, multiplier, shift);
            continue;
        }
        int32_t add = by.twice_zero_and_1 * (1 << half);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < width; p++) {
            int32_t v = es_dsp_smmulr(es_dsp_double(sums[p]), multiplier);
            v = (v + (v >> 31) + add) >> -shift;
            to[p][row] = (int8_t)es_dsp_to_int8(v);
        }
    }
}

static void clamp(const es_stage *stage, int8_t *values, uint32_t count)
{
    if (stage->qmin == INT8_MIN && stage->qmax == INT8_MAX) {
        return;
    }
    for (int8_t *end = values + count; values != end; values++) {
        *values = (int8_t)es_clamp(*values, stage->qmin, stage->qmax);
    }
}

/* ---- the sum of two tensors ---- */

/* A factor of an Add: half and sign are 0 where nothing is shifted, so that
 * nothing is rounded. */
typedef struct factor {
    int32_t multiplier, zero, half, sign;
    int right;
} factor;

/* Inputs less their zero points are below 2^8, so with 20 more bits what is
 * multiplied is below 2^30. */
enum { LEFT = 20 };

static factor factor_of(const es_scaled *by)
{
    int right = -by->shift;
    factor f = {by->multiplier, by->zero_point * (2 << LEFT),
                right ? 1 << (right - 1) : 0, right ? -1 : 0, right};
    return f;
}

/* es_mbqm_double of half of v. */
static inline int32_t times(int32_t v, const factor *by)
{
    v = es_dsp_smmulr(v, by->multiplier);
    return (v + (v >> 31 & by->sign) + by->half) >> by->right;
}

static bool only_right(const es_scaled *by)
{
    return by->shift <= 0 && by->shift >= -20;
}

static bool adds(const es_stage *stage)
{
    return stage->left_shift == LEFT && stage->rounding == ES_ROUND_DOUBLE &&
           !stage->negate_value && !stage->negate_other &&
           only_right(stage->value) && only_right(stage->other) &&
           only_right(stage->out);
}

void es_dsp_add(const es_stage *stage, const int8_t *values,
                const int8_t *operand, int8_t *to, uint32_t count)
{
    const factor value = factor_of(stage->value);
    const factor other = factor_of(stage->other);
    factor out = factor_of(stage->out);
    out.half += stage->out->zero_point * (1 << out.right);
    for (const int8_t *end = values + count; values != end;) {
        int32_t v = *values++ * (2 << LEFT) - value.zero;
        int32_t o = *operand++ * (2 << LEFT) - other.zero;
        int32_t sum = times(v, &value) + times(o, &other);
        *to++ = (int8_t)es_dsp_to_int8(times(2 * sum, &out));
    }
}

/* ---- both ---- */

bool es_dsp_finishes(const es_regular *step)
{
    return !ES_HAS_ADD || !step->add.kind ||
           (step->requant.qmin == INT8_MIN && step->requant.qmax == INT8_MAX &&
            adds(&step->add));
}

void es_dsp_finish(const es_dsp_tile *tile, uint32_t row, uint32_t rows)
{
    const es_regular *step = tile->step;
    int8_t between[ES_TILE_COLUMNS][ES_DSP_ROWS];
    int8_t *to[ES_TILE_COLUMNS];
    for (uint32_t p = 0; p < tile->width; p++) {
        /* what is no column of the output goes nowhere */
        bool there = p < tile->count && !step->add.kind;
        to[p] = there ? tile->output[p] + row : between[p];
    }
    if (ES_HAS_COLUMNS && tile->width == 4) {
        scale(tile, row, rows, to, 4);
    } else if (ES_HAS_COLUMNS && tile->width == 2) {
        scale(tile, row, rows, to, 2);
    } else {
        scale(tile, row, rows, to, 1);
    }
    const es_stage *last = step->add.kind ? &step->add : &step->requant;
    for (uint32_t p = 0; p < tile->count; p++) {
        int8_t *output = tile->output[p] + row;
        if (ES_HAS_ADD && step->add.kind) {
            es_dsp_add(&step->add, to[p], tile->operand[p] + row, output, rows);
        }
        clamp(last, output, rows);
    }
}
