#include "link/frame.h"
#include "link/link.h"

enum {
    FIRST_1 = 0x06, /* a line that begins a frame */
    FIRST_2 = 0x09,
    NEXT_1 = 0x04, /* a line that goes on with it */
    NEXT_2 = 0x14,
    NEWLINE = '\n',
    LINE_BYTES = 93, /* in one line: 124 characters, 127 with the rest of it */
    VERSION_2 = 8,   /* byte 0 of a message: this, and 0 or 2 (read, write) */
    OPERATION = 2,
    LENGTH = 2, /* bytes of length before the message of a line */
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

void es_link_idle(es_link *link)
{
    link->frame.state = IDLE;
    link->frame.have = 0;
}

static uint32_t limit(const es_link *link)
{
    return link->config.buf_size + ES_LINK_CHECK;
}

static void begin_frame(es_link *link)
{
    link->frame.have = 0;
    link->frame.need = limit(link);
    link->frame.skip = LENGTH;
}

static void begin_line(es_link *link)
{
    link->frame.quad = 0;
    link->frame.padding = 0;
    link->frame.state = TEXT;
}

static bool begins_line(uint8_t byte)
{
    return ES_LINK_CONSOLE && byte == FIRST_1;
}

/* Where `byte` leaves what is no frame: it may already belong to the next. */
static void hunt(es_link *link, uint8_t byte)
{
    if (byte == FIRST_2 && begins_line(link->frame.before)) {
        begin_frame(link);
        begin_line(link);
    } else {
        link->frame.state = byte == 0 ? IDLE : begins_line(byte) ? FIRST : HUNT;
    }
}

static void lose(es_link *link, uint8_t byte)
{
    link->stats.enc++;
    hunt(link, byte);
}

/* A byte of the message, `raw` on the line. SMP's first two bytes hardly vary,
 * groups are below 256, and the length says where the frame ends: what cannot
 * be a message is left at once, so noise swallows little. */
static bool put(es_link *link, uint8_t byte, uint8_t raw)
{
    uint32_t at = link->frame.have;
    uint8_t *rx = link->config.rx;

    if ((at == 0 && (byte & ~OPERATION) != VERSION_2) ||
        ((at == 1 || at == 4) && byte != 0) || at == link->frame.need) {
        lose(link, raw);
        return false;
    }
    rx[at] = byte;
    link->frame.have = at + 1;
    if (at == 3) {
        link->frame.need =
            (uint32_t)(rx[2] << 8 | byte) + ES_SMP_HEADER + ES_LINK_CHECK;
        if (link->frame.need > limit(link)) {
            link->stats.too_long++;
            hunt(link, raw);
            return false;
        }
    }
    return true;
}

static bool is_whole(const es_link *link)
{
    return link->frame.have >= ES_SMP_HEADER &&
           link->frame.have == link->frame.need;
}

/* ---- COBS ---- */

static es_framing feed_cobs(es_link *link, uint8_t byte)
{
    if (byte == 0) {
        if (link->frame.left == 0 && is_whole(link)) {
            link->frame.state = IDLE;
            return ES_FRAMING_COBS;
        }
        lose(link, byte);
    } else if (link->frame.left != 0) {
        link->frame.left--;
        (void)put(link, byte, byte);
    } else if (link->frame.code == FULL_GROUP || put(link, 0, byte)) {
        link->frame.code = byte;
        link->frame.left = (uint8_t)(byte - 1);
    }
    return ES_FRAMING_NONE;
}

/* ---- lines of base64 ---- */

static uint32_t base64_value(uint32_t c)
{
    if (c - 'A' < 26) {
        return c - 'A';
    }
    if (c - 'a' < 26) {
        return c - 'a' + 26;
    }
    if (c - '0' < 10) {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : BAD_CHARACTER;
}

static void feed_character(es_link *link, uint8_t byte)
{
    uint32_t value = base64_value(byte);

    if (byte == '=' && link->frame.quad >= 2) {
        link->frame.padding++;
    } else if (value == BAD_CHARACTER || link->frame.padding != 0) {
        lose(link, byte);
        return;
    }
    link->frame.bits = link->frame.bits << 6 | (value & 63);
    if (++link->frame.quad < 4) {
        return;
    }
    link->frame.quad = 0;
    for (uint32_t i = 3; i > link->frame.padding; i--) {
        if (link->frame.skip != 0) {
            link->frame.skip--; /* the message's header says it again */
        } else if (!put(link, (uint8_t)(link->frame.bits >> (8 * i - 8)),
                        byte)) {
            return;
        }
    }
}

static es_framing feed_text(es_link *link, uint8_t byte)
{
    if (byte == FIRST_1) {
        link->stats.restart++;
        link->frame.state = FIRST;
    } else if (byte == NEWLINE) {
        if (link->frame.quad != 0) {
            lose(link, byte);
        } else if (is_whole(link)) {
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

    if (byte == 0) {
        link->frame.state = IDLE;
    } else if (begins_line(byte)) {
        link->stats.restart += inside;
        link->frame.state = FIRST;
    } else if (byte == NEXT_1 && inside) {
        link->frame.state = NEXT;
    } else if (byte == 1 || byte == 2) {
        begin_frame(link);
        link->frame.code = byte;
        link->frame.left = (uint8_t)(byte - 1);
        link->frame.state = COBS;
    } else if (byte != NEWLINE && byte != '\r') {
        lose(link, byte);
    }
}

/* The second byte of a line's start. */
static void feed_second(es_link *link, uint8_t byte)
{
    bool first = link->frame.state == FIRST;

    if (byte != (first ? FIRST_2 : NEXT_2)) {
        lose(link, byte);
        return;
    }
    if (first) {
        begin_frame(link);
    }
    begin_line(link);
}

static es_framing feed(es_link *link, uint8_t byte)
{
    uint32_t state = link->frame.state;

    if (state == COBS) {
        return feed_cobs(link, byte);
    }
    if (ES_LINK_CONSOLE && state == TEXT) {
        return feed_text(link, byte);
    }
    if (state == HUNT) {
        hunt(link, byte);
    } else if (ES_LINK_CONSOLE && (state == FIRST || state == NEXT)) {
        feed_second(link, byte);
    } else {
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

static void send(es_link *link, const uint8_t *bytes, uint32_t size)
{
    link->stats.tx += size;
    link->config.send(link->config.user, bytes, size);
}

static void send_cobs(es_link *link, const uint8_t *bytes, uint32_t size)
{
    const uint8_t *end = bytes + size;
    uint8_t code;

    for (;;) {
        code = 1;
        while (bytes + (code - 1) < end && bytes[code - 1] != 0 &&
               code < FULL_GROUP) {
            code++;
        }
        send(link, &code, 1);
        send(link, bytes, code - 1u);
        bytes += code - 1;
        if (bytes == end) {
            break;
        }
        bytes += code != FULL_GROUP; /* the zero that the group stands for */
    }
    code = 0;
    send(link, &code, 1);
}

static uint8_t digit(uint32_t value)
{
    return (uint8_t)(value < 26   ? value + 'A'
                     : value < 52 ? value - 26 + 'a'
                     : value < 62 ? value - 52 + '0'
                     : value < 63 ? '+'
                                  : '/');
}

/* Three bytes at a time, the length first: it shares its group with the first
 * byte of the message. */
static void send_console(es_link *link, const uint8_t *bytes, uint32_t size)
{
    static const uint8_t starts[] = {FIRST_1, FIRST_2, NEWLINE, NEXT_1, NEXT_2};
    uint32_t total = size + LENGTH;

    for (uint32_t at = 0; at < total; at += 3) {
        uint32_t bits = 0;
        uint8_t text[4];
        if (at % LINE_BYTES == 0) {
            send(link, at == 0 ? starts : starts + 2, at == 0 ? 2 : 3);
        }
        for (uint32_t i = at; i < at + 3; i++) {
            bits = bits << 8 | (i < LENGTH  ? size >> (8 - 8 * i) & 0xFF
                                : i < total ? bytes[i - LENGTH]
                                            : 0u);
        }
        for (uint32_t i = 0; i < 4; i++) {
            text[i] = at + i > total ? '=' : digit(bits >> (18 - 6 * i) & 63);
        }
        send(link, text, 4);
    }
    send(link, starts + 2, 1);
}

void es_frame_send(es_link *link, es_framing framing, uint32_t size)
{
    uint8_t *tx = link->config.tx;
    uint32_t crc = es_crc16(tx, size);

    tx[size] = (uint8_t)(crc >> 8);
    tx[size + 1] = (uint8_t)crc;
    if (ES_LINK_CONSOLE && framing == ES_FRAMING_CONSOLE) {
        send_console(link, tx, size + ES_LINK_CHECK);
    } else {
        send_cobs(link, tx, size + ES_LINK_CHECK);
    }
}
