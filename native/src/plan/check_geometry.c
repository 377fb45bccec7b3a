/* I-30 to I-34: where the taps of convolutions, pools and copies lie. */
#include "plan/check.h"

/* One axis: `size` inputs, `out` positions of a kernel that spans `span`. The
 * first position starts at -pad, the last one has to start inside. */
static bool axis_fits(uint32_t size, uint32_t out, uint64_t span,
                      uint32_t stride, uint32_t pad)
{
    return pad < span && (uint64_t)(out - 1) * stride < (uint64_t)size + pad;
}

static uint64_t span(uint32_t kernel, uint32_t dilation)
{
    return (uint64_t)(kernel - 1) * dilation + 1;
}

uint16_t es_check_geometry(const es_geometry *g, const es_place *input)
{
    uint64_t span_h, span_w;

    if (g->in_h < 1 || g->in_w < 1 || g->in_c < 1 || g->groups < 1 ||
        g->out_h < 1 || g->out_w < 1 || g->rows < 1 || g->kernel_h < 1 ||
        g->kernel_w < 1 || g->stride_h < 1 || g->stride_w < 1 ||
        g->dilation_h < 1 || g->dilation_w < 1 || g->reserved != 0) {
        return 30;
    }
    if ((uint32_t)g->in_h * g->in_w != input->columns ||
        g->in_c != input->channels || g->in_c % g->groups != 0 ||
        g->rows % g->groups != 0) {
        return 31;
    }
    /* Spans <= 65,535: y and x of every tap fit 18 bits and a sign. */
    span_h = span(g->kernel_h, g->dilation_h);
    span_w = span(g->kernel_w, g->dilation_w);
    if (span_h > UINT16_MAX || span_w > UINT16_MAX ||
        !axis_fits(g->in_h, g->out_h, span_h, g->stride_h, g->pad_top) ||
        !axis_fits(g->in_w, g->out_w, span_w, g->stride_w, g->pad_left) ||
        (uint32_t)g->out_h * g->out_w > ES_MAX_COLUMNS) {
        return 32;
    }
    return 0;
}

uint16_t es_check_window(const es_window *w, uint32_t columns)
{
    if (w->in_h < 1 || w->in_w < 1 || w->out_h < 1 || w->out_w < 1 ||
        w->kernel_h < 1 || w->kernel_w < 1 || w->stride_h < 1 ||
        w->stride_w < 1) {
        return 30;
    }
    /* A position that starts inside, or less than a kernel before, has a tap
     * inside. */
    if ((uint32_t)w->in_h * w->in_w != columns ||
        !axis_fits(w->in_h, w->out_h, w->kernel_h, w->stride_h, w->pad_top) ||
        !axis_fits(w->in_w, w->out_w, w->kernel_w, w->stride_w, w->pad_left) ||
        (uint32_t)w->out_h * w->out_w > ES_MAX_COLUMNS) {
        return 33;
    }
    return 0;
}

/* Whether the box's element numbers stay in [0, size). */
static bool box_fits(es_u32s dims, es_i32s strides, int32_t offset,
                     uint64_t size)
{
    int64_t least = offset, most = offset; /* |each term| < 2^24 * 2^31 */
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t reach = (int64_t)(dims.data[i] - 1) * strides.data[i];
        if (reach < 0) {
            least += reach;
        } else {
            most += reach;
        }
    }
    return least >= 0 && (uint64_t)most < size;
}

uint16_t es_check_copy(const es_copy *copy, const es_place *input,
                       const es_place *output)
{
    uint64_t product = 1;

    if (copy->dims.count < 1 || copy->dims.count > 6 ||
        copy->in_strides.count != copy->dims.count ||
        copy->out_strides.count != copy->dims.count) {
        return 34;
    }
    for (uint32_t i = 0; i < copy->dims.count; i++) {
        product *= copy->dims.data[i]; /* < 2^24 * 2^32 */
        if (product < 1 || product > ES_MAX_COLUMNS) {
            return 34;
        }
    }
    return box_fits(copy->dims, copy->in_strides, copy->in_offset,
                    (uint64_t)input->columns * input->channels) &&
                   box_fits(copy->dims, copy->out_strides, copy->out_offset,
                            (uint64_t)output->columns * output->channels)
               ? 0
               : 34;
}
