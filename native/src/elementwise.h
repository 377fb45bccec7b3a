/* The arithmetic of elementwise stages, PLAN_FORMAT.md section 4: what the
 * executor of plans and the emulated NPU share. Clamping is the caller's.
 *
 * In a plan, sums stay inside int32 by I-42 and I-43. The NPU's accumulators
 * are any number, so what they reach wraps, and needs unsigned sums. */
#ifndef ES_ELEMENTWISE_H
#define ES_ELEMENTWISE_H

#include "fixedpoint.h"
#include "plan/view.h"

static inline int32_t es_wrapping_sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* x times the factor of `by`. */
static inline int32_t es_scale(int32_t x, const es_scaled *by, uint8_t rounding)
{
    return es_mbqm(x, by->multiplier, by->shift, rounding);
}

/* Fields value, other, out, left_shift, rounding, negate_... of the stage. */
static inline int32_t es_stage_add(const es_stage *stage, int32_t v, int32_t o)
{
    int32_t unit = 1 << stage->left_shift; /* |v - zero point| < 2^8 */
    int32_t a = es_scale((v - stage->value->zero_point) * unit, stage->value,
                         stage->rounding);
    int32_t b = es_scale((o - stage->other->zero_point) * unit, stage->other,
                         stage->rounding);
    int32_t sum =
        (stage->negate_value ? -a : a) + (stage->negate_other ? -b : b);
    return stage->out->zero_point + es_scale(sum, stage->out, stage->rounding);
}

/* Fields value_zero_point, other_zero_point, out, rounding. */
static inline int32_t es_stage_mul(const es_stage *stage, int32_t v, int32_t o)
{
    int32_t product =
        (v - stage->value_zero_point) * (o - stage->other_zero_point);
    return stage->out->zero_point +
           es_scale(product, stage->out, stage->rounding);
}

/* Division towards zero, as C's; half of `count` added away from zero.
 * count > 0. */
static inline int32_t es_average(int32_t sum, int32_t count)
{
    int32_t half = count / 2;
    return es_wrapping_sum(sum, sum > 0 ? half : -half) / count;
}

#endif /* ES_ELEMENTWISE_H */
