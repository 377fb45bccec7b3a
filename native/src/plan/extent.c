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
