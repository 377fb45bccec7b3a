/* Reading a FlatBuffer whose structure has been checked (check_structure.c).
 * `slot` is ES_SLOT(table, field). Source of the format: the FlatBuffers
 * documentation, "FlatBuffers Internals". */
#ifndef ES_PLAN_FB_H
#define ES_PLAN_FB_H

#include <string.h>

#include "plan/schema.h"
#include "plan/view.h"

/* Numbers at any address. */
static inline uint16_t es_fb_read_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t es_fb_read_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* What the offset at `at` leads to. */
static inline const uint8_t *es_fb_follow(const uint8_t *at)
{
    return at + es_fb_read_u32(at);
}

/* ---- inline, for views that a step decodes on every run ---- */

/* A table, and where its fields are listed. */
typedef struct es_fb {
    const uint8_t *table, *vtable;
    uint32_t size; /* of the vtable */
} es_fb;

static inline es_fb es_fb_open(const uint8_t *table)
{
    es_fb t;
    t.table = table;
    t.vtable = table - (int32_t)es_fb_read_u32(table);
    t.size = es_fb_read_u16(t.vtable);
    return t;
}

/* The field itself (a struct, an offset), or NULL when it is absent. */
static inline const uint8_t *es_fb_get(const es_fb *t, uint32_t slot)
{
    uint32_t at = 4 + 2 * slot, offset;
    if (at >= t->size) {
        return NULL;
    }
    offset = es_fb_read_u16(t->vtable + at);
    return offset == 0 ? NULL : t->table + offset;
}

/* Scalars; 0 when the field is absent. */
static inline uint8_t es_fb_get_u8(const es_fb *t, uint32_t slot)
{
    const uint8_t *field = es_fb_get(t, slot);
    return field == NULL ? 0 : *field;
}

static inline uint16_t es_fb_get_u16(const es_fb *t, uint32_t slot)
{
    const uint8_t *field = es_fb_get(t, slot);
    return field == NULL ? 0 : es_fb_read_u16(field);
}

static inline uint32_t es_fb_get_u32(const es_fb *t, uint32_t slot)
{
    const uint8_t *field = es_fb_get(t, slot);
    return field == NULL ? 0 : es_fb_read_u32(field);
}

/* A table or the table of a union; NULL when it is absent. */
static inline const uint8_t *es_fb_get_table(const es_fb *t, uint32_t slot)
{
    const uint8_t *field = es_fb_get(t, slot);
    return field == NULL ? NULL : es_fb_follow(field);
}

/* A vector: its first element and their number; {NULL, 0} when absent. */
static inline es_bytes es_fb_get_bytes(const es_fb *t, uint32_t slot)
{
    const uint8_t *vector = es_fb_get_table(t, slot);
    es_bytes view = {NULL, 0};
    if (vector != NULL) {
        view.data = vector + 4;
        view.count = es_fb_read_u32(vector);
    }
    return view;
}

/* The bytes of a vector as its elements, which are aligned to their size
 * (I-5). */
static inline es_i8s es_fb_as_i8s(es_bytes raw)
{
    es_i8s view = {(const int8_t *)raw.data, raw.count};
    return view;
}

static inline es_u16s es_fb_as_u16s(es_bytes raw)
{
    es_u16s view = {(const uint16_t *)(const void *)raw.data, raw.count};
    return view;
}

static inline es_u32s es_fb_as_u32s(es_bytes raw)
{
    es_u32s view = {(const uint32_t *)(const void *)raw.data, raw.count};
    return view;
}

static inline es_i32s es_fb_as_i32s(es_bytes raw)
{
    es_i32s view = {(const int32_t *)(const void *)raw.data, raw.count};
    return view;
}

static inline es_tables es_fb_as_tables(es_bytes raw)
{
    es_tables view = {raw.data, raw.count};
    return view;
}

/* Table `index` of a vector of tables. */
static inline const uint8_t *es_fb_element(es_tables tables, uint32_t index)
{
    return es_fb_follow(tables.data + (size_t)4 * index);
}

/* ---- calls, for the rest ---- */

/* The field itself (a struct, an offset), or NULL when it is absent. */
const uint8_t *es_fb_field(const uint8_t *table, uint32_t slot);

/* Scalars; `absent` or 0 when the field is absent. */
uint8_t es_fb_u8(const uint8_t *table, uint32_t slot, uint8_t absent);
int8_t es_fb_i8(const uint8_t *table, uint32_t slot);
uint16_t es_fb_u16(const uint8_t *table, uint32_t slot);
uint32_t es_fb_u32(const uint8_t *table, uint32_t slot);
int32_t es_fb_i32(const uint8_t *table, uint32_t slot);

/* A table or the table of a union; NULL when it is absent. */
const uint8_t *es_fb_table(const uint8_t *table, uint32_t slot);

/* A vector: its first element and their number; {NULL, 0} when absent. */
es_bytes es_fb_bytes(const uint8_t *table, uint32_t slot);
es_i16s es_fb_i16s(const uint8_t *table, uint32_t slot);
es_u16s es_fb_u16s(const uint8_t *table, uint32_t slot);
es_u32s es_fb_u32s(const uint8_t *table, uint32_t slot);
es_i32s es_fb_i32s(const uint8_t *table, uint32_t slot);
es_tables es_fb_tables(const uint8_t *table, uint32_t slot);

#endif /* ES_PLAN_FB_H */
