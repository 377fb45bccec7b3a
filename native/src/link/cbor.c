#include "link/cbor.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

enum { UINT, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE, MAJOR = 7 };
enum {
    EIGHT_BYTES = 27,
    INDEFINITE = 31,
    BREAK = 0xFF,
    FALSE_INFO = 20 /* true is the next */
};
enum { NEEDED = 8 }; /* this bit of an entry's type */

/* Behind `key`, at its type. */
static const char *type_of(const char *key)
{
    while (*key >= ' ') {
        key++;
    }
    return key;
}

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *at, *end;
    /* Of the item whose head was read last. */
    uint32_t value;
    uint8_t major, info;
    /* What is looked for in the outermost map. */
    const char *wanted;
    es_argument *arguments;
} reader;

static uint32_t left(const reader *r)
{
    return (uint32_t)(r->end - r->at);
}

/* The first byte of an item and the number that follows it. True: an item that
 * may stand here; the bytes of a string are all there. */
static bool read_head(reader *r)
{
    uint32_t bytes = 0, value;

    if (left(r) == 0) {
        return false;
    }
    r->major = *r->at >> 5;
    r->info = *r->at++ & 31;
    value = r->info;
    if (value == INDEFINITE) {
        value = UINT32_MAX;
    } else if (value >= 24) {
        bytes = 1u << (value - 24);
        value = 0;
    }
    if (bytes > 8 || left(r) < bytes) {
        return false;
    }
    for (; bytes > 0; bytes--, r->at++) {
        value = value << 8 | *r->at;
    }
    r->value = value;
    switch (r->major) {
    case BYTES:
    case TEXT: /* endless ones are too long */
        return value <= left(r) && r->info != EIGHT_BYTES;
    case ARRAY:
    case MAP:
        return r->info != EIGHT_BYTES;
    default:
        return r->major != TAG && r->info != INDEFINITE;
    }
}

/* The argument whose key has just been read, and its type; NULL if nobody
 * wants it. */
static es_argument *find(const reader *r, char *type)
{
    es_argument *argument = r->arguments;

    for (const char *key = r->wanted; *key != 0; argument++) {
        const char *end = type_of(key);
        if ((uint32_t)(end - key) == r->value &&
            memcmp(key, r->at, r->value) == 0) {
            *type = *end;
            return argument->bytes != NULL ? NULL : argument;
        }
        key = end + 1;
    }
    return NULL;
}

/* The item whose head has just been read. */
static bool take(const reader *r, char type, es_argument *argument)
{
    bool simple = r->major == SIMPLE;

    argument->bytes = r->at;
    argument->value = simple ? r->value - FALSE_INFO : r->value;
    return r->major == (type & MAJOR) && r->info < EIGHT_BYTES &&
           (!simple || r->info >> 1 == FALSE_INFO >> 1);
}

/* Steps over an item and what is in it. Recursion ends at ES_CBOR_DEPTH. */
static bool step_over(reader *r, uint32_t depth, es_argument *argument,
                      char type)
{
    uint32_t items;
    bool endless, map;

    if (!read_head(r) || (depth == 0 && r->major != MAP) ||
        (argument != NULL && !take(r, type, argument))) {
        return false;
    }
    if (r->major != ARRAY && r->major != MAP) {
        if (r->major == BYTES || r->major == TEXT) {
            r->at += r->value;
        }
        return true;
    }
    if (depth == ES_CBOR_DEPTH) {
        return false;
    }
    map = r->major == MAP;
    endless = r->info == INDEFINITE;
    /* A count too big needs no check: there are not so many bytes. */
    for (items = r->value; items > 0; items--) {
        if (endless && left(r) > 0 && *r->at == BREAK) {
            r->at++;
            break;
        }
        argument = NULL;
        if (map) {
            if (!read_head(r) || r->major != TEXT) {
                return false;
            }
            if (depth == 0) {
                argument = find(r, &type);
            }
            r->at += r->value;
        }
        if (!step_over(r, depth + 1, argument, type)) {
            return false;
        }
    }
    return true;
}

bool es_cbor_read(const uint8_t *bytes, uint32_t size, const char *wanted,
                  es_argument *arguments)
{
    reader r = {.at = bytes,
                .end = bytes + size,
                .wanted = wanted,
                .arguments = arguments};

    if (!step_over(&r, 0, NULL, 0) || r.at != r.end) {
        return false;
    }
    while (*wanted != 0) {
        const char *type = type_of(wanted);
        if ((*type & NEEDED) != 0 && arguments->bytes == NULL) {
            return false;
        }
        arguments++;
        wanted = type + 1;
    }
    return true;
}

/* ---- writing ---- */

uint8_t *es_cbor_space(es_cbor_out *out, uint32_t size)
{
    uint8_t *space = out->at;

    if (out->full || (uint32_t)(out->end - space) < size) {
        out->full = true;
        return NULL;
    }
    out->at = space + size;
    return space;
}

static void put_head(es_cbor_out *out, uint32_t major, uint32_t value)
{
    uint32_t bytes = value < 24 ? 0 : value < 256 ? 1 : value < 65536 ? 2 : 4;
    uint8_t *at = es_cbor_space(out, 1 + bytes);

    if (at == NULL) {
        return;
    }
    *at++ = (uint8_t)(major << 5 | (bytes == 0 ? value : 24 + bytes / 2));
    while (bytes-- > 0) {
        *at++ = (uint8_t)(value >> (8 * bytes));
    }
}

static void put_string(es_cbor_out *out, uint32_t major, const void *data,
                       uint32_t size)
{
    uint8_t *at;

    put_head(out, major, size);
    at = es_cbor_space(out, size);
    if (at != NULL && data != NULL) {
        memcpy(at, data, size);
    }
}

void es_cbor_put(es_cbor_out *out, const char *entries, ...)
{
    uint8_t *map = out->at;
    va_list values;

    put_head(out, MAP, 0);
    va_start(values, entries);
    while (*entries != 0) {
        const char *type = type_of(entries);
        uint32_t major = *type & MAJOR;
        put_string(out, TEXT, entries, (uint32_t)(type - entries));
        if (major == BYTES || major == TEXT) {
            const void *data = va_arg(values, const void *);
            put_string(out, major, data, va_arg(values, uint32_t));
        } else if (major != MAP) {
            uint32_t value = va_arg(values, uint32_t);
            put_head(out, major, major == SIMPLE ? FALSE_INFO + value : value);
        }
        if (!out->full) {
            ++*map;
        }
        entries = type + 1;
    }
    va_end(values);
}
