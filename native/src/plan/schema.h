/* plan.fbs as data: what a table can hold, for the structural check, and
 * where a field stands in a vtable, for the views. The list is schema.inc. */
#ifndef ES_PLAN_SCHEMA_H
#define ES_PLAN_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ES_KIND_SCALAR,
    ES_KIND_BOOL,
    ES_KIND_STRUCT,
    ES_KIND_TABLE,
    ES_KIND_UNION,
    ES_KIND_STRING,
    ES_KIND_VECTOR,
    ES_KIND_TABLES,
    ES_KIND_STRINGS
};

/* ES_T_<table>: the tables, in the order of the list. */
enum {
    ES_T_None,
#define ES_TABLE(table) ES_T_##table,
#define ES_FIELD(table, field, kind, size, align, limit, sub, required)
#include "plan/schema.inc"
#undef ES_TABLE
#undef ES_FIELD
    ES_T_COUNT
};

/* ES_F_<table>_<field>: number of a field in the list of all fields;
 * ES_FIRST_<table>: number of the first field of a table. */
enum {
#define ES_TABLE(table)                                                        \
    ES_FIRST_##table, ES_BEFORE_##table = ES_FIRST_##table - 1,
#define ES_FIELD(table, field, kind, size, align, limit, sub, required)        \
    ES_F_##table##_##field,
#include "plan/schema.inc"
#undef ES_TABLE
#undef ES_FIELD
    ES_F_COUNT
};

/* Place of a field in the vtable of its table. */
#define ES_SLOT(table, field) (ES_F_##table##_##field - ES_FIRST_##table)

typedef struct es_schema_field {
    uint8_t kind;   /* ES_KIND_... */
    uint8_t size;   /* bytes; of an element for ES_KIND_VECTOR */
    uint8_t align;  /* of the same */
    uint8_t sub;    /* ES_T_... reached; the first member for a union */
    uint16_t limit; /* most elements, 0: any; members of a union */
    bool required;
} es_schema_field;

/* The field at slot 0 of `table` (ES_T_...); the others follow it. */
const es_schema_field *es_schema_fields(uint8_t table);
uint32_t es_schema_field_count(uint8_t table);

#endif /* ES_PLAN_SCHEMA_H */
