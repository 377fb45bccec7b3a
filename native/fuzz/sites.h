/* Where a valid plan has something worth changing. */
#ifndef ES_FUZZ_SITES_H
#define ES_FUZZ_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "edgesparse/edgesparse.h"

enum es_site_kind { SITE_NUMBER, SITE_OFFSET, SITE_COUNT };

typedef struct es_site {
    uint32_t at;  /* byte of the FlatBuffer */
    uint8_t size; /* 1, 2 or 4 bytes */
    uint8_t kind; /* enum es_site_kind */
} es_site;

typedef struct es_sites {
    es_site *items; /* [count], from malloc */
    size_t count, room;
    uint8_t *seen; /* [size] 1 where a table or vector was walked */
} es_sites;

/* Every field, offset, vtable entry, vector length and number of an opened
 * plan, each once; of long vectors the first and last numbers. */
es_sites es_sites_find(const es_plan *plan);
void es_sites_free(es_sites *sites);

#endif /* ES_FUZZ_SITES_H */
