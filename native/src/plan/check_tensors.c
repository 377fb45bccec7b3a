/* I-10 to I-17: shapes, places, the arena, rings, inputs and outputs. */
#include "plan/check.h"
#include "plan/fb.h"

static uint16_t check_shape(const es_tensor *tensor)
{
    const es_place *place = tensor->place;
    uint64_t product = 1, most = (uint64_t)place->columns * place->channels;

    if (place->columns < 1 || place->columns > ES_MAX_COLUMNS ||
        place->channels < 1 || place->channels > ES_MAX_CHANNELS ||
        tensor->shape.count < 1 || tensor->shape.count > 6) {
        return 10;
    }
    for (uint32_t i = 0; i < tensor->shape.count; i++) {
        uint32_t size = tensor->shape.data[i];
        if (size < 1 || size > most / product) {
            return 10;
        }
        product *= size;
    }
    return product == most ? 0 : 10;
}

/* The smallest pitch that fits the tensor: section 2. */
static uint64_t least_pitch(const es_place *place)
{
    uint64_t padded = (uint64_t)place->columns + 2u * place->halo;
    switch (place->layout) {
    case ES_LAYOUT_NWC:
        return place->channels;
    case ES_LAYOUT_PLANAR:
        return padded;
    case ES_LAYOUT_C4:
        return 4 * padded;
    default: {
        uint64_t phase = (place->columns + place->phases - 1u) / place->phases;
        return (phase + 2u * place->halo) * place->phases;
    }
    }
}

static uint16_t check_layout(const es_place *place)
{
    bool polyphase = place->layout == ES_LAYOUT_POLYPHASE;
    if (place->layout >= ES_LAYOUTS || place->dtype != 0 ||
        place->reserved != 0 || place->phases < (polyphase ? 2 : 1) ||
        place->phases > (polyphase ? 8 : 1) ||
        place->pitch % place->phases != 0 ||
        place->pitch < least_pitch(place)) {
        return 11;
    }
    return 0;
}

/* Contiguous from byte 0: what constants and ring tensors must be. */
static bool is_plain(const es_place *place)
{
    return place->layout == ES_LAYOUT_NWC && place->pitch == place->channels &&
           place->halo == 0 && place->offset == 0;
}

static uint16_t check_ring_tensor(const es_root *root, const es_place *place)
{
    const es_ring *ring;
    uint64_t columns = place->columns;

    if (place->ring < 0 || (uint32_t)place->ring >= root->ring_count ||
        !is_plain(place)) {
        return 14;
    }
    ring = &root->rings[place->ring];
    if (ring->use != ES_RING_OF_COLUMNS || ring->channels != place->channels ||
        (place->ring_role == ES_RING_APPEND && place->ring_lag != 0) ||
        columns + place->ring_lag > ring->columns) {
        return 14;
    }
    return 0;
}

static uint16_t check_tensor(const es_root *root, uint32_t index)
{
    es_tensor tensor;
    const es_place *place;
    es_extent extent;
    uint16_t broken;

    es_tensor_view(root, index, &tensor);
    place = tensor.place;
    broken = check_shape(&tensor);
    if (broken == 0) {
        broken = check_layout(place);
    }
    if (broken != 0) {
        return broken;
    }
    if (tensor.data.data != NULL) {
        bool fits =
            tensor.data.count == (uint64_t)place->columns * place->channels;
        return is_plain(place) && fits && place->ring == -1 &&
                       place->ring_role == ES_RING_NONE && place->ring_lag == 0
                   ? 0
                   : 13;
    }
    if (place->ring_role == ES_RING_APPEND ||
        place->ring_role == ES_RING_VIEW) {
        return check_ring_tensor(root, place);
    }
    if (place->ring_role != ES_RING_NONE || place->ring != -1 ||
        place->ring_lag != 0) {
        return 14;
    }
    extent = es_place_extent(place);
    return extent.first >= root->state_bytes && extent.end <= root->arena_bytes
               ? 0
               : 12;
}

/* I-15. Rings stand in order, so that no pair of them needs a look. */
static bool check_rings(es_check *check)
{
    const es_root *root = &check->root;
    uint64_t end = (uint64_t)4 * root->ring_count;

    if (end > root->state_bytes) {
        return es_refuse(check, 15, -1);
    }
    for (uint32_t i = 0; i < root->ring_count; i++) {
        const es_ring *ring = &root->rings[i];
        if (ring->columns < 1 || ring->columns > ES_MAX_COLUMNS ||
            ring->channels < 1 || ring->channels > ES_MAX_CHANNELS ||
            ring->use > ES_RING_OF_SUMS || ring->reserved != 0 ||
            ring->offset < end) {
            return es_refuse(check, 15, (int32_t)i);
        }
        end = ring->offset + (uint64_t)ring->columns * ring->channels;
        if (end > root->state_bytes) {
            return es_refuse(check, 15, (int32_t)i);
        }
    }
    return true;
}

/* A scale the host can divide by: a finite number above 0, as bits. */
static bool scale_is_positive(const uint8_t *tensor)
{
    uint32_t bits = es_fb_u32(tensor, ES_SLOT(Tensor, scale));
    return bits > 0 && bits < 0x7F800000u;
}

/* I-17. */
static bool check_io(es_check *check, es_tables ios)
{
    const es_root *root = &check->root;
    es_tensor tensor;

    if (ios.count < 1) {
        return es_refuse(check, 17, -1);
    }
    for (uint32_t i = 0; i < ios.count; i++) {
        const uint8_t *io = es_fb_element(ios, i);
        uint16_t index = es_io_tensor(ios, i);
        bool is_float = es_fb_u8(io, ES_SLOT(Io, float_io), 0) != 0;
        bool is_uint8 = es_fb_u8(io, ES_SLOT(Io, uint8_io), 0) != 0;
        if (index >= root->tensors.count) {
            return es_refuse(check, 17, (int32_t)i);
        }
        es_tensor_view(root, index, &tensor);
        if (tensor.data.data != NULL || tensor.place->ring >= 0 ||
            tensor.place->layout != ES_LAYOUT_NWC || tensor.place->halo != 0 ||
            tensor.place->pitch != tensor.place->channels ||
            (is_float && is_uint8) ||
            (is_float &&
             !scale_is_positive(es_fb_element(root->tensors, index)))) {
            return es_refuse(check, 17, (int32_t)i);
        }
    }
    return true;
}

static bool check_inputs_are_apart(es_check *check)
{
    const es_root *root = &check->root;
    for (uint32_t i = 0; i < root->inputs.count; i++) {
        es_extent a = es_tensor_extent(root, es_io_tensor(root->inputs, i));
        for (uint32_t k = 0; k < i; k++) {
            es_extent b = es_tensor_extent(root, es_io_tensor(root->inputs, k));
            if (es_extents_overlap(a, b)) {
                return es_refuse(check, 17, (int32_t)i);
            }
        }
    }
    return true;
}

bool es_check_tensors(es_check *check)
{
    const es_root *root = &check->root;

    /* arena_bytes < 2^31, so that addresses and element numbers fit int32. */
    if (root->arena_bytes > INT32_MAX ||
        root->state_bytes > root->arena_bytes) {
        return es_refuse(check, 16, -1);
    }
    if (!check_rings(check)) {
        return false;
    }
    for (uint32_t i = 0; i < root->tensors.count; i++) {
        uint16_t broken = check_tensor(root, i);
        if (broken != 0) {
            return es_refuse(check, broken, (int32_t)i);
        }
    }
    return check_io(check, root->inputs) && check_io(check, root->outputs) &&
           check_inputs_are_apart(check);
}
