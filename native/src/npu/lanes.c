/* Products of a weight vector with one activation: the loop an emulation
 * spends its time in. The build asks for -O3 on this file, which turns it into
 * vector code. */
#include "npu/machine.h"

/* |w * x| <= 128 * 255 fits int16, which vector units multiply fast. Sums wrap
 * at 2^32. */
#define ES_NPU_LANES_OF(LANES)                                                 \
    static void lanes_##LANES(uint32_t *sums, const int8_t *w,                 \
                              const int16_t *x, uint32_t steps,                \
                              uint32_t positions)                              \
    {                                                                          \
        uint32_t sum[LANES];                                                   \
        memcpy(sum, sums, sizeof sum);                                         \
        for (uint32_t k = 0; k < steps; k++, w += (LANES)) {                   \
            int16_t factor = x[(size_t)k * positions];                         \
            for (int l = 0; l < (LANES); l++) {                                \
                int32_t product = (int16_t)(w[l] * factor);                    \
                sum[l] = sum[l] + (uint32_t)product;                           \
            }                                                                  \
        }                                                                      \
        memcpy(sums, sum, sizeof sum);                                         \
    }

ES_NPU_LANES_OF(16)
ES_NPU_LANES_OF(32)

/* Any number of lanes. */
static void lanes_any(uint32_t *sums, const int8_t *w, const int16_t *x,
                      uint32_t steps, uint32_t positions, uint32_t lanes)
{
    for (uint32_t k = 0; k < steps; k++, w += lanes) {
        int32_t factor = x[(size_t)k * positions];
        for (uint32_t l = 0; l < lanes; l++) {
            sums[l] += (uint32_t)(w[l] * factor);
        }
    }
}

void es_npu_lanes(es_npu_lane_sums *sums, const int8_t *w, const int16_t *x,
                  uint32_t steps, uint32_t positions, uint32_t lanes)
{
    for (uint32_t p = 0; p < positions; p++) {
        switch (lanes) {
        case 16:
            lanes_16(sums[p], w, x + p, steps, positions);
            break;
        case 32:
            lanes_32(sums[p], w, x + p, steps, positions);
            break;
        default:
            lanes_any(sums[p], w, x + p, steps, positions, lanes);
            break;
        }
    }
}
