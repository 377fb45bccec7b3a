/* Whole depthwise steps with SMLABB: four channels of one column together.
 *
 * Weights stand in the plan channel by channel; once a step they are laid out
 * tap by tap in scratch, a word for channels c and c + 2, one for c + 1 and
 * c + 3. Patches are not gathered: taps are read where they stand, and those
 * outside from a column of zero points. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

enum { MOST_TAPS = 32 };

/* Four rows of `taps` weights. Returns the place after the last word. */
static uint32_t *transpose(uint32_t *to, const int8_t *w, uint32_t taps)
{
    const int8_t *end = w + taps;
    for (; w != end; w++) {
        *to++ = (uint16_t)w[0] | (uint32_t)w[2 * taps] << 16;
        *to++ = (uint16_t)w[taps] | (uint32_t)w[3 * taps] << 16;
    }
    return to;
}

/* Where the inputs of the taps of a column stand. */
static void find_taps(const es_regular *step, uint32_t column,
                      const int8_t *outside, const int8_t **tap)
{
    const es_geometry *g = step->geometry;
    uint32_t top = column / g->out_w * g->stride_h - g->pad_top;
    uint32_t left = column % g->out_w * g->stride_w - g->pad_left;
    for (uint32_t ky = 0; ky < g->kernel_h; ky++) {
        uint32_t y = top + ky * g->dilation_h, x = left;
        for (uint32_t kx = 0; kx < g->kernel_w; kx++, x += g->dilation_w) {
            bool inside = y < g->in_h && x < g->in_w;
            int32_t at = (int32_t)(y * g->in_w + x);
            *tap++ = inside ? step->input.base +
                                  es_nwc_column_at(&step->input.map, at)
                            : outside;
        }
    }
}

/* Sums of four channels. Returns the weights of the next four. */
static inline const uint32_t *four_channels(const int8_t *const *tap,
                                            uint32_t taps, uint32_t channel,
                                            const uint32_t *w, int32_t *sums)
{
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
#pragma GCC unroll 3
    for (uint32_t t = 0; t < taps; t++) {
        uint32_t x = es_dsp_load(tap[t] + channel);
        uint32_t even = es_dsp_even(x), odd = es_dsp_odd(x);
        a = es_dsp_low_low(even, w[0], a);
        c = es_dsp_high_high(even, w[0], c);
        b = es_dsp_low_low(odd, w[1], b);
        d = es_dsp_high_high(odd, w[1], d);
        w += 2;
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
    return w;
}

bool es_dsp_depthwise(const es_regular *step)
{
    const es_geometry *g = step->geometry;
    uint32_t taps = (uint32_t)g->kernel_h * g->kernel_w, channels = g->in_c;
    uint32_t room = (2 * taps + 1) * channels;
    if (step->group.encoding != ES_DENSE || channels % 4 ||
        g->groups != channels || g->rows != channels || taps > MOST_TAPS ||
        step->scratch_bytes < room) {
        return false;
    }
    uint32_t *weights = (uint32_t *)(void *)step->scratch, *to = weights;
    for (uint32_t channel = 0; channel < channels; channel += 4) {
        to = transpose(to, step->group.values.data + channel * taps, taps);
    }
    int8_t *outside = (int8_t *)to;
    memset(outside, step->input.map.place->zero_point, channels);
    const int8_t *tap[MOST_TAPS];
    es_dsp_tile tile;
    tile.step = step;
    tile.width = 1;
    for (uint32_t column = 0; column < step->columns; column++) {
        es_dsp_set_columns(&tile, column);
        find_taps(step, column, outside, tap);
        const uint32_t *w = weights;
        for (uint32_t row = 0; row < channels; row += ES_DSP_SUMS) {
            uint32_t rest = channels - row;
            uint32_t rows = rest < ES_DSP_SUMS ? rest : ES_DSP_SUMS;
            memcpy(tile.sums, step->bias + row, rows * sizeof *tile.sums);
            for (uint32_t r = 0; r < rows; r += 4) {
                w = four_channels(tap, taps, row + r, w, tile.sums + r);
            }
            es_dsp_finish(&tile, row, rows);
        }
    }
    return true;
}
