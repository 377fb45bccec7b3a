#include "link/cbor.h"

#include <string.h>

enum { UINT, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE };
enum { INDEFINITE = 31, BREAK = 0xFF, FALSE_BYTE = 0xF4, TRUE_BYTE = 0xF5 };

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *at, *end;
} reader;

typedef struct item {
    uint8_t major, info;
    bool big; /* the value does not fit 32 bits */
    uint32_t value;
} item;

static uint32_t left(const reader *r)
{
    return (uint32_t)(r->end - r->at);
}

/* The first byte of an item and the number that follows it. */
static bool read_head(reader *r, item *head)
{
    uint32_t bytes;

    if (left(r) == 0) {
        return false;
    }
    head->major = *r->at >> 5;
    head->info = *r->at++ & 31;
    head->value = head->info;
    head->big = false;
    if (head->info < 24) {
        return true;
    }
    if (head->info > 27) {
        return head->info == INDEFINITE &&
               (head->major == ARRAY || head->major == MAP);
    }
    bytes = 1u << (head->info - 24);
    if (left(r) < bytes) {
        return false;
    }
    head->value = 0;
    for (; bytes > 0; bytes--) {
        head->big |= head->value >> 24 != 0;
        head->value = head->value << 8 | *r->at++;
    }
    return true;
}

static bool skip_string(reader *r, const item *head)
{
    if (head->big || head->value > left(r)) {
        return false;
    }
    r->at += head->value;
    return true;
}

/* Whether the container ends here; steps over the break. */
static bool at_end(reader *r, const item *head, uint32_t done)
{
    if (head->info != INDEFINITE) {
        return done == head->value;
    }
    if (left(r) > 0 && *r->at == BREAK) {
        r->at++;
        return true;
    }
    return false;
}

static bool skip(reader *r, uint32_t depth);

/* A big count needs no check: there are not so many bytes, so it fails. */
static bool skip_items(reader *r, const item *head, uint32_t depth)
{
    if (depth == ES_CBOR_DEPTH || head->big) {
        return false;
    }
    for (uint32_t i = 0; !at_end(r, head, i); i++) {
        if (head->major == MAP && (left(r) == 0 || *r->at >> 5 != TEXT)) {
            return false;
        }
        if ((head->major == MAP && !skip(r, depth + 1)) ||
            !skip(r, depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool skip(reader *r, uint32_t depth)
{
    item head;

    if (!read_head(r, &head)) {
        return false;
    }
    switch (head.major) {
    case BYTES:
    case TEXT:
        return skip_string(r, &head);
    case ARRAY:
    case MAP:
        return skip_items(r, &head, depth);
    case TAG:
        return false;
    default:
        return true;
    }
}

bool es_cbor_open(es_cbor_map *map, const uint8_t *bytes, uint32_t size)
{
    reader r = {bytes, bytes + size};

    if (size == 0 || bytes[0] >> 5 != MAP || !skip(&r, 0) || r.at != r.end) {
        return false;
    }
    map->bytes = bytes;
    map->size = size;
    return true;
}

/* No strlen here or below: it is not among what the core may call. */
static bool is_key(const uint8_t *text, uint32_t size, const char *key)
{
    for (uint32_t i = 0; i < size; i++) {
        if (key[i] == 0 || (uint8_t)key[i] != text[i]) {
            return false;
        }
    }
    return key[size] == 0;
}

/* Steps to the value of `key`. The map has been checked, so reading it cannot
 * fail; the results are looked at all the same. */
static bool find(const es_cbor_map *map, const char *key, reader *r)
{
    item head, name;

    r->at = map->bytes;
    r->end = map->bytes + map->size;
    if (!read_head(r, &head)) {
        return false;
    }
    for (uint32_t i = 0; !at_end(r, &head, i); i++) {
        const uint8_t *text;
        if (!read_head(r, &name)) {
            return false;
        }
        text = r->at;
        if (!skip_string(r, &name)) {
            return false;
        }
        if (is_key(text, name.value, key)) {
            return true;
        }
        if (!skip(r, 1)) {
            return false;
        }
    }
    return false;
}

es_cbor_found es_cbor_uint(const es_cbor_map *map, const char *key,
                           uint32_t *value)
{
    reader r;
    item head;

    if (!find(map, key, &r)) {
        return ES_CBOR_ABSENT;
    }
    if (!read_head(&r, &head) || head.major != UINT || head.big) {
        return ES_CBOR_WRONG;
    }
    *value = head.value;
    return ES_CBOR_FOUND;
}

es_cbor_found es_cbor_bool(const es_cbor_map *map, const char *key, bool *value)
{
    reader r;

    if (!find(map, key, &r)) {
        return ES_CBOR_ABSENT;
    }
    if (*r.at != FALSE_BYTE && *r.at != TRUE_BYTE) {
        return ES_CBOR_WRONG;
    }
    *value = *r.at == TRUE_BYTE;
    return ES_CBOR_FOUND;
}

static es_cbor_found find_string(const es_cbor_map *map, const char *key,
                                 uint8_t major, es_cbor_map *found)
{
    reader r;
    item head;

    if (!find(map, key, &r)) {
        return ES_CBOR_ABSENT;
    }
    if (!read_head(&r, &head) || head.major != major) {
        return ES_CBOR_WRONG;
    }
    found->bytes = r.at;
    found->size = head.value;
    return ES_CBOR_FOUND;
}

es_cbor_found es_cbor_bytes(const es_cbor_map *map, const char *key,
                            const uint8_t **data, uint32_t *size)
{
    es_cbor_map string;
    es_cbor_found found = find_string(map, key, BYTES, &string);

    if (found == ES_CBOR_FOUND) {
        *data = string.bytes;
        *size = string.size;
    }
    return found;
}

es_cbor_found es_cbor_text(const es_cbor_map *map, const char *key,
                           const uint8_t **text, uint32_t *size)
{
    es_cbor_map string;
    es_cbor_found found = find_string(map, key, TEXT, &string);

    if (found == ES_CBOR_FOUND) {
        *text = string.bytes;
        *size = string.size;
    }
    return found;
}

/* ---- writing ---- */

static bool room(es_cbor_out *out, uint32_t size)
{
    if (out->full || (size_t)(out->end - out->at) < size) {
        out->full = true;
        return false;
    }
    return true;
}

static void put_head(es_cbor_out *out, uint8_t major, uint32_t value)
{
    uint32_t bytes = value < 24 ? 0 : value < 256 ? 1 : value < 65536 ? 2 : 4;
    uint32_t info = bytes == 0 ? value : bytes == 4 ? 26 : 23 + bytes;

    if (!room(out, 1 + bytes)) {
        return;
    }
    *out->at++ = (uint8_t)((uint32_t)major << 5 | info);
    while (bytes-- > 0) {
        *out->at++ = (uint8_t)(value >> (8 * bytes));
    }
}

static void put_string(es_cbor_out *out, uint8_t major, const void *data,
                       uint32_t size)
{
    put_head(out, major, size);
    if (room(out, size)) {
        memcpy(out->at, data, size);
        out->at += size;
    }
}

void es_cbor_put_map(es_cbor_out *out, uint32_t entries)
{
    put_head(out, MAP, entries);
}

void es_cbor_put_array(es_cbor_out *out, uint32_t items)
{
    put_head(out, ARRAY, items);
}

const char *es_cbor_put_string(es_cbor_out *out, const char *text)
{
    uint8_t *head = out->at;
    uint32_t size = 0;

    put_head(out, TEXT, 0);
    for (; *text != 0; text++, size++) {
        if (room(out, 1)) {
            *out->at++ = (uint8_t)*text;
        }
    }
    if (size > ES_CBOR_STRING) {
        out->full = true;
    }
    if (!out->full) {
        *head = (uint8_t)(*head | size);
    }
    return text + 1;
}

void es_cbor_put_text(es_cbor_out *out, const void *text, uint32_t size)
{
    put_string(out, TEXT, text, size);
}

void es_cbor_put_uint(es_cbor_out *out, const char *key, uint32_t value)
{
    (void)es_cbor_put_string(out, key);
    put_head(out, UINT, value);
}

void es_cbor_put_uints(es_cbor_out *out, const char *keys,
                       const uint32_t *values)
{
    while (*keys != 0) {
        keys = es_cbor_put_string(out, keys);
        put_head(out, UINT, *values++);
    }
}

void es_cbor_put_bool(es_cbor_out *out, const char *key, bool value)
{
    (void)es_cbor_put_string(out, key);
    put_head(out, SIMPLE, value ? 21 : 20);
}

void es_cbor_put_bytes(es_cbor_out *out, const char *key, const void *data,
                       uint32_t size)
{
    (void)es_cbor_put_string(out, key);
    put_string(out, BYTES, data, size);
}

uint8_t *es_cbor_put_space(es_cbor_out *out, const char *key, uint32_t size)
{
    uint8_t *space;

    (void)es_cbor_put_string(out, key);
    put_head(out, BYTES, size);
    if (!room(out, size)) {
        return NULL;
    }
    space = out->at;
    out->at += size;
    return space;
}
