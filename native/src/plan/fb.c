#include "plan/fb.h"

const uint8_t *es_fb_field(const uint8_t *table, uint32_t slot)
{
    es_fb t = es_fb_open(table);
    return es_fb_get(&t, slot);
}

uint8_t es_fb_u8(const uint8_t *table, uint32_t slot, uint8_t absent)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? absent : *field;
}

int8_t es_fb_i8(const uint8_t *table, uint32_t slot)
{
    return (int8_t)es_fb_u8(table, slot, 0);
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
    return (int32_t)es_fb_u32(table, slot);
}

const uint8_t *es_fb_table(const uint8_t *table, uint32_t slot)
{
    const uint8_t *field = es_fb_field(table, slot);
    return field == NULL ? NULL : es_fb_follow(field);
}

es_bytes es_fb_bytes(const uint8_t *table, uint32_t slot)
{
    es_fb t = es_fb_open(table);
    return es_fb_get_bytes(&t, slot);
}

es_i16s es_fb_i16s(const uint8_t *table, uint32_t slot)
{
    es_bytes raw = es_fb_bytes(table, slot);
    es_i16s view = {(const int16_t *)(const void *)raw.data, raw.count};
    return view;
}

es_u16s es_fb_u16s(const uint8_t *table, uint32_t slot)
{
    return es_fb_as_u16s(es_fb_bytes(table, slot));
}

es_u32s es_fb_u32s(const uint8_t *table, uint32_t slot)
{
    return es_fb_as_u32s(es_fb_bytes(table, slot));
}

es_i32s es_fb_i32s(const uint8_t *table, uint32_t slot)
{
    return es_fb_as_i32s(es_fb_bytes(table, slot));
}

es_tables es_fb_tables(const uint8_t *table, uint32_t slot)
{
    return es_fb_as_tables(es_fb_bytes(table, slot));
}
