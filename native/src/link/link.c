/* Requests to replies: the header, repeated writes, errors; and group 0. */
#include "link/link.h"
#include "link/frame.h"
#include "plan/crc32.h"

#include <string.h>

enum {
    OP_WRITE = 2,
    OP_REPLY = 1,
    VERSION = 0x18, /* bits of byte 0 */
    CHECK = 7,      /* bytes of an entry `c` */
    ECHO = 0,
    RESET = 5,
    PARAMETERS = 6
};

static const uint8_t check_key[3] = {0x61, 'c', 0x44}; /* "c": 4 bytes */

es_status es_link_init(es_link *link, const es_link_config *config)
{
    if (link == NULL || config == NULL || config->rx == NULL ||
        config->tx == NULL || config->send == NULL ||
        config->buf_size < ES_LINK_MIN_BUFFER ||
        config->buf_size > ES_LINK_MAX_BUFFER ||
        (config->ring == NULL && config->ring_size != 0)) {
        return ES_ERR_ARG;
    }
    memset(link, 0, sizeof *link);
    link->config = *config;
    return ES_OK;
}

void es_put_u32(uint8_t *at, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

void es_put_u64(uint8_t *at, uint64_t value)
{
    es_put_u32(at, (uint32_t)value);
    es_put_u32(at + 4, (uint32_t)(value >> 32));
}

void es_link_idle(es_link *link)
{
    es_frame_reset(link);
}

void es_link_overrun(es_link *link)
{
    link->stats.overrun++;
}

uint32_t es_link_micros(const es_link *link)
{
    return link->config.micros == NULL ? 0
                                       : link->config.micros(link->config.user);
}

es_link_moment es_link_now(const es_link *link)
{
    const es_session *session = link->config.session;
    es_link_moment now = {es_link_micros(link), 0};

    if (session != NULL && session->ticks != NULL) {
        now.ticks = session->ticks();
    }
    return now;
}

uint32_t es_link_timed(es_link *link, es_link_moment since)
{
    es_link_moment now = es_link_now(link);
    uint32_t passed = now.micros - since.micros, bin = 0;

    link->times.ticks += now.ticks - since.ticks;
    while (bin < ES_LINK_BINS - 1 && passed >> (bin + 1) != 0) {
        bin++;
    }
    link->times.count++;
    link->times.sum += passed;
    link->times.bins[bin]++;
    if (passed > link->times.max) {
        link->times.max = passed;
    }
    return passed;
}

/* ---- group 0 ---- */

static int echo(const es_request *request, es_cbor_out *reply)
{
    const uint8_t *text;
    uint32_t size;

    if (es_cbor_text(&request->map, "d", &text, &size) != ES_CBOR_FOUND) {
        return ES_SMP_INVALID;
    }
    es_cbor_put_map(reply, 1);
    (void)es_cbor_put_string(reply, "r");
    es_cbor_put_text(reply, text, size);
    return 0;
}

int es_link_os(es_link *link, const es_request *request, es_cbor_out *reply)
{
    if (request->command == ECHO) {
        return echo(request, reply);
    }
    if (request->command == RESET && request->write &&
        link->config.reset != NULL) {
        es_cbor_put_map(reply, 0);
        return 0;
    }
    if (request->command == PARAMETERS && !request->write) {
        es_cbor_put_map(reply, 2);
        es_cbor_put_uint(reply, "buf_size", link->config.buf_size);
        es_cbor_put_uint(reply, "buf_count", 1);
        return 0;
    }
    return ES_SMP_NOT_SUPPORTED;
}

/* ---- every group ---- */

/* Our own group ends its maps with a CRC-32 of the message so far: 16 bits
 * let one damaged frame in 65,536 through. */
static void put_check(es_link *link, es_cbor_out *reply)
{
    uint8_t *tx = link->config.tx, *value;
    uint32_t done, length;

    value = es_cbor_put_space(reply, "c", 4);
    if (value == NULL) {
        return;
    }
    done = (uint32_t)(value - tx);
    length = done + 4 - ES_SMP_HEADER;
    tx[2] = (uint8_t)(length >> 8);
    tx[3] = (uint8_t)length;
    es_put_u32(value, es_crc32(0, tx, done));
}

static bool check_is_right(const uint8_t *message, uint32_t size)
{
    uint8_t wanted[4];

    if (size < ES_SMP_HEADER + CHECK ||
        memcmp(message + size - CHECK, check_key, sizeof check_key) != 0) {
        return false;
    }
    es_put_u32(wanted, es_crc32(0, message, size - 4));
    return memcmp(message + size - 4, wanted, sizeof wanted) == 0;
}

/* {"rc": n}, or in version 2 {"err": {"group": g, "rc": n}} for a group's. */
static void put_error(es_cbor_out *reply, const es_request *request, int rc,
                      bool version_2)
{
    if (rc < ES_GROUP_RC || !version_2) {
        es_cbor_put_map(reply, 1);
        es_cbor_put_uint(reply, "rc",
                         rc < ES_GROUP_RC ? (uint32_t)rc : ES_SMP_UNKNOWN);
        return;
    }
    es_cbor_put_map(reply, 1);
    (void)es_cbor_put_string(reply, "err");
    es_cbor_put_map(reply, 2);
    es_cbor_put_uint(reply, "group", request->group);
    es_cbor_put_uint(reply, "rc", (uint32_t)(rc - ES_GROUP_RC));
}

static int dispatch(es_link *link, const es_request *request,
                    es_cbor_out *reply)
{
    switch (request->group) {
    case ES_GROUP_OS:
        return es_link_os(link, request, reply);
    case ES_GROUP_IMAGE:
        return es_link_image(link, request, reply);
    case ES_GROUP_EDGESPARSE:
        return es_link_edgesparse(link, request, reply);
    default:
        return ES_SMP_NOT_SUPPORTED;
    }
}

/* The reply to the message in rx stands in tx; returns its size. */
static uint32_t answer(es_link *link, es_request *request, uint32_t size,
                       int *rc)
{
    const uint8_t *rx = link->config.rx;
    uint8_t *tx = link->config.tx;
    es_cbor_out reply = {tx + ES_SMP_HEADER, tx + link->config.buf_size, false};
    uint32_t length;

    memcpy(tx, rx, ES_SMP_HEADER);
    tx[0] |= OP_REPLY;
    request->checked = check_is_right(rx, size);
    *rc = ES_SMP_INVALID;
    if (es_cbor_open(&request->map, rx + ES_SMP_HEADER, size - ES_SMP_HEADER)) {
        *rc = dispatch(link, request, &reply);
    }
    if (*rc == 0 && request->group == ES_GROUP_EDGESPARSE) {
        put_check(link, &reply);
    }
    if (*rc == 0 && reply.full) {
        *rc = ES_SMP_TOO_LONG;
    }
    if (*rc != 0) {
        reply.at = tx + ES_SMP_HEADER;
        reply.full = false;
        put_error(&reply, request, *rc, (tx[0] & VERSION) != 0);
    }
    length = (uint32_t)(reply.at - tx) - ES_SMP_HEADER;
    tx[2] = (uint8_t)(length >> 8);
    tx[3] = (uint8_t)length;
    return length + ES_SMP_HEADER;
}

/* A write that comes again has been done: its reply was lost. True: that is
 * so, and the reply, if it still stands in tx, is sent. If a read has taken
 * its place nobody waits for it: the copy was late. Only one is taken for
 * late, so that a write which happens to look the same is done when it is
 * repeated. */
static bool seen_before(es_link *link, es_framing framing, uint32_t crc,
                        uint32_t size)
{
    if (!link->last.known || link->last.crc != crc || link->last.size != size ||
        memcmp(link->last.header, link->config.rx, ES_SMP_HEADER) != 0) {
        return false;
    }
    link->stats.dup++;
    if (link->last.reply != 0) {
        es_frame_send(link, framing, link->last.reply);
    } else {
        link->last.known = false;
    }
    return true;
}

static void take_message(es_link *link, es_framing framing, uint32_t size)
{
    const uint8_t *rx = link->config.rx;
    es_request request = {.group = (uint32_t)(rx[4] << 8 | rx[5]),
                          .command = rx[7],
                          .write = (rx[0] & OP_WRITE) != 0};
    uint32_t crc = 0, length;
    int rc;

    if (request.write) {
        crc = es_crc32(0, rx, size);
        if (seen_before(link, framing, crc, size)) {
            return;
        }
    }
    length = answer(link, &request, size, &rc);
    link->last.reply = 0;
    if (request.write) {
        link->last.known = true;
        link->last.crc = crc;
        link->last.size = size;
        link->last.reply = length;
        memcpy(link->last.header, rx, ES_SMP_HEADER);
    }
    es_frame_send(link, framing, length);
    if (rc == 0 && request.group == ES_GROUP_OS && request.command == RESET) {
        link->config.reset(link->config.user);
    }
}

void es_link_feed(es_link *link, uint8_t byte)
{
    es_framing framing = es_frame_feed(link, byte);
    const uint8_t *rx = link->config.rx;
    uint32_t size = link->frame.have;

    if (framing == ES_FRAMING_NONE) {
        return;
    }
    link->frame.have = 0;
    /* The header's two fixed bytes and its length: also told from a reply. */
    if (size < ES_SMP_HEADER + ES_LINK_CHECK || (rx[0] & ~0x0Au) != 0 ||
        (uint32_t)(rx[2] << 8 | rx[3]) + ES_SMP_HEADER + ES_LINK_CHECK !=
            size) {
        link->stats.enc++;
        return;
    }
    size -= ES_LINK_CHECK;
    if (es_crc16(rx, size) != (rx[size] << 8 | rx[size + 1])) {
        link->stats.crc++;
        return;
    }
    link->stats.frames++;
    take_message(link, framing, size);
}
