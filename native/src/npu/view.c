/* The scratchpad as streams see it: rings, banks. */
#include "npu/machine.h"

/* One lap: the bytes used do not cross the ring's end. */
static bool one_lap(int64_t size, es_npu_hull used, int64_t *start)
{
    *start = es_npu_wrap(used.from, (uint32_t)size);
    return *start + (used.to - used.from) <= size;
}

es_npu_view es_npu_view_of(const es_npu *npu, es_npu_place place,
                           es_npu_hull used)
{
    es_npu_view view = {npu->scratchpad, place.at, 0};
    int64_t start;
    if (place.ring) {
        view.base += place.ring->address;
        if (one_lap(place.ring->size, used, &start)) {
            view.at = start + (place.at - used.from);
        } else {
            view.size = place.ring->size;
        }
    }
    return view;
}

es_npu_view es_npu_use(es_npu *npu, uint32_t stream, uint32_t bytes)
{
    es_npu_place place = es_npu_stream_use(&npu->control, stream);
    es_npu_hull used = {place.at, place.at + bytes};
    return es_npu_view_of(npu, place, used);
}

/* Rings start at a multiple of all banks and are as long, so a word's bank
 * does not depend on the ring's head (section 6). */
uint32_t es_npu_fullest_bank(const es_npu *npu, const es_npu_view *view,
                             const int64_t *offsets, uint32_t count)
{
    uint32_t banks = npu->config.banks, fullest = 0;
    uint32_t words[ES_NPU_BANKS];
    uint64_t seen[ES_NPU_LANES];
    memset(words, 0, banks * sizeof words[0]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t earlier = 0;
        seen[i] = (uint64_t)(es_npu_at(view, offsets[i]) - npu->scratchpad) / 4;
        while (seen[earlier] != seen[i]) {
            earlier++;
        }
        if (earlier < i) {
            continue;
        }
        uint32_t filled = ++words[seen[i] % banks];
        fullest = filled > fullest ? filled : fullest;
    }
    return fullest;
}
