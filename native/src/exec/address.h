/* Where an element stands: PLAN_FORMAT.md section 2, and nowhere else.
 *
 * An address is base + es_column_at(column) + es_channel_at(channel): in every
 * layout the two are independent of each other. */
#ifndef ES_ADDRESS_H
#define ES_ADDRESS_H

#include <string.h>
#include "plan/view.h"

/* A function that stays one where it is called from several places. */
#ifdef __GNUC__
#define ES_APART __attribute__((noinline))
#else
#define ES_APART
#endif

typedef struct es_map {
    const es_place *place;
    uint32_t first;        /* ring column of column 0 */
    uint32_t ring_columns; /* 0: no ring */
} es_map;

/* A tensor that is read, a tensor that is written. */
typedef struct es_reader {
    const int8_t *base;
    es_map map;
} es_reader;

typedef struct es_writer {
    int8_t *base;
    es_map map;
} es_writer;

/* memcpy of a few words, which are most of what is moved here. */
static inline void es_copy_bytes(int8_t *to, const int8_t *from, uint32_t count)
{
    for (; count >= 16; count -= 16, to += 16, from += 16) {
        memcpy(to, from, 16);
    }
    for (; count >= 4; count -= 4, to += 4, from += 4) {
        memcpy(to, from, 4);
    }
    for (; count > 0; count--) {
        *to++ = *from++;
    }
}

/* Heads of the rings are the first words of the arena. */
static inline uint32_t es_ring_head(const uint8_t *arena, uint32_t ring)
{
    uint32_t head;
    memcpy(&head, arena + 4 * (size_t)ring, sizeof head);
    return head;
}

static inline void es_ring_set_head(uint8_t *arena, uint32_t ring,
                                    uint32_t head)
{
    memcpy(arena + 4 * (size_t)ring, &head, sizeof head);
}

/* The map of a tensor, with its ring's head as it stands now. */
static inline es_map es_map_of(const uint8_t *arena, const es_ring *rings,
                               const es_place *place)
{
    es_map map = {place, 0, 0};
    if (ES_HAS_RINGS && place->ring_role != ES_RING_NONE) {
        uint32_t columns = rings[place->ring].columns;
        uint32_t first = es_ring_head(arena, (uint32_t)place->ring);
        if (place->ring_role == ES_RING_VIEW) {
            uint32_t back = place->columns + place->ring_lag;
            first = first >= back ? first - back : first + columns - back;
        }
        map.first = first;
        map.ring_columns = columns;
    }
    return map;
}

/* Byte of the arena that the tensor's addresses start from. */
static inline uint32_t es_base_offset(const es_ring *rings,
                                      const es_place *place)
{
    return ES_HAS_RINGS && place->ring_role != ES_RING_NONE
               ? rings[place->ring].offset
               : place->offset;
}

/* Where a column of an NWC tensor starts; those of a ring wrap. */
static inline ptrdiff_t es_nwc_column_at(const es_map *map, int32_t column)
{
    ptrdiff_t pitch = (ptrdiff_t)map->place->pitch;
    if (ES_HAS_RINGS && map->ring_columns) {
        uint32_t at = map->first + (uint32_t)column;
        at -= at >= map->ring_columns ? map->ring_columns : 0;
        return (ptrdiff_t)at * pitch;
    }
    return column * pitch;
}

/* Columns from `column` on that stand one after the other, at most `most`. */
static inline uint32_t es_side_by_side(const es_map *map, uint32_t column,
                                       uint32_t most)
{
    uint32_t at = map->first + column, ring = map->ring_columns;
    if (!ring) {
        return most;
    }
    uint32_t rest = ring - (at >= ring ? at - ring : at);
    return rest < most ? rest : most;
}

/* Columns before 0 and from `columns` on are the halo's. */
static inline ptrdiff_t es_column_at(const es_map *map, int32_t column)
{
    const es_place *place = map->place;
    ptrdiff_t pitch = (ptrdiff_t)place->pitch;
    switch (ES_HAS_LAYOUTS ? place->layout : ES_LAYOUT_NWC) {
    case ES_LAYOUT_NWC:
        return es_nwc_column_at(map, column);
    case ES_LAYOUT_PLANAR:
        return column;
    case ES_LAYOUT_C4:
        return (ptrdiff_t)column * 4;
    default: {
        int32_t phases = place->phases;
        int32_t at =
            column >= 0 ? column / phases : -((phases - 1 - column) / phases);
        return (column - at * phases) * (pitch / phases) + at;
    }
    }
}

static inline ptrdiff_t es_channel_at(const es_map *map, uint32_t channel)
{
    ptrdiff_t pitch = (ptrdiff_t)map->place->pitch;
    switch (ES_HAS_LAYOUTS ? map->place->layout : ES_LAYOUT_NWC) {
    case ES_LAYOUT_NWC:
        return (ptrdiff_t)channel;
    case ES_LAYOUT_C4:
        return (ptrdiff_t)(channel / 4) * pitch + (ptrdiff_t)(channel % 4);
    default:
        return (ptrdiff_t)channel * pitch;
    }
}

static inline const int8_t *es_read_at(const es_reader *tensor, int32_t column,
                                       uint32_t channel)
{
    return tensor->base + es_column_at(&tensor->map, column) +
           es_channel_at(&tensor->map, channel);
}

static inline int8_t *es_write_at(const es_writer *tensor, int32_t column,
                                  uint32_t channel)
{
    return tensor->base + es_column_at(&tensor->map, column) +
           es_channel_at(&tensor->map, channel);
}

#endif /* ES_ADDRESS_H */
