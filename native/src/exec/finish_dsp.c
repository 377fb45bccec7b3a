/* Sums of a regular step to int8, with SMMULR: scaling, then perhaps an Add. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"
#include "fixedpoint.h"

/* ---- scaling ---- */

/* Exact for multipliers of 2^30 and more and 1 <= right <= 20: SMMLAR of 2 v is
 * the first rounding, and adds the zero point and a half before the shift. That
 * is the second rounding, a half up, so away from zero after 1 is taken from
 * what is negative; from a v that is negative and rounds to 0 it takes nothing
 * that shows. Where 2 v does not fit, the result is past int8 with and without.
 */
enum { ROWS = 4 };

/* Whether four rows have factors as above: right - 1 of each a byte of halves.
 */
static inline bool are_simple(const int32_t *multiplier, uint32_t halves)
{
    int32_t all = multiplier[0] & multiplier[1] & multiplier[2] & multiplier[3];
    return ((halves | (halves + 0x6C6C6C6CU)) & 0x80808080U) == 0 &&
           (all >> 30) != 0;
}

/* Rows as the words of the format have it. */
static __attribute__((noinline)) void rows_slowly(const es_dsp_tile *tile,
                                                  uint32_t first, uint32_t row,
                                                  uint32_t end,
                                                  int8_t *const *to)
{
    const es_stage *stage = &tile->step->requant;
    bool each = stage->multiplier.count > 1, shifts = stage->shift.count > 1;
    for (; row < end; row++) {
        int32_t by = stage->multiplier.data[each ? first + row : 0];
        int shift = stage->shift.data[shifts ? first + row : 0];
        for (uint32_t p = 0; p < tile->width; p++) {
            int32_t v = tile->sums[row * tile->width + p];
            v = stage->zero_point + es_mbqm_double(v, by, shift);
            to[p][row] = (int8_t)es_clamp(v, INT8_MIN, INT8_MAX);
        }
    }
}

/* From `row` on, four rows at a time, until four are not so simple or not
 * there. Returns how far it came. */
static inline __attribute__((always_inline)) uint32_t
scale(const es_dsp_tile *tile, uint32_t first, uint32_t row, uint32_t rows,
      int8_t *const *places, const uint32_t width)
{
    const es_stage *stage = &tile->step->requant;
    const int32_t *multiplier = stage->multiplier.data + first + row;
    const int8_t *shift = stage->shift.data + first + row;
    const int32_t *sums = tile->sums + row * width;
    const int32_t twice_zero_and_1 = 2 * stage->zero_point + 1;
    int8_t *to[ES_TILE_COLUMNS] = {0};
#pragma GCC unroll 4
    for (uint32_t p = 0; p < width; p++) {
        to[p] = places[p] + row;
    }
    const int8_t *const start = shift;
    const int8_t *const end = start + (rows - row) / ROWS * ROWS;
    for (; shift != end; shift += ROWS, multiplier += ROWS) {
        const int32_t all[ROWS] = {multiplier[0], multiplier[1], multiplier[2],
                                   multiplier[3]};
        uint32_t halves = ~es_dsp_load(shift); /* ~-right = right - 1 */
        if (!are_simple(all, halves)) {
            break;
        }
#pragma GCC unroll 4
        for (uint32_t r = 0; r < ROWS; r++, halves >>= 8) {
            int32_t by = width > 1 ? multiplier[r] : all[r], add = 0;
            if (width > 1) {
                add = es_dsp_left(twice_zero_and_1, halves);
            }
#pragma GCC unroll 4
            for (uint32_t p = 0; p < width; p++) {
                int32_t v = *sums++;
                int32_t at = es_dsp_double(v);
                at = width > 1 ? es_dsp_smmlar(at, by, add)
                               : es_dsp_smmulr(at, by);
                at = es_dsp_right(at + (v >> 31), halves);
                at += width > 1 ? 0 : twice_zero_and_1; /* or once for all */
                *to[p]++ = (int8_t)es_dsp_half_to_int8(at);
            }
        }
    }
    return row + (uint32_t)(shift - start);
}

/* The same for one column, with what four rows have loaded together: r4 to r7
 * are factors, then results. */
#define SCALE_VALUE(v, factor)                                                 \
    "qadd %[t], %[" v "], %[" v "]\n\t"                                        \
    "smmulr " factor ", %[t], " factor "\n\t"                                  \
    "add " factor ", " factor ", %[" v "], asr #31\n\t"                        \
    "asr " factor ", " factor ", %[halves]\n\t"                                \
    "add " factor ", %[zero]\n\tssat " factor ", #8, " factor ", asr #1\n\t"   \
    "strb " factor ", [%[to]], #1\n\t"
#define SCALE_NEXT "lsr %[halves], #8\n\t"

static __attribute__((noinline)) uint32_t scale_1(const es_dsp_tile *tile,
                                                  uint32_t first, uint32_t row,
                                                  uint32_t rows,
                                                  int8_t *const *places)
{
    const es_stage *stage = &tile->step->requant;
    const int32_t *multiplier = stage->multiplier.data + first + row;
    const int8_t *shift = stage->shift.data + first + row;
    const int32_t *sums = tile->sums + row;
    const int8_t *const end = shift + (rows - row) / ROWS * ROWS;
    const int32_t twice_zero_and_1 = 2 * stage->zero_point + 1;
    int8_t *to = places[0] + row;
    uint32_t halves, t, v, u;
    if (shift == end) {
        return row;
    }
    __asm volatile(
        "1:\n\tldr %[halves], [%[shift]], #4\n\tmvns %[halves], %[halves]\n\t"
        "add %[t], %[halves], #0x6C6C6C6C\n\torrs %[t], %[halves]\n\t"
        "tst %[t], #0x80808080\n\tbne 2f\n\t"
        "ldmia %[multiplier]!, {r4-r7}\n\tand %[t], r4, r5\n\t"
        "and %[t], r6\n\tand %[t], r7\n\tlsrs %[t], #30\n\tbeq 2f\n\t"
        "ldrd %[v], %[u], [%[sums]], #8\n\t" SCALE_VALUE("v", "r4")
            SCALE_NEXT SCALE_VALUE("u", "r5") SCALE_NEXT
        "ldrd %[v], %[u], [%[sums]], #8\n\t" SCALE_VALUE("v", "r6")
            SCALE_NEXT SCALE_VALUE(
                "u", "r7") "cmp %[shift], %[end]\n\tbne 1b\n\tb 3f\n\t"
                           "2:\n\tsubs %[shift], #4\n\t3:\n\t"
        : [halves] "=&r"(halves), [t] "=&r"(t), [v] "=&r"(v), [u] "=&r"(u),
          [shift] "+&r"(shift), [multiplier] "+&r"(multiplier),
          [sums] "+&r"(sums), [to] "+&r"(to)
        : [end] "r"(end), [zero] "r"(twice_zero_and_1)
        : "r4", "r5", "r6", "r7", "memory", "cc");
    return rows - (uint32_t)(end - shift) - (rows - row) % ROWS;
}

#define SCALE(width)                                                           \
    static __attribute__((noinline))                                           \
    uint32_t scale_##width(const es_dsp_tile *tile, uint32_t first,            \
                           uint32_t row, uint32_t rows, int8_t *const *to)     \
    {                                                                          \
        return scale(tile, first, row, rows, to, width);                       \
    }
SCALE(2)
SCALE(4)

static void scale_rows(const es_dsp_tile *tile, uint32_t first, uint32_t rows,
                       int8_t *const *to)
{
    const es_stage *stage = &tile->step->requant;
    if (stage->multiplier.count == 1 || stage->shift.count == 1) {
        rows_slowly(tile, first, 0, rows, to);
        return;
    }
    for (uint32_t row = 0;; row += ROWS) {
        row = ES_HAS_FOURS && tile->width == 4
                  ? scale_4(tile, first, row, rows, to)
              : ES_HAS_PAIRS && tile->width == 2
                  ? scale_2(tile, first, row, rows, to)
                  : scale_1(tile, first, row, rows, to);
        if (row == rows) {
            return;
        }
        uint32_t end = rows - row < ROWS ? rows : row + ROWS;
        rows_slowly(tile, first, row, end, to);
        if (end == rows) {
            return;
        }
    }
}

static bool is_full(const es_stage *stage)
{
    return stage->qmin == INT8_MIN && stage->qmax == INT8_MAX;
}

static void clamp(const es_stage *stage, int8_t *values, uint32_t count)
{
    for (int8_t *end = values + count; values != end; values++) {
        *values = (int8_t)es_clamp(*values, stage->qmin, stage->qmax);
    }
}

/* ---- the sum of two tensors ---- */

/* Inputs less their zero points are below 2^8, so with 20 more bits what is
 * multiplied is below 2^30. */
enum { LEFT = 20 };

/* Of the two that are added, the one with the larger scale is only halved:
 * x * 2^20 / 2 is exact. */
static bool halves(const es_scaled *by)
{
    return by->shift == 0 && by->multiplier == 1 << 30;
}

static bool scales(const es_scaled *by)
{
    return by->shift < 0 && by->shift >= -20;
}

static bool adds(const es_stage *stage)
{
    return stage->left_shift == LEFT && stage->rounding == ES_ROUND_DOUBLE &&
           !stage->negate_value && !stage->negate_other && scales(stage->out) &&
           ((halves(stage->value) && scales(stage->other)) ||
            (halves(stage->other) && scales(stage->value)));
}

/* b scaled, a halved to it, and the sum scaled. */
#define ADD_VALUE                                                              \
    "ldrsb %[v], [%[b]], #1\n\tadd %[v], %[zero], %[v], lsl #21\n\t"           \
    "smmlar %[r], %[v], %[multiplier], %[half]\n\t"                            \
    "add %[r], %[r], %[v], asr #31\n\tasr %[r], %[right]\n\t"                  \
    "ldrsb %[v], [%[a]], #1\n\tadd %[v], %[halved_zero], %[v], lsl #20\n\t"    \
    "add %[v], %[v], %[r], lsl #1\n\t"                                         \
    "smmlar %[r], %[v], %[out_multiplier], %[out_half]\n\t"                    \
    "add %[r], %[r], %[v], asr #31\n\tasr %[r], %[out_right]\n\t"              \
    "ssat %[r], #8, %[r]\n\tstrb %[r], [%[to]], #1\n\t"
#define ADD_VALUES(body, last)                                                 \
    __asm volatile(                                                            \
        body                                                                   \
        :                                                                      \
        [a] "+&r"(a), [b] "+&r"(b), [to] "+&r"(to), [v] "=&r"(v), [r] "=&r"(r) \
        : [zero] "r"(zero), [multiplier] "r"(multiplier), [half] "r"(half),    \
          [right] "r"(right), [halved_zero] "r"(halved_zero),                  \
          [out_multiplier] "r"(out_multiplier), [out_half] "r"(out_half),      \
          [out_right] "r"(out_right), [end] "m"(last)                          \
        : "memory", "cc")

/* a is halved, b scaled. */
static void add(const es_stage *stage, const es_scaled *halved,
                const es_scaled *by, const int8_t *a, const int8_t *b,
                int8_t *to, uint32_t count)
{
    const es_scaled *out = stage->out;
    const int32_t multiplier = by->multiplier, right = -by->shift;
    const int32_t zero = -by->zero_point * (2 << LEFT);
    const int32_t half = 1 << (right - 1);
    const int32_t halved_zero = -halved->zero_point * (1 << LEFT);
    const int32_t out_multiplier = out->multiplier, out_right = -out->shift;
    const int32_t out_half = (2 * out->zero_point + 1) * (1 << (out_right - 1));
    const int8_t *const end = a + count, *const fours = end - count % 4;
    int32_t v, r;
    if (a != fours) {
        ADD_VALUES("1:\n\t" ADD_VALUE ADD_VALUE ADD_VALUE ADD_VALUE
                   "ldr %[v], %[end]\n\tcmp %[a], %[v]\n\tbne 1b\n\t",
                   fours);
    }
    while (a != end) {
        ADD_VALUES(ADD_VALUE, end);
    }
}

void es_dsp_add(const es_stage *stage, const int8_t *values,
                const int8_t *operand, int8_t *to, uint32_t count)
{
    if (halves(stage->value) && scales(stage->other)) {
        add(stage, stage->value, stage->other, values, operand, to, count);
    } else {
        add(stage, stage->other, stage->value, operand, values, to, count);
    }
}

/* ---- both ---- */

bool es_dsp_finishes(const es_regular *step)
{
    return !ES_HAS_ADD || !step->add.kind ||
           (is_full(&step->requant) && adds(&step->add));
}

void es_dsp_finish(const es_dsp_tile *tile, uint32_t row, uint32_t rows)
{
    const es_regular *step = tile->step;
    const bool more = ES_HAS_ADD && step->add.kind != 0;
    int8_t between[ES_DSP_SUMS];
    int8_t *to[ES_TILE_COLUMNS];
    for (uint32_t p = 0; p < tile->width; p++) {
        /* what is no column of the output goes nowhere */
        bool there = p < tile->count && !more;
        to[p] = there ? tile->output[p] + row : between + p * rows;
    }
    scale_rows(tile, row, rows, to);
    const es_stage *last = more ? &step->add : &step->requant;
    if (!more && is_full(last)) {
        return;
    }
    for (uint32_t p = 0; p < tile->count; p++) {
        int8_t *output = tile->output[p] + row;
        if (more) {
            es_dsp_add(last, to[p], tile->operand[p] + row, output, rows);
        }
        if (!is_full(last)) {
            clamp(last, output, rows);
        }
    }
}
