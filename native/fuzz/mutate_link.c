/* Feed a device what no client sends: mutate_link [-n N] [-s SEED]
 *
 * Makes N lines: requests of every command in both framings, with bytes of
 * the message changed before its checks are made (so that the CBOR reader and
 * the commands have to bear them), or of the frame after that (the decoders),
 * or noise. Buffers are heap blocks of exactly the promised size; a plan store
 * that checks the promises made to it stands behind the link; the sanitizers
 * judge. After each line a plain request must be answered. Prints what came of
 * it. The same seed gives the same lines. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/plan_stream.h"
#include "edgesparse/link.h"
#include "link/frame.h"
#include "plan/crc32.h"

enum {
    BUFFER = 256,
    RING = 96,
    MESSAGE = 400,
    LINE = 4096,
    HEADER = 8,
    SLOT = 1000
};

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "%s\n", what);
        exit(2);
    }
}

/* ---- random numbers: splitmix64 ---- */

static uint64_t state;

static uint32_t below(uint32_t limit)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) % limit);
}

/* ---- the device ---- */

typedef struct store {
    uint32_t size, offset;
    uint8_t bytes[SLOT];
    bool open;
} store;

static void memory(void *user, es_link_memory *to)
{
    (void)user;
    memset(to, 0xFF, sizeof *to);
}

static int slot(void *user, uint32_t number, es_link_slot *info)
{
    (void)user;
    check(number < 2, "slot");
    memset(info, (int)number, sizeof *info);
    info->version = UINT32_MAX;
    return number == 0 ? ES_IMAGE_OK : (int)below(2) * ES_IMAGE_EMPTY;
}

static int begin(void *user, uint32_t size, const uint8_t hash[32])
{
    store *s = user;
    (void)hash;
    if (size > SLOT || size == 0) {
        return ES_IMAGE_TOO_LARGE;
    }
    s->offset = s->size == size ? s->offset : 0;
    s->size = size;
    s->open = true;
    return ES_IMAGE_OK;
}

static uint32_t offset(void *user)
{
    const store *s = user;
    return s->offset;
}

static int write(void *user, const uint8_t *bytes, uint32_t size)
{
    store *s = user;
    check(s->open && size <= s->size - s->offset, "write");
    if (below(8) == 0) {
        s->open = false;
        return ES_IMAGE_FLASH;
    }
    if (size != 0) {
        memcpy(s->bytes + s->offset, bytes, size);
    }
    s->offset += size;
    return ES_IMAGE_OK;
}

static int finish(void *user)
{
    store *s = user;
    check(s->open && s->offset == s->size, "finish");
    s->open = false;
    s->size = s->offset = 0;
    return (int)below(2) * ES_IMAGE_HASH;
}

static int choose(void *user, const uint8_t *hash)
{
    uint8_t copy[32] = {0};
    (void)user;
    if (hash != NULL) {
        memcpy(copy, hash, sizeof copy);
    }
    return copy[0] % 2 == 0 ? ES_IMAGE_OK : ES_IMAGE_PENDING;
}

static int erase(void *user, int32_t number)
{
    store *s = user;
    check(number >= -1 && number < 2, "erase");
    s->open = false;
    s->size = s->offset = 0;
    return ES_IMAGE_OK;
}

typedef struct answers {
    unsigned long bytes;
    uint8_t last[LINE];
} answers;

static void send(void *user, const uint8_t *bytes, size_t size)
{
    answers *a = user;
    for (size_t i = 0; i < size; i++) {
        a->last[a->bytes++ % LINE] = bytes[i];
    }
}

static void reset(void *user)
{
    (void)user;
}

static void feed(es_link *link, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        es_link_feed(link, bytes[i]);
    }
}

/* A session of a stream plan, in an arena of exactly its size. */
static void start(es_session *session, es_plan *plan)
{
    es_info info;
    void *arena = NULL;

    check(es_plan_open(plan, plan_stream, sizeof plan_stream, NULL) == ES_OK &&
              es_plan_info(plan, &info) == ES_OK &&
              posix_memalign(&arena, ES_ALIGN, info.ram_bytes) == 0 &&
              es_session_init(session, plan, arena, info.ram_bytes) == ES_OK,
          "plan");
}

/* ---- messages ---- */

/* A map of one to six known keys, with values of every kind. */
static uint32_t make_map(uint8_t *at)
{
    static const char *const keys[] = {
        "off", "data", "len", "sha",  "hash", "confirm", "slot", "d",   "sid",
        "i",   "ack",  "end", "runs", "t",    "o",       "l",    "rst", "r"};
    uint32_t count = 1 + below(6), size = 0;
    bool definite = below(2) == 0;

    at[size++] = (uint8_t)(definite ? 0xA0 | count : 0xBF);
    for (uint32_t i = 0; i < count; i++) {
        const char *key = keys[below(sizeof keys / sizeof keys[0])];
        uint32_t length = (uint32_t)strlen(key), kind = below(8);
        at[size++] = (uint8_t)(0x60 | length);
        memcpy(at + size, key, length);
        size += length;
        if (kind < 3) {
            at[size++] = (uint8_t)below(24);
        } else if (kind == 3) {
            at[size++] = 0x1A;
            for (int b = 0; b < 4; b++) {
                at[size++] = (uint8_t)(below(4) == 0 ? below(256) : 0xFF);
            }
        } else if (kind == 4) {
            at[size++] = (uint8_t)(0xF4 | below(2));
        } else {
            length = below(3) == 0 ? 32 : below(24);
            at[size++] = 0x58;
            at[size++] = (uint8_t)length;
            memset(at + size, (int)below(256), length);
            size += length;
        }
    }
    if (!definite) {
        at[size++] = 0xFF;
    }
    return size;
}

static uint32_t make_message(uint8_t *message)
{
    static const uint8_t groups[] = {0, 1, 1, 64, 64, 64, 64, 2};
    uint32_t size = HEADER + make_map(message + HEADER), length;

    for (uint32_t n = below(3) == 0 ? 0 : below(4); n > 0; n--) {
        message[HEADER + below(size - HEADER)] = (uint8_t)below(256);
    }
    message[0] = (uint8_t)(0x08 | below(2) * 2);
    message[1] = 0;
    message[4] = 0;
    message[5] = groups[below(sizeof groups)];
    message[6] = (uint8_t)below(255);
    message[7] = (uint8_t)below(12);
    if (below(4) != 0 && message[HEADER] >> 4 == 0xA) { /* with its check */
        static const uint8_t key[3] = {0x61, 'c', 0x44};
        uint32_t crc;
        message[HEADER]++;
        memcpy(message + size, key, 3);
        size += 7;
        message[2] = (uint8_t)((size - HEADER) >> 8);
        message[3] = (uint8_t)(size - HEADER);
        crc = es_crc32(0, message, size - 4);
        for (uint32_t b = 0; b < 4; b++) {
            message[size - 4 + b] = (uint8_t)(crc >> (8 * b));
        }
    }
    length = size - HEADER;
    message[2] = (uint8_t)(length >> 8);
    message[3] = (uint8_t)length;
    return size;
}

/* Frames are made by the sender of a second link. */
static uint32_t make_frame(const uint8_t *message, uint32_t size,
                           es_framing framing, uint8_t *line)
{
    static uint8_t tx[MESSAGE + ES_LINK_CHECK];
    static answers out;
    es_link sender;

    memset(&sender, 0, sizeof sender);
    out.bytes = 0;
    sender.config.tx = tx;
    sender.config.send = send;
    sender.config.user = &out;
    memcpy(tx, message, size);
    es_frame_send(&sender, framing, size);
    memcpy(line, out.last, out.bytes);
    return (uint32_t)out.bytes;
}

static es_framing any_framing(void)
{
    return below(2) == 0 ? ES_FRAMING_COBS : ES_FRAMING_CONSOLE;
}

static uint32_t make_line(uint8_t *line)
{
    uint8_t message[MESSAGE];
    uint32_t size;

    if (below(10) == 0) {
        size = below(600);
        for (uint32_t i = 0; i < size; i++) {
            line[i] = (uint8_t)below(below(2) == 0 ? 256 : 10);
        }
        return size;
    }
    size = make_frame(message, make_message(message), any_framing(), line);
    if (below(3) == 0) {
        for (uint32_t n = 1 + below(3); n > 0; n--) {
            line[below(size)] = (uint8_t)below(256);
        }
        size -= below(4) == 0 ? below(size) : 0;
    }
    return size;
}

/* What came before may swallow one COBS frame. Of lines, which hold no zero,
 * it swallows as many as the message it began to be is long. */
static void must_answer(es_link *link, answers *out)
{
    static const uint8_t request[] = {8, 0, 0, 1, 0, 0, 77, 6, 0xA0};
    uint8_t line[LINE];
    es_framing framing = any_framing();
    uint32_t size = make_frame(request, sizeof request, framing, line);
    uint32_t most = framing == ES_FRAMING_COBS ? 2 : 2 + BUFFER / size;
    unsigned long before = out->bytes;

    for (uint32_t i = 0; i < most && out->bytes == before; i++) {
        feed(link, line, size);
    }
    check(out->bytes != before, "a request has no answer");
}

int main(int count, char **words)
{
    unsigned long lines = 200000;
    static store images;
    static answers out;
    es_link_images table = {2,      SLOT,   slot,   begin, offset, write,
                            finish, choose, choose, erase, &images};
    es_link_config config = {.rx = malloc(BUFFER + ES_LINK_CHECK),
                             .tx = malloc(BUFFER + ES_LINK_CHECK),
                             .buf_size = BUFFER,
                             .ring = malloc(RING),
                             .ring_size = RING,
                             .send = send,
                             .reset = reset,
                             .user = &out,
                             .images = &table};
    es_session session;
    es_plan plan;
    es_link link;

    start(&session, &plan);
    config.session = &session;
    config.memory = memory;
    config.ticks_per_second = UINT32_MAX;
    for (int i = 1; i + 1 < count; i += 2) {
        unsigned long value = strtoul(words[i + 1], NULL, 10);
        check(words[i][0] == '-', "-n N -s SEED");
        if (words[i][1] == 'n') {
            lines = value;
        } else {
            state = value;
        }
    }
    check(es_link_init(&link, &config) == ES_OK, "es_link_init");
    for (unsigned long i = 0; i < lines; i++) {
        uint8_t line[LINE];
        uint32_t size = make_line(line);
        feed(&link, line, size);
        if (below(4) == 0) {
            feed(&link, line, size);
        }
        must_answer(&link, &out);
    }
    printf("%lu lines, %u frames, %u wrong CRC, %u not coded right, "
           "%u too long, %u seen before, %u runs\n",
           lines, link.stats.frames, link.stats.crc, link.stats.enc,
           link.stats.too_long, link.stats.dup,
           link.stats.infer + link.times.count);
    free(config.rx);
    free(config.tx);
    free(config.ring);
    free(session.arena);
    return 0;
}
