/* From where to where the bytes of a tensor stand: PLAN_FORMAT.md section 2. */
#include "plan/check.h"

/* 64 bits: pitch < 2^32, columns <= 2^24, channels and halo < 2^16. */
es_extent es_place_extent(const es_place *place)
{
    int64_t pitch = place->pitch, halo = place->halo;
    int64_t columns = place->columns, channels = place->channels;
    int64_t before, after; /* column 0, channel 0 */
    es_extent extent;

    switch (place->layout) {
    case ES_LAYOUT_NWC:
        before = halo * pitch;
        after = (columns + halo - 1) * pitch + channels;
        break;
    case ES_LAYOUT_PLANAR:
        before = halo;
        after = (channels - 1) * pitch + columns + halo;
        break;
    case ES_LAYOUT_C4: /* whole groups of four channels */
        before = 4 * halo;
        after = (channels - 1) / 4 * pitch + 4 * (columns + halo);
        break;
    default: /* POLYPHASE, all phases as long as the first */
        before = halo;
        after = (channels - 1) * pitch +
                (place->phases - 1) * (pitch / place->phases) +
                (columns + place->phases - 1) / place->phases + halo;
        break;
    }
    extent.first = place->offset - before;
    extent.end = place->offset + after;
    return extent;
}

es_extent es_tensor_extent(const es_root *root, uint32_t index)
{
    es_extent extent = {0, 0};
    es_tensor tensor;

    es_tensor_view(root, index, &tensor);
    if (tensor.data.data != NULL) {
        return extent;
    }
    if (tensor.place->ring >= 0) {
        const es_ring *ring = &root->rings[tensor.place->ring];
        extent.first = ring->offset;
        extent.end = ring->offset + (int64_t)ring->columns * ring->channels;
        return extent;
    }
    return es_place_extent(tensor.place);
}

bool es_extents_overlap(es_extent a, es_extent b)
{
    int64_t first = a.first > b.first ? a.first : b.first;
    int64_t end = a.end < b.end ? a.end : b.end;
    return first < end;
}

/* Whether, in two NWC tensors of equal pitch, the channels of one stand in the
 * gaps of the other. */
static bool interleave(const es_place *a, const es_place *b)
{
    uint32_t pitch = a->pitch, at_a, at_b, apart;
    if (a->layout != ES_LAYOUT_NWC || b->layout != ES_LAYOUT_NWC ||
        b->pitch != pitch || a->ring >= 0 || b->ring >= 0) {
        return false;
    }
    /* From a's channel 0 on to the next channel 0 of b. */
    at_a = a->offset % pitch;
    at_b = b->offset % pitch;
    apart = at_b >= at_a ? at_b - at_a : pitch - (at_a - at_b);
    return apart >= a->channels && b->channels <= pitch - apart;
}

bool es_tensors_overlap(const es_root *root, uint32_t a, uint32_t b)
{
    es_tensor x, y;
    if (!es_extents_overlap(es_tensor_extent(root, a),
                            es_tensor_extent(root, b))) {
        return false;
    }
    es_tensor_view(root, a, &x);
    es_tensor_view(root, b, &y);
    return !interleave(x.place, y.place);
}
