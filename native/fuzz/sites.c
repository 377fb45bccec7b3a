#include "sites.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan/fb.h"

enum { VECTOR_ENDS = 16 }; /* numbers taken from either end of a vector */

static void add(es_sites *sites, size_t at, uint32_t size, uint8_t kind)
{
    if (sites->count == sites->room) {
        sites->room = sites->room ? 2 * sites->room : 1024;
        sites->items = realloc(sites->items, sites->room * sizeof(es_site));
        if (sites->items == NULL) {
            fputs("out of memory\n", stderr);
            exit(2);
        }
    }
    sites->items[sites->count++] = (es_site){(uint32_t)at, (uint8_t)size, kind};
}

/* A struct or a number as numbers of at most 4 bytes. */
static void add_inline(es_sites *sites, uint32_t at, uint32_t size,
                       uint32_t align)
{
    uint32_t width = size < align ? size : align;
    for (uint32_t i = 0; i < size; i += width) {
        add(sites, at + i, width, SITE_NUMBER);
    }
    for (uint32_t i = 0; width > 1 && i < size; i++) {
        add(sites, at + i, 1, SITE_NUMBER);
    }
}

static bool first_time(es_sites *sites, uint32_t at)
{
    bool first = !sites->seen[at];
    sites->seen[at] = 1;
    return first;
}

static void walk_table(es_sites *sites, const uint8_t *bytes, uint8_t kind,
                       uint32_t at);

static void walk_vector(es_sites *sites, const uint8_t *bytes,
                        const es_schema_field *field, uint32_t at)
{
    uint32_t count = es_fb_read_u32(bytes + at);
    if (!first_time(sites, at)) {
        return;
    }
    add(sites, at, 4, SITE_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t element = at + 4 + i * field->size;
        bool end = i < VECTOR_ENDS || count - i <= VECTOR_ENDS;
        if (field->kind == ES_KIND_VECTOR) {
            if (end) {
                add_inline(sites, element, field->size,
                           field->size < 4 ? field->size : 4);
            }
            continue;
        }
        add(sites, element, 4, SITE_OFFSET);
        if (field->kind == ES_KIND_TABLES) {
            walk_table(sites, bytes, field->sub,
                       element + es_fb_read_u32(bytes + element));
        }
    }
}

static void walk_field(es_sites *sites, const uint8_t *bytes,
                       const es_schema_field *field, uint32_t at, uint8_t type)
{
    uint32_t target = at + es_fb_read_u32(bytes + at);
    add(sites, at, 4, SITE_OFFSET);
    switch (field->kind) {
    case ES_KIND_TABLE:
        walk_table(sites, bytes, field->sub, target);
        break;
    case ES_KIND_UNION:
        walk_table(sites, bytes, (uint8_t)(field->sub + type - 1), target);
        break;
    case ES_KIND_STRING:
        add(sites, target, 4, SITE_COUNT);
        break;
    default:
        walk_vector(sites, bytes, field, target);
        break;
    }
}

static void walk_table(es_sites *sites, const uint8_t *bytes, uint8_t kind,
                       uint32_t at)
{
    const es_schema_field *fields = es_schema_fields(kind);
    uint32_t count = es_schema_field_count(kind);
    uint32_t vtable = at - es_fb_read_u32(bytes + at);
    if (!first_time(sites, at)) {
        return;
    }
    add(sites, at, 4, SITE_OFFSET);
    for (uint32_t i = 0; i < es_fb_read_u16(bytes + vtable); i += 2) {
        add(sites, vtable + i, 2, SITE_NUMBER);
    }
    for (uint32_t slot = 0; slot < count; slot++) {
        const uint8_t *field = es_fb_field(bytes + at, slot);
        if (field == NULL) {
            continue;
        }
        if (fields[slot].kind <= ES_KIND_STRUCT) {
            add_inline(sites, (uint32_t)(field - bytes), fields[slot].size,
                       fields[slot].align);
        } else {
            uint8_t type = slot > 0 ? es_fb_u8(bytes + at, slot - 1, 0) : 0;
            walk_field(sites, bytes, &fields[slot], (uint32_t)(field - bytes),
                       type);
        }
    }
}

es_sites es_sites_find(const es_plan *plan)
{
    es_sites sites = {NULL, 0, 0, calloc(plan->size, 1)};
    if (sites.seen == NULL) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    walk_table(&sites, plan->bytes, ES_T_Plan, plan->root);
    return sites;
}

void es_sites_free(es_sites *sites)
{
    free(sites->items);
    free(sites->seen);
}
