/* The sum of two tensors with Helium, sixteen values at a time: the loads take
 * every fourth of them, so that narrowing puts them in order again. And the
 * sums of pools. */
#include "exec/kernels.h"
#include "exec/mve_mac.h"

/* Inputs less their zero points are below 2^8: with so many more bits they are
 * still int32. */
enum { MOST_LEFT = 20 };

static es_mve_factor factor_of(const es_scaled *by, int32_t unit)
{
    es_mve_factor factor = {by->multiplier, by->shift, -by->zero_point * unit};
    return factor;
}

static bool only_right(const es_scaled *by)
{
    return by->shift <= 0 && by->shift >= -31;
}

bool es_mve_add_begin(const es_stage *stage, es_mve_sum *sum)
{
    if (stage->rounding != ES_ROUND_DOUBLE || stage->negate_value ||
        stage->negate_other || stage->left_shift > MOST_LEFT ||
        !only_right(stage->value) || !only_right(stage->other) ||
        !only_right(stage->out) || stage->out->shift == 0) {
        return false;
    }
    sum->unit = 1 << stage->left_shift;
    sum->value = factor_of(stage->value, sum->unit);
    sum->other = factor_of(stage->other, sum->unit);
    sum->multiplier = stage->out->multiplier;
    sum->shift = stage->out->shift;
    sum->to.zero_point = stage->out->zero_point;
    sum->to.low = stage->qmin;
    sum->to.high = stage->qmax;
    sum->to.rectified = stage->qmin >= stage->out->zero_point;
    return true;
}

static inline int32x4_t scaled(int32x4_t v, const es_mve_factor *by,
                               int32x4_t unit)
{
    v = vqrdmulhq_n_s32(vmlasq_n_s32(v, unit, by->from), by->multiplier);
    if (by->shift) {
        v = vaddq_s32(v, vshrq_n_s32(v, 31));
        v = vrshlq_n_s32(v, by->shift);
    }
    return v;
}

/* Rounded, but for its zero point. */
static inline int32x4_t four(const es_mve_sum *by, int32x4_t unit, int32x4_t v,
                             int32x4_t o)
{
    v = vaddq_s32(scaled(v, &by->value, unit), scaled(o, &by->other, unit));
    v = vqrdmulhq_n_s32(v, by->multiplier);
    if (!by->to.rectified) {
        v = vaddq_s32(v, vshrq_n_s32(v, 31));
    }
    return vrshlq_n_s32(v, by->shift);
}

void es_mve_add(const es_mve_sum *by, const int8_t *value, const int8_t *other,
                int8_t *out, uint32_t n)
{
    const es_mve_sum sum = *by;
    const int32x4_t unit = vdupq_n_s32(sum.unit);
    const uint32x4_t apart = vmulq_n_u32(vidupq_n_u32(0, 1), 4);
#define FOURTH(from, k) vldrbq_gather_offset_s32((from) + (k), apart)
#define SUM(k)          four(&sum, unit, FOURTH(value, k), FOURTH(other, k))
    for (; n >= 16; n -= 16, value += 16, other += 16, out += 16) {
        vstrbq_s8(out, es_mve_narrow(&sum.to, SUM(0), SUM(2), SUM(1), SUM(3)));
    }
    for (uint32_t i = 0; i < n; i += 4) {
        const mve_pred16_t there = vctp32q(n - i);
        int32x4_t v = four(&sum, unit, vldrbq_z_s32(value + i, there),
                           vldrbq_z_s32(other + i, there));
        vstrbq_p_s32(out + i, es_mve_clamped(&sum.to, v), there);
    }
}

#define ADD_COLUMNS(body, ...)                                                 \
    __asm volatile("wlstp.32 lr, %[channels], 2f\n"                            \
                   "1:\tvldrw.u32 q0, [%[sum]]\n\t" body                       \
                   "vsub.i32 q0, q0, %[zeros]\n\t"                             \
                   "vstrw.32 q0, [%[sum]], #16\n\tletp lr, 1b\n2:"             \
                   : [sum] "+&r"(sum), __VA_ARGS__                             \
                   : [channels] "r"(channels), [zeros] "r"(zeros)              \
                   : "lr", "q0", "q1", "memory")
#define COLUMN(x) "vldrb.s32 q1, [%[" x "]], #4\n\tvadd.i32 q0, q0, q1\n\t"

static void add_four(int32_t *sum, const int8_t *const *x, int32_t zeros,
                     uint32_t channels)
{
    const int8_t *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    ADD_COLUMNS(COLUMN("a") COLUMN("b") COLUMN("c") COLUMN("d"), [a] "+&l"(a),
                [b] "+&l"(b), [c] "+&l"(c), [d] "+&l"(d));
}

static void add_one(int32_t *sum, const int8_t *a, int32_t zeros,
                    uint32_t channels)
{
    ADD_COLUMNS(COLUMN("a"), [a] "+&l"(a));
}

bool es_sum__mve(int32_t *sum, const int8_t *const *x, uint32_t columns,
                 int32_t zeros, uint32_t channels)
{
    if (columns == ES_TILE_COLUMNS) {
        add_four(sum, x, zeros, channels);
        return true;
    }
    for (uint32_t p = 0; p < columns; p++) {
        add_one(sum, x[p], p ? 0 : zeros, channels);
    }
    return true;
}
