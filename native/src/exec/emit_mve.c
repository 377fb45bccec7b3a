/* Scaling to int8 with Helium, four channels at a time. VQRDMULH is the first
 * rounding; VRSHL is the second, a half away from zero after 1 is taken from
 * what is negative and shifted to the right. Exact for every sum and shift of a
 * plan. */
#include <arm_mve.h>

#include "exec/kernels.h"

static int32x4_t scaled(int32x4_t v, int32x4_t multiplier, int32x4_t left,
                        int32x4_t right)
{
    v = vqrdmulhq_s32(vshlq_s32(v, left), multiplier);
    v = vqaddq_s32(v, vshrq_n_s32(vandq_s32(v, right), 31));
    return vrshlq_s32(v, right);
}

bool es_finish__mve(const es_finish *to, es_tile *tile)
{
    const es_stage *stage = &to->stage;
    if (stage->rounding != ES_ROUND_DOUBLE) {
        return false;
    }
    const int32x4_t none = vdupq_n_s32(0);
    const int32x4_t low = vdupq_n_s32(stage->qmin);
    const int32x4_t high = vdupq_n_s32(stage->qmax);
    const uint32x4_t each = vdupq_n_u32(stage->multiplier.count > 1 ? ~0U : 0);
    const uint32x4_t shifts = vdupq_n_u32(stage->shift.count > 1 ? ~0U : 0);
    for (uint32_t r = 0; r < tile->channels; r += 4) {
        mve_pred16_t rest = vctp32q(tile->channels - r);
        uint32x4_t at = vldrhq_z_u32(tile->channel + r, rest);
        int32x4_t multiplier = vldrwq_gather_shifted_offset_z_s32(
            stage->multiplier.data, vandq_u32(at, each), rest);
        int32x4_t shift = vldrbq_gather_offset_z_s32(
            stage->shift.data, vandq_u32(at, shifts), rest);
        int32x4_t left = vmaxq_s32(shift, none);
        int32x4_t right = vminq_s32(shift, none);
        for (uint32_t p = 0; p < tile->columns; p++) {
            int32x4_t v = vldrwq_z_s32(&tile->value[p][r], rest);
            v = vaddq_n_s32(scaled(v, multiplier, left, right),
                            stage->zero_point);
            v = vminq_s32(vmaxq_s32(v, low), high);
            vstrbq_scatter_offset_p_s32(to->column[p], at, v, rest);
        }
    }
    return true;
}
