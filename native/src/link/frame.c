#include "link/frame.h"

enum {
    FIRST_1 = 0x06, /* a line that begins a frame */
    FIRST_2 = 0x09,
    NEXT_1 = 0x04, /* a line that goes on with it */
    NEXT_2 = 0x14,
    NEWLINE = '\n',
    LINE_BYTES = 93, /* in one line: 124 characters, 127 with the rest of it */
    HEADER = 8,
    FULL_GROUP = 0xFF,
    BAD_CHARACTER = 64
};

enum {
    IDLE, /* between frames */
    COBS,
    FIRST,   /* after FIRST_1 */
    NEXT,    /* after NEXT_1 */
    TEXT,    /* in a line */
    BETWEEN, /* two lines of a frame */
    HUNT     /* for the end of something broken, or the begin of a line */
};

uint16_t es_crc16(const uint8_t *bytes, uint32_t size)
{
    uint32_t crc = 0;
    for (uint32_t i = 0; i < size; i++) {
        /* One byte at once, without a table: x is what its eight steps would
         * leave in the register, folded by the polynomial's sparse ones. */
        uint32_t x = (crc >> 8 ^ bytes[i]) & 0xFF;
        x ^= x >> 4;
        crc = (crc << 8 ^ x << 12 ^ x << 5 ^ x) & 0xFFFF;
    }
    return (uint16_t)crc;
}

void es_frame_reset(es_link *link)
{
    link->frame.state = IDLE;
    link->frame.have = 0;
}

static uint32_t limit(const es_link *link)
{
    return link->config.buf_size + ES_LINK_CHECK;
}

static void begin_line(es_link *link, bool first)
{
    if (first) {
        link->frame.have = 0;
        link->frame.need = 0;
        link->frame.prefix = 0;
    }
    link->frame.quad = 0;
    link->frame.padding = 0;
    link->frame.bits = 0;
    link->frame.state = TEXT;
}

/* What has been read is no frame; `byte` may already belong to the next. */
static void lose(es_link *link, uint32_t *counter, uint8_t byte)
{
    ++*counter;
    if (byte == FIRST_2 && link->frame.before == FIRST_1) {
        begin_line(link, true);
    } else {
        link->frame.state = byte == 0 ? IDLE : byte == FIRST_1 ? FIRST : HUNT;
    }
}

/* ---- COBS ---- */

/* SMP's first two bytes hardly vary, groups are below 256, and the length says
 * where the frame ends: what cannot be a message is left at once, so noise
 * swallows little. */
static bool put_cobs(es_link *link, uint8_t byte, uint8_t raw)
{
    uint32_t at = link->frame.have;

    if ((at == 0 && (byte & ~0x0Au) != 0) ||
        ((at == 1 || at == 4) && byte != 0) || at == link->frame.need) {
        lose(link, &link->stats.enc, raw);
        return false;
    }
    link->config.rx[at] = byte;
    link->frame.have = at + 1;
    if (at == 3) {
        uint32_t need = (uint32_t)(link->config.rx[2] << 8 | byte);
        need += HEADER + ES_LINK_CHECK;
        if (need > limit(link)) {
            lose(link, &link->stats.too_long, raw);
            return false;
        }
        link->frame.need = need;
    }
    return true;
}

static es_framing feed_cobs(es_link *link, uint8_t byte)
{
    if (byte == 0) {
        if (link->frame.left != 0 || link->frame.have < 4 ||
            link->frame.have != link->frame.need) {
            lose(link, &link->stats.enc, byte);
            return ES_FRAMING_NONE;
        }
        link->frame.state = IDLE;
        return ES_FRAMING_COBS;
    }
    if (link->frame.left != 0) {
        link->frame.left--;
        (void)put_cobs(link, byte, byte);
        return ES_FRAMING_NONE;
    }
    if (link->frame.code == FULL_GROUP || put_cobs(link, 0, byte)) {
        link->frame.code = byte;
        link->frame.left = (uint8_t)(byte - 1);
    }
    return ES_FRAMING_NONE;
}

/* ---- lines of base64 ---- */

static uint32_t base64_value(uint8_t c)
{
    return c >= 'A' && c <= 'Z'   ? (uint32_t)(c - 'A')
           : c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') + 26
           : c >= '0' && c <= '9' ? (uint32_t)(c - '0') + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : BAD_CHARACTER;
}

/* The frame's first two bytes are its length, and are not kept. */
static bool put_line(es_link *link, uint8_t byte, uint8_t raw)
{
    if (link->frame.prefix < 2) {
        link->frame.need = link->frame.need << 8 | byte;
        link->frame.prefix++;
        if (link->frame.prefix == 2 && link->frame.need > limit(link)) {
            lose(link, &link->stats.too_long, raw);
            return false;
        }
        return true;
    }
    if (link->frame.have == link->frame.need) {
        lose(link, &link->stats.enc, raw);
        return false;
    }
    link->config.rx[link->frame.have++] = byte;
    return true;
}

static void feed_character(es_link *link, uint8_t byte)
{
    uint32_t value = base64_value(byte);

    if (byte == '=' && link->frame.quad >= 2) {
        link->frame.padding++;
        value = 0;
    } else if (value == BAD_CHARACTER || link->frame.padding != 0) {
        lose(link, &link->stats.enc, byte);
        return;
    }
    link->frame.bits = link->frame.bits << 6 | value;
    if (++link->frame.quad == 4) {
        uint32_t count = 3u - link->frame.padding;
        for (uint32_t i = 0; i < count; i++) {
            if (!put_line(link, (uint8_t)(link->frame.bits >> (16 - 8 * i)),
                          byte)) {
                return;
            }
        }
        link->frame.quad = 0;
    }
}

static es_framing feed_text(es_link *link, uint8_t byte)
{
    if (byte == FIRST_1) {
        link->stats.restart++;
        link->frame.state = FIRST;
    } else if (byte == NEWLINE) {
        if (link->frame.quad != 0 || link->frame.prefix < 2) {
            lose(link, &link->stats.enc, byte);
        } else if (link->frame.have == link->frame.need) {
            link->frame.state = IDLE;
            return ES_FRAMING_CONSOLE;
        } else {
            link->frame.state = BETWEEN;
        }
    } else if (byte != '\r') {
        feed_character(link, byte);
    }
    return ES_FRAMING_NONE;
}

/* ---- both ---- */

static void feed_start(es_link *link, uint8_t byte)
{
    bool inside = link->frame.state == BETWEEN;

    if (byte == 0 || byte == NEWLINE || byte == '\r') {
        if (byte == 0) {
            link->frame.state = IDLE;
        }
    } else if (byte == FIRST_1) {
        link->stats.restart += inside;
        link->frame.state = FIRST;
    } else if (byte == NEXT_1 && inside) {
        link->frame.state = NEXT;
    } else if (byte == 1 || byte == 2) {
        link->frame.have = 0;
        link->frame.need = limit(link);
        link->frame.code = byte;
        link->frame.left = (uint8_t)(byte - 1);
        link->frame.state = COBS;
    } else {
        lose(link, &link->stats.enc, byte);
    }
}

static es_framing feed(es_link *link, uint8_t byte)
{
    switch (link->frame.state) {
    case COBS:
        return feed_cobs(link, byte);
    case TEXT:
        return feed_text(link, byte);
    case FIRST:
    case NEXT:
        if (byte == (link->frame.state == FIRST ? FIRST_2 : NEXT_2)) {
            begin_line(link, link->frame.state == FIRST);
        } else {
            lose(link, &link->stats.enc, byte);
        }
        break;
    case HUNT:
        link->frame.state = byte == 0 ? IDLE : byte == FIRST_1 ? FIRST : HUNT;
        break;
    default:
        feed_start(link, byte);
    }
    return ES_FRAMING_NONE;
}

es_framing es_frame_feed(es_link *link, uint8_t byte)
{
    es_framing framing;

    link->stats.rx++;
    framing = feed(link, byte);
    link->frame.before = byte;
    return framing;
}

/* ---- sending ---- */

static void send(es_link *link, const uint8_t *bytes, size_t size)
{
    link->stats.tx += (uint32_t)size;
    link->config.send(link->config.user, bytes, size);
}

static void send_cobs(es_link *link, const uint8_t *bytes, uint32_t size)
{
    static const uint8_t end = 0;
    uint32_t at = 0;

    for (;;) {
        uint32_t run = 0;
        uint8_t code;
        while (at + run < size && bytes[at + run] != 0 &&
               run < FULL_GROUP - 1) {
            run++;
        }
        code = (uint8_t)(run + 1);
        send(link, &code, 1);
        send(link, bytes + at, run);
        at += run;
        if (at == size) {
            break;
        }
        at += code != FULL_GROUP; /* the zero that the group stands for */
    }
    send(link, &end, 1);
}

static void send_three(es_link *link, const uint8_t *bytes, uint32_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = (uint32_t)bytes[0] << 16 |
                    (count > 1 ? (uint32_t)bytes[1] << 8 : 0) |
                    (count > 2 ? bytes[2] : 0);
    uint8_t text[4];

    for (uint32_t i = 0; i < 4; i++) {
        text[i] =
            (uint8_t)(i > count ? '=' : digits[bits >> (18 - 6 * i) & 63]);
    }
    send(link, text, 4);
}

/* Three bytes at a time, the length first: it shares its group with the first
 * byte of the message. */
static void send_console(es_link *link, const uint8_t *bytes, uint32_t size)
{
    static const uint8_t first[2] = {FIRST_1, FIRST_2},
                         next[2] = {NEXT_1, NEXT_2};
    static const uint8_t newline = NEWLINE;
    uint8_t head[3] = {(uint8_t)(size >> 8), (uint8_t)size, bytes[0]};
    uint32_t at = 1, line = 3;

    send(link, first, 2);
    send_three(link, head, 3);
    while (at < size) {
        uint32_t count = size - at < 3 ? size - at : 3;
        if (line == LINE_BYTES) {
            send(link, &newline, 1);
            send(link, next, 2);
            line = 0;
        }
        send_three(link, bytes + at, count);
        at += count;
        line += 3;
    }
    send(link, &newline, 1);
}

void es_frame_send(es_link *link, es_framing framing, uint32_t size)
{
    uint8_t *tx = link->config.tx;
    uint16_t crc = es_crc16(tx, size);

    tx[size] = (uint8_t)(crc >> 8);
    tx[size + 1] = (uint8_t)crc;
    if (framing == ES_FRAMING_COBS) {
        send_cobs(link, tx, size + ES_LINK_CHECK);
    } else {
        send_console(link, tx, size + ES_LINK_CHECK);
    }
}
