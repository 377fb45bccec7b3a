/* The link answers known requests with known bytes, in both framings, and has
 * a repeated write done once. What else it does is in tests/test_link*.py. */
#include "edgesparse/link.h"
#include "link/frame.h"

#include <stdio.h>
#include <string.h>

enum { BUFFER = 256 };

typedef struct line {
    uint8_t bytes[512];
    size_t size;
} line;

static int failed;

static void check(bool fine, const char *what)
{
    if (!fine) {
        printf("FAIL %s\n", what);
        failed = 1;
    }
}

static void send(void *user, const uint8_t *bytes, size_t size)
{
    line *out = user;
    if (size <= sizeof out->bytes - out->size) {
        memcpy(out->bytes + out->size, bytes, size);
        out->size += size;
    }
}

static void exchange(es_link *link, line *out, const char *bytes, size_t size)
{
    out->size = 0;
    for (size_t i = 0; i < size; i++) {
        es_link_feed(link, (uint8_t)bytes[i]);
    }
}

static bool is(const line *out, const char *bytes, size_t size)
{
    return out->size == size && memcmp(out->bytes, bytes, size) == 0;
}

/* Echo of "hi", sequence 7. The zero that ends a COBS frame is the string's. */
static const char cobs[] = "\002\012\001\002\006\001\002\007\011\241adbhi%d";
static const char cobs_reply[] =
    "\002\013\001\002\006\001\002\007\011\241arbhib;";
static const char console[] = "\006\011ABAKAAAGAAAHAKFhZGJoaSVk\012";
static const char console_reply[] = "\006\011ABALAAAGAAAHAKFhcmJoaWI7\012";

int main(void)
{
    static uint16_t rx[(BUFFER + ES_LINK_CHECK) / 2];
    static uint8_t tx[BUFFER + ES_LINK_CHECK];
    static line out;
    es_link_config config = {.rx = (uint8_t *)rx,
                             .tx = tx,
                             .buf_size = BUFFER,
                             .send = send,
                             .user = &out};
    es_link link;

    check(es_crc16((const uint8_t *)"123456789", 9) == 0x31C3, "CRC-16");
    config.buf_size = ES_LINK_MIN_BUFFER - 1;
    check(es_link_init(&link, &config) == ES_ERR_ARG, "a small buffer");
    config.buf_size = BUFFER;
    check(es_link_init(&link, &config) == ES_OK, "init");

    exchange(&link, &out, cobs, sizeof cobs);
    check(is(&out, cobs_reply, sizeof cobs_reply), "COBS");
    exchange(&link, &out, console, sizeof console - 1);
    check(is(&out, console_reply, sizeof console_reply - 1), "console");
    check(link.stats.dup == 1, "the same write again");

    exchange(&link, &out, cobs, 9);
    es_link_idle(&link);
    exchange(&link, &out, console, sizeof console - 1);
    check(out.size != 0, "after a line that was cut and quiet");
    es_link_overrun(&link);
    check(link.stats.overrun == 1 && link.stats.frames == 3, "counters");
    return failed;
}
