#include "plan/schema.h"

static const es_schema_field fields[ES_F_COUNT] = {
#define ES_TABLE(table)
#define ES_FIELD(table, field, kind, size, align, limit, sub, required)        \
    {ES_KIND_##kind, size, align, ES_T_##sub, limit, required},
#include "plan/schema.inc"
#undef ES_TABLE
#undef ES_FIELD
};

/* Number of the first field of each table, and of the one after the last. */
static const uint8_t first[ES_T_COUNT + 1] = {0,
#define ES_TABLE(table) ES_FIRST_##table,
#define ES_FIELD(table, field, kind, size, align, limit, sub, required)
#include "plan/schema.inc"
#undef ES_TABLE
#undef ES_FIELD
                                              ES_F_COUNT};

const es_schema_field *es_schema_fields(uint8_t table)
{
    return fields + first[table];
}

uint32_t es_schema_field_count(uint8_t table)
{
    return (uint32_t)first[table + 1] - first[table];
}
