/* The CBOR (RFC 8949) that SMP needs: one map with text keys, read where it
 * stands and written into a buffer. */
#ifndef ES_LINK_CBOR_H
#define ES_LINK_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A checked map. */
typedef struct es_cbor_map {
    const uint8_t *bytes;
    uint32_t size;
} es_cbor_map;

/* Whether the bytes are one map with text keys and nothing else: definite or
 * indefinite, nested ES_CBOR_DEPTH deep at most, strings in one piece. */
enum { ES_CBOR_DEPTH = 4 };
bool es_cbor_open(es_cbor_map *map, const uint8_t *bytes, uint32_t size);

typedef enum es_cbor_found {
    ES_CBOR_ABSENT,
    ES_CBOR_FOUND,
    ES_CBOR_WRONG /* another type, or too big; the output is untouched */
} es_cbor_found;

/* The entry `key`; the first one if there are several. */
es_cbor_found es_cbor_uint(const es_cbor_map *map, const char *key,
                           uint32_t *value);
es_cbor_found es_cbor_bool(const es_cbor_map *map, const char *key,
                           bool *value);
es_cbor_found es_cbor_bytes(const es_cbor_map *map, const char *key,
                            const uint8_t **data, uint32_t *size);
es_cbor_found es_cbor_text(const es_cbor_map *map, const char *key,
                           const uint8_t **text, uint32_t *size);

typedef struct es_cbor_out {
    uint8_t *at, *end;
    bool full; /* something did not fit, and nothing after it was written */
} es_cbor_out;

void es_cbor_put_map(es_cbor_out *out, uint32_t entries);
void es_cbor_put_array(es_cbor_out *out, uint32_t items);
void es_cbor_put_text(es_cbor_out *out, const void *text, uint32_t size);
/* A key, or a text of at most so many bytes. Returns what stands behind its
 * zero byte. */
enum { ES_CBOR_STRING = 23 };
const char *es_cbor_put_string(es_cbor_out *out, const char *text);
void es_cbor_put_uint(es_cbor_out *out, const char *key, uint32_t value);
/* Entries in a row: `keys` one after the other, each with its zero byte, and an
 * empty one behind the last. */
void es_cbor_put_uints(es_cbor_out *out, const char *keys,
                       const uint32_t *values);
void es_cbor_put_bool(es_cbor_out *out, const char *key, bool value);
void es_cbor_put_bytes(es_cbor_out *out, const char *key, const void *data,
                       uint32_t size);
/* The same, with the bytes to be filled in; NULL when they do not fit. */
uint8_t *es_cbor_put_space(es_cbor_out *out, const char *key, uint32_t size);

#endif /* ES_LINK_CBOR_H */
