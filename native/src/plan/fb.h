/* Reading a FlatBuffer whose structure has been checked (check_structure.c).
 * `slot` is ES_SLOT(table, field). Source of the format: the FlatBuffers
 * documentation, "FlatBuffers Internals". */
#ifndef ES_PLAN_FB_H
#define ES_PLAN_FB_H

#include "plan/schema.h"
#include "plan/view.h"

/* Numbers at any address. */
uint16_t es_fb_read_u16(const uint8_t *at);
uint32_t es_fb_read_u32(const uint8_t *at);

/* What the offset at `at` leads to. */
const uint8_t *es_fb_follow(const uint8_t *at);

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
es_i8s es_fb_i8s(const uint8_t *table, uint32_t slot);
es_i16s es_fb_i16s(const uint8_t *table, uint32_t slot);
es_u16s es_fb_u16s(const uint8_t *table, uint32_t slot);
es_u32s es_fb_u32s(const uint8_t *table, uint32_t slot);
es_i32s es_fb_i32s(const uint8_t *table, uint32_t slot);
es_tables es_fb_tables(const uint8_t *table, uint32_t slot);

/* Table `index` of a vector of tables. */
const uint8_t *es_fb_element(es_tables tables, uint32_t index);

#endif /* ES_PLAN_FB_H */
