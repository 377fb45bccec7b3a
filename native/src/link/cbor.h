/* The CBOR (RFC 8949) that SMP needs: one map with text keys, read where it
 * stands and written into a buffer.
 *
 * Entries are a string: each a key and a byte below 32, whose last three bits
 * are CBOR's major type. */
#ifndef ES_LINK_CBOR_H
#define ES_LINK_CBOR_H

#include <stdbool.h>
#include <stdint.h>

/* Written from: */
#define ES_UINT(key)  key "\x10" /* uint32_t */
#define ES_BYTES(key) key "\x12" /* const void *, uint32_t size; NULL: room */
#define ES_TEXT(key)  key "\x13" /* the same */
#define ES_ARRAY(key) key "\x14" /* uint32_t items, which come next */
#define ES_MAP(key)   key "\x15" /* nothing; it is the next es_cbor_put */
#define ES_BOOL(key)  key "\x17" /* uint32_t */
/* Must be there. */
#define ES_NEEDS_UINT(key)  key "\x18"
#define ES_NEEDS_BYTES(key) key "\x1A"
#define ES_NEEDS_TEXT(key)  key "\x1B"

enum { ES_CBOR_DEPTH = 4 };

typedef struct es_argument {
    const uint8_t *bytes; /* of a string; NULL: the entry is absent */
    uint32_t value;       /* number, truth (0 or 1), size of a string */
} es_argument;

/* Read the entries `wanted` into `arguments`, in their order and all zero
 * before; of several with one key the first. Returns false when the bytes are
 * not one map with text keys and nothing else (definite or indefinite, nested
 * ES_CBOR_DEPTH deep at most, strings in one piece), or an entry is of another
 * type, beyond 32 bits, or missing. */
bool es_cbor_read(const uint8_t *bytes, uint32_t size, const char *wanted,
                  es_argument *arguments);

typedef struct es_cbor_out {
    uint8_t *at, *end;
    bool full; /* something did not fit, and nothing after it was written */
} es_cbor_out;

/* Write a map of these entries, 23 at most. */
void es_cbor_put(es_cbor_out *out, const char *entries, ...);

/* Room for so many bytes; NULL when there is none. */
uint8_t *es_cbor_space(es_cbor_out *out, uint32_t size);

#endif /* ES_LINK_CBOR_H */
