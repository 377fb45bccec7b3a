#include "plan/fb.h"

#include <string.h>

uint16_t es_fb_read_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

uint32_t es_fb_read_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int32_t read_i32(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

const uint8_t *es_fb_follow(const uint8_t *at)
{
    return at + es_fb_read_u32(at);
}

const uint8_t *es_fb_field(const uint8_t *table, uint32_t slot)
{
    const uint8_t *vtable = table - read_i32(table);
    uint32_t at = 4 + 2 * slot;
    uint16_t offset;
    if (at >= es_fb_read_u16(vtable)) {
        return NULL;
    }
    offset = es_fb_read_u16(vtable + at);
    return offset == 0 ? NULL : table + offset;
}

uint8_t es_fb_u8(const uint8_t *table, uint32_t slot, uint8_t absent)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? absent : *field;
}

int8_t es_fb_i8(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? 0 : *(const int8_t *)field;
}

uint16_t es_fb_u16(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? 0 : es_fb_read_u16(field);
}

uint32_t es_fb_u32(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? 0 : es_fb_read_u32(field);
}

int32_t es_fb_i32(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? 0 : read_i32(field);
}

const uint8_t *es_fb_table(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? NULL : es_fb_follow(field);
}

es_bytes es_fb_bytes(const uint8_t *table, uint32_t slot)
{
    const uint8_t *vector = es_fb_table(table, slot);
    es_bytes view = {NULL, 0};
    if (vector != NULL) {
        view.data = vector + 4;
        view.count = es_fb_read_u32(vector);
    }
    return view;
}

es_i8s es_fb_i8s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_i8s view = {(const int8_t *)raw.data, raw.count};
    return view;
}

/* Elements are aligned to their size (I-5), so the casts are. */
es_i16s es_fb_i16s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_i16s view = {(const int16_t *)(const void *)raw.data, raw.count};
    return view;
}

es_u16s es_fb_u16s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_u16s view = {(const uint16_t *)(const void *)raw.data, raw.count};
    return view;
}

es_u32s es_fb_u32s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_u32s view = {(const uint32_t *)(const void *)raw.data, raw.count};
    return view;
}

es_i32s es_fb_i32s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_i32s view = {(const int32_t *)(const void *)raw.data, raw.count};
    return view;
}

es_tables es_fb_tables(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_tables view = {raw.data, raw.count};
    return view;
}

const uint8_t *es_fb_element(es_tables tables, uint32_t index)
{
    return es_fb_follow(tables.data + (size_t)4 * index);
}
