/* Elementwise stages, PLAN_FORMAT.md section 4, on a part of a tile in place.
 *
 * Sums stay inside int32 by I-42 and I-43 unless a comment says otherwise. */
#include "exec/kernels.h"
#include "elementwise.h"

/* Parameter lists have one entry per channel, or one. */
static uint32_t entry(uint32_t count, uint32_t channel)
{
    return count > 1 ? channel : 0;
}

void es_requant(const es_stage *stage, const es_part *part)
{
#define ES_REQUANT_KERNEL(name)                                                \
    if (name(stage, part)) {                                                   \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    for (uint32_t r = part->from; r < part->to; r++) {
        uint32_t channel = part->tile->channel[r] - part->first_channel;
        int32_t multiplier =
            stage->multiplier.data[entry(stage->multiplier.count, channel)];
        int shift = stage->shift.data[entry(stage->shift.count, channel)];
        for (uint32_t p = 0; p < part->tile->columns; p++) {
            int32_t *v = &part->tile->value[p][r];
            int32_t scaled = es_mbqm(*v, multiplier, shift, stage->rounding);
            *v = es_clamp(stage->zero_point + scaled, stage->qmin, stage->qmax);
        }
    }
}

static void clamp(const es_stage *stage, const es_part *part)
{
    for (uint32_t p = 0; p < part->tile->columns; p++) {
        for (uint32_t r = part->from; r < part->to; r++) {
            int32_t *v = &part->tile->value[p][r];
            *v = es_clamp(*v, stage->qmin, stage->qmax);
        }
    }
}

static void lut(const es_stage *stage, const es_part *part)
{
    for (uint32_t p = 0; p < part->tile->columns; p++) {
        for (uint32_t r = part->from; r < part->to; r++) {
            int32_t *v = &part->tile->value[p][r];
            *v = (int8_t)stage->table.data[*v + 128];
        }
    }
}

/* The sum may need 63 bits (I-44), and its clamp comes before int32. */
static int32_t add_single_requant(const es_stage *stage, uint32_t channel,
                                  int32_t v, int32_t o)
{
    int32_t multiplier =
        stage->multiplier.data[entry(stage->multiplier.count, channel)];
    int32_t other = stage->other_multiplier
                        .data[entry(stage->other_multiplier.count, channel)];
    int shift = stage->shift.data[entry(stage->shift.count, channel)];
    int64_t sum = (int64_t)v * multiplier +
                  (int64_t)(o - stage->other_zero_point) * other +
                  ((int64_t)1 << (shift - 1));
    int64_t result = stage->zero_point + (sum >> shift);
    return (int32_t)(result < stage->qmin   ? stage->qmin
                     : result > stage->qmax ? stage->qmax
                                            : result);
}

/* Stages with a second tensor, repeated where it has one column or channel. */
static void with_operand(const es_exec *x, const es_stage *stage,
                         const es_part *part)
{
    es_reader operand = es_reader_of(x, stage->operand);
    const es_place *place = operand.map.place;
    ptrdiff_t column_at[ES_TILE_COLUMNS];
    for (uint32_t p = 0; p < part->tile->columns; p++) {
        uint32_t column = part->tile->column[p];
        column_at[p] = es_column_at(&operand.map,
                                    place->columns > 1 ? (int32_t)column : 0);
    }
    if (ES_HAS_ADD && stage->kind == ES_STAGE_ADD &&
        place->layout == ES_LAYOUT_NWC) {
#define ES_ADD_KERNEL(name)                                                    \
    if (name(stage, part, operand.base, column_at, place->channels > 1)) {     \
        return;                                                                \
    }
#include "exec/exec_kernels.inc"
    }
    for (uint32_t r = part->from; r < part->to; r++) {
        uint32_t channel = part->tile->channel[r] - part->first_channel;
        const int8_t *at =
            operand.base +
            es_channel_at(&operand.map, place->channels > 1 ? channel : 0);
        for (uint32_t p = 0; p < part->tile->columns; p++) {
            int32_t *v = &part->tile->value[p][r], o = at[column_at[p]];
            int32_t result = ES_HAS_ADD && stage->kind == ES_STAGE_ADD
                                 ? es_stage_add(stage, *v, o)
                             : ES_HAS_MUL && stage->kind == ES_STAGE_MUL
                                 ? es_stage_mul(stage, *v, o)
                             : ES_HAS_ADD_SINGLE_REQUANT
                                 ? add_single_requant(stage, channel, *v, o)
                                 : 0;
            *v = es_clamp(result, stage->qmin, stage->qmax);
        }
    }
}

void es_stages_apply(const es_exec *x, const es_part *part, uint32_t begin,
                     uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        es_stage stage;
        es_stage_view(&x->lane.branch, i, &stage);
        if (ES_HAS_REQUANT && stage.kind == ES_STAGE_REQUANT) {
            es_requant(&stage, part);
        } else if (ES_HAS_CLAMP && stage.kind == ES_STAGE_CLAMP) {
            clamp(&stage, part);
        } else if (ES_HAS_LUT && stage.kind == ES_STAGE_LUT) {
            lut(&stage, part);
        } else if (es_has_operands()) {
            with_operand(x, &stage, part);
        }
    }
}
