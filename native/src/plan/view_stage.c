/* The ten kinds of stage, each decoded into the fields it has. */
#include "plan/fb.h"

#include <string.h>

static const es_scaled *scaled(const uint8_t *t, uint32_t slot)
{
    return (const es_scaled *)(const void *)es_fb_field(t, slot);
}

static const es_window *window(const uint8_t *t, uint32_t slot)
{
    return (const es_window *)(const void *)es_fb_field(t, slot);
}

static void running_view(const uint8_t *t, uint32_t slot, es_running *view)
{
    t = es_fb_table(t, slot);
    if (t != NULL) {
        view->there = true;
        view->ring = es_fb_u16(t, ES_SLOT(Running, ring));
        view->each = es_fb_u8(t, ES_SLOT(Running, each), 0) != 0;
        view->fresh = es_fb_u32(t, ES_SLOT(Running, fresh));
        view->columns = es_fb_u32(t, ES_SLOT(Running, columns));
    }
}

/* Fields by the same name in several tables. */
#define RANGE(view, t, table)                                                  \
    ((view)->qmin = es_fb_i8(t, ES_SLOT(table, qmin)),                         \
     (view)->qmax = es_fb_i8(t, ES_SLOT(table, qmax)))
#define ROUNDING(view, t, table)                                               \
    ((view)->rounding = es_fb_u8(t, ES_SLOT(table, rounding), 0))

static const es_scaled *get_scaled(const es_fb *t, uint32_t slot)
{
    return (const es_scaled *)(const void *)es_fb_get(t, slot);
}

static void requant_view(const uint8_t *table, es_stage *view)
{
    es_fb t = es_fb_open(table);
    view->multiplier =
        es_fb_as_i32s(es_fb_get_bytes(&t, ES_SLOT(Requant, multiplier)));
    view->shift = es_fb_as_i8s(es_fb_get_bytes(&t, ES_SLOT(Requant, shift)));
    view->zero_point = (int8_t)es_fb_get_u8(&t, ES_SLOT(Requant, zero_point));
    view->qmin = (int8_t)es_fb_get_u8(&t, ES_SLOT(Requant, qmin));
    view->qmax = (int8_t)es_fb_get_u8(&t, ES_SLOT(Requant, qmax));
    view->rounding = es_fb_get_u8(&t, ES_SLOT(Requant, rounding));
}

static void add_view(const uint8_t *table, es_stage *view)
{
    es_fb t = es_fb_open(table);
    view->operand = es_fb_get_u16(&t, ES_SLOT(Add, operand));
    view->left_shift = es_fb_get_u8(&t, ES_SLOT(Add, left_shift));
    view->value = get_scaled(&t, ES_SLOT(Add, value));
    view->other = get_scaled(&t, ES_SLOT(Add, other));
    view->out = get_scaled(&t, ES_SLOT(Add, out));
    view->negate_value = es_fb_get_u8(&t, ES_SLOT(Add, negate_value)) != 0;
    view->negate_other = es_fb_get_u8(&t, ES_SLOT(Add, negate_other)) != 0;
    view->qmin = (int8_t)es_fb_get_u8(&t, ES_SLOT(Add, qmin));
    view->qmax = (int8_t)es_fb_get_u8(&t, ES_SLOT(Add, qmax));
    view->rounding = es_fb_get_u8(&t, ES_SLOT(Add, rounding));
}

static void mul_view(const uint8_t *t, es_stage *view)
{
    view->operand = es_fb_u16(t, ES_SLOT(Mul, operand));
    view->value_zero_point = es_fb_i8(t, ES_SLOT(Mul, value_zero_point));
    view->other_zero_point = es_fb_i8(t, ES_SLOT(Mul, other_zero_point));
    view->out = scaled(t, ES_SLOT(Mul, out));
    RANGE(view, t, Mul);
    ROUNDING(view, t, Mul);
}

static void add_single_requant_view(const uint8_t *t, es_stage *view)
{
    view->operand = es_fb_u16(t, ES_SLOT(AddSingleRequant, operand));
    view->other_zero_point =
        es_fb_i8(t, ES_SLOT(AddSingleRequant, other_zero_point));
    view->multiplier = es_fb_i32s(t, ES_SLOT(AddSingleRequant, multiplier));
    view->other_multiplier =
        es_fb_i32s(t, ES_SLOT(AddSingleRequant, other_multiplier));
    view->shift =
        es_fb_as_i8s(es_fb_bytes(t, ES_SLOT(AddSingleRequant, shift)));
    view->zero_point = es_fb_i8(t, ES_SLOT(AddSingleRequant, zero_point));
    RANGE(view, t, AddSingleRequant);
}

static void avg_pool_view(const uint8_t *t, es_stage *view)
{
    view->window = window(t, ES_SLOT(AvgPool, window));
    running_view(t, ES_SLOT(AvgPool, running), &view->running);
    RANGE(view, t, AvgPool);
}

static void mean_view(const uint8_t *t, es_stage *view)
{
    view->in_zero_point = es_fb_i8(t, ES_SLOT(Mean, in_zero_point));
    view->out = scaled(t, ES_SLOT(Mean, scaled));
    running_view(t, ES_SLOT(Mean, running), &view->running);
    RANGE(view, t, Mean);
    ROUNDING(view, t, Mean);
}

static void softmax_view(const uint8_t *t, es_stage *view)
{
    view->softmax_multiplier = es_fb_i32(t, ES_SLOT(Softmax, multiplier));
    view->softmax_diff_min = es_fb_i32(t, ES_SLOT(Softmax, diff_min));
    view->softmax_shift = es_fb_i8(t, ES_SLOT(Softmax, shift));
}

void es_stage_view(const es_branch *branch, uint32_t index, es_stage *view)
{
    es_fb stage = es_fb_open(es_fb_element(branch->stages, index));
    const uint8_t *t = es_fb_get_table(&stage, ES_SLOT(Stage, body));

    uint8_t kind = es_fb_get_u8(&stage, ES_SLOT(Stage, body_type));
    if ((ES_HAS_REQUANT && kind == ES_STAGE_REQUANT) ||
        (ES_HAS_ADD && kind == ES_STAGE_ADD)) {
        view->kind = kind; /* what steps decode on every run */
        view->operand = 0;
        view->window = NULL;
        view->running.there = false;
        if (!ES_HAS_ADD || kind == ES_STAGE_REQUANT) {
            requant_view(t, view);
        } else {
            add_view(t, view);
        }
        return;
    }
    memset(view, 0, sizeof *view);
    view->kind = kind;
    if (ES_HAS_CLAMP && kind == ES_STAGE_CLAMP) {
        RANGE(view, t, Clamp);
    } else if (ES_HAS_LUT && kind == ES_STAGE_LUT) {
        view->table = es_fb_bytes(t, ES_SLOT(Lut, table));
    } else if (ES_HAS_MUL && kind == ES_STAGE_MUL) {
        mul_view(t, view);
    } else if (ES_HAS_ADD_SINGLE_REQUANT &&
               kind == ES_STAGE_ADD_SINGLE_REQUANT) {
        add_single_requant_view(t, view);
    } else if (ES_HAS_MAX_POOL && kind == ES_STAGE_MAX_POOL) {
        view->window = window(t, ES_SLOT(MaxPool, window));
        RANGE(view, t, MaxPool);
    } else if (ES_HAS_AVG_POOL && kind == ES_STAGE_AVG_POOL) {
        avg_pool_view(t, view);
    } else if (ES_HAS_MEAN && kind == ES_STAGE_MEAN) {
        mean_view(t, view);
    } else if (ES_HAS_SOFTMAX && kind == ES_STAGE_SOFTMAX) {
        softmax_view(t, view);
    }
}
