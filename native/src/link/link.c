/* Requests to replies: the header, repeated writes, errors; and group 0. */
#include "link/link.h"
#include "link/frame.h"
#include "plan/crc32.h"

#include <string.h>

enum {
    OP_WRITE = 2,
    OP_REPLY = 1,
    CHECK = 7, /* bytes of an entry `c` */
    RESET = 5
};

#define WITH_ITS_OWN 0x2144DF1Cu

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

uint8_t *es_put_u32(uint8_t *at, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++) {
        *at++ = (uint8_t)value;
        value >>= 8;
    }
    return at;
}

uint8_t *es_put_u64(uint8_t *at, uint64_t value)
{
    return es_put_u32(es_put_u32(at, (uint32_t)value), (uint32_t)(value >> 32));
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
    es_link_times *times = &link->times;
    es_link_moment now = es_link_now(link);
    uint32_t passed = now.micros - since.micros, bin = 0;

    times->ticks += now.ticks - since.ticks;
    for (uint32_t rest = passed; rest > 1 && bin < ES_LINK_BINS - 1;
         rest >>= 1) {
        bin++;
    }
    times->bins[bin]++;
    times->count++;
    times->sum += passed;
    if (passed > times->max) {
        times->max = passed;
    }
    return passed;
}

/* ---- group 0 ---- */

static int echo(es_link *link, const es_argument *text, es_cbor_out *reply)
{
    (void)link;
    es_cbor_put(reply, ES_TEXT("r"), text->bytes, text->value);
    return 0;
}

/* It happens once the reply is sent. */
static int reset(es_link *link, const es_argument *none, es_cbor_out *reply)
{
    (void)none;
    if (link->config.reset == NULL) {
        return ES_SMP_NOT_SUPPORTED;
    }
    es_cbor_put(reply, "");
    return 0;
}

static int parameters(es_link *link, const es_argument *none,
                      es_cbor_out *reply)
{
    (void)none;
    link->last.header[0] = 0; /* a client begins, perhaps with the same bytes */
    es_cbor_put(reply, ES_UINT("buf_size") ES_UINT("buf_count"),
                link->config.buf_size, (uint32_t)1);
    return 0;
}

/* ---- the commands ---- */

/* What has to be before a command is done. */
enum {
    EITHER = 1,                   /* it is read or written, all the same */
    WRITE = 2,                    /* it is written */
    PLAN = 4,                     /* a plan runs */
    CHECKED = 8,                  /* the request has a right CRC-32, `c` */
    STREAM = 16 * ES_LINK_STREAMS /* argument 0 is the id of the open stream */
};

typedef struct command {
    uint8_t group, number, needs;
    const char *arguments;
    es_command *run;
} command;

static const command commands[] = {
    {ES_GROUP_OS, 0, EITHER, ES_NEEDS_TEXT("d"), echo},
    {ES_GROUP_OS, RESET, WRITE, "", reset},
    {ES_GROUP_OS, 6, 0, "", parameters},
    {ES_GROUP_IMAGE, 0, 0, "", es_link_state},
    {ES_GROUP_IMAGE, 0, WRITE, ES_BYTES("hash") ES_BOOL("confirm"),
     es_link_set_state},
    {ES_GROUP_IMAGE, 1, WRITE,
     ES_UINT("off") ES_NEEDS_BYTES("data") ES_UINT("len") ES_BYTES("sha"),
     es_link_upload},
    {ES_GROUP_IMAGE, 5, WRITE, ES_UINT("slot"), es_link_erase},
    {ES_GROUP_IMAGE, 6, 0, "", es_link_slots},
    {ES_GROUP_EDGESPARSE, 0, 0, "", es_link_info},
    {ES_GROUP_EDGESPARSE, 4, 0, "", es_link_stats_read},
    {ES_GROUP_EDGESPARSE, 5, WRITE | PLAN, "", es_link_self_test},
    {ES_GROUP_EDGESPARSE, 6, PLAN, ES_UINT("l"), es_link_profile},
    {ES_GROUP_EDGESPARSE, 7, 0, "", es_link_latency},
    {ES_GROUP_EDGESPARSE, 9, WRITE | PLAN | CHECKED,
     ES_UINT("t") ES_UINT("off") ES_BYTES("d") ES_UINT("o") ES_BOOL("rst"),
     es_link_run},
    {ES_GROUP_EDGESPARSE, 10, 0, "", es_link_memory_read},
#ifndef ES_LINK_WITHOUT_STREAMS
    {ES_GROUP_EDGESPARSE, 1, WRITE | PLAN, ES_UINT("sid") ES_BOOL("runs"),
     es_link_open},
    {ES_GROUP_EDGESPARSE, 2, WRITE | PLAN | STREAM | CHECKED,
     ES_NEEDS_UINT("sid") ES_NEEDS_UINT("ack") ES_NEEDS_UINT("i")
         ES_NEEDS_BYTES("d") ES_BOOL("end"),
     es_link_push},
    {ES_GROUP_EDGESPARSE, 3, WRITE | PLAN | STREAM | CHECKED,
     ES_NEEDS_UINT("sid") ES_NEEDS_UINT("ack"), es_link_poll},
    {ES_GROUP_EDGESPARSE, 8, WRITE | PLAN | STREAM | CHECKED,
     ES_NEEDS_UINT("sid"), es_link_close},
#endif
};

static const command *find_command(const uint8_t *header)
{
    for (uint32_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const command *c = &commands[i];
        if (c->group == header[5] && c->number == header[7] &&
            (c->needs & EITHER ||
             (c->needs & WRITE) == (header[0] & OP_WRITE))) {
            return c;
        }
    }
    return NULL;
}

/* The CRC-32 of bytes that end with their own CRC-32 is always the same. */
static bool check_is_right(const uint8_t *message, uint32_t size, uint32_t crc)
{
    return crc == WITH_ITS_OWN && size >= ES_SMP_HEADER + CHECK &&
           memcmp(message + size - CHECK, check_key, sizeof check_key) == 0;
}

static int run_command(es_link *link, uint32_t size, uint32_t crc,
                       es_cbor_out *reply)
{
    const uint8_t *rx = link->config.rx;
    const command *c = find_command(rx);
    es_argument arguments[ES_LINK_ARGUMENTS] = {{NULL, 0}};

    if (c == NULL ||
        (c->group == ES_GROUP_IMAGE && link->config.images == NULL)) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (c->needs & PLAN && link->config.session == NULL) {
        return ES_GROUP_RC + ES_LINK_NO_PLAN;
    }
    if (c->needs & CHECKED && !check_is_right(rx, size, crc)) {
        return ES_GROUP_RC + ES_LINK_BAD_CRC;
    }
    if (!es_cbor_read(rx + ES_SMP_HEADER, size - ES_SMP_HEADER, c->arguments,
                      arguments)) {
        return c->group == ES_GROUP_EDGESPARSE
                   ? ES_GROUP_RC + ES_LINK_BAD_FORMAT
                   : ES_SMP_INVALID;
    }
    if (c->needs & STREAM &&
        (!link->stream.open || arguments[0].value != link->stream.id)) {
        return ES_GROUP_RC + ES_LINK_BAD_SID;
    }
    return c->run(link, arguments, reply);
}

/* ---- replies ---- */

static uint32_t put_length(uint8_t *tx, const uint8_t *end)
{
    uint32_t length = (uint32_t)(end - tx) - ES_SMP_HEADER;
    tx[2] = (uint8_t)(length >> 8);
    tx[3] = (uint8_t)length;
    return length + ES_SMP_HEADER;
}

/* Our own group ends its maps with a CRC-32 of the message so far: 16 bits
 * let one damaged frame in 65,536 through. */
static void put_check(uint8_t *tx, es_cbor_out *reply)
{
    uint8_t *at = es_cbor_space(reply, CHECK);

    if (at != NULL) {
        tx[ES_SMP_HEADER]++; /* entries of the map */
        memcpy(at, check_key, sizeof check_key);
        (void)put_length(tx, reply->at);
        (void)es_put_u32(at + 3, es_crc32(0, tx, (uint32_t)(at + 3 - tx)));
    }
}

/* {"rc": n}, or {"err": {"group": g, "rc": n}} for a group's. */
static void put_error(uint8_t *tx, es_cbor_out *reply, uint32_t rc)
{
    reply->at = tx + ES_SMP_HEADER;
    reply->full = false;
    if (rc < ES_GROUP_RC) {
        es_cbor_put(reply, ES_UINT("rc"), rc);
    } else {
        es_cbor_put(reply, ES_MAP("err"));
        es_cbor_put(reply, ES_UINT("group") ES_UINT("rc"), (uint32_t)tx[5],
                    rc - ES_GROUP_RC);
    }
}

/* The reply to the message in rx stands in tx; returns its size. */
static uint32_t answer(es_link *link, uint32_t size, uint32_t crc, int *rc)
{
    uint8_t *tx = link->config.tx;
    es_cbor_out reply = {tx + ES_SMP_HEADER, tx + link->config.buf_size, false};

    memcpy(tx, link->config.rx, ES_SMP_HEADER);
    tx[0] |= OP_REPLY;
    *rc = run_command(link, size, crc, &reply);
    if (*rc == 0 && tx[5] == ES_GROUP_EDGESPARSE) {
        put_check(tx, &reply);
    }
    if (*rc == 0 && reply.full) {
        *rc = ES_SMP_TOO_LONG;
    }
    if (*rc != 0) {
        put_error(tx, &reply, (uint32_t)*rc);
    }
    return put_length(tx, reply.at);
}

/* A write that comes again has been done: its reply was lost. True: that is
 * so, and the reply, if it still stands in tx, is sent. If a read has taken
 * its place nobody waits for it: the copy was late. Only one is taken for
 * late, so that a write which happens to look the same is done when it is
 * repeated. */
static bool seen_before(es_link *link, es_framing framing, uint32_t crc)
{
    if (link->last.crc != crc ||
        memcmp(link->last.header, link->config.rx, ES_SMP_HEADER) != 0) {
        return false;
    }
    link->stats.dup++;
    if (link->last.reply != 0) {
        es_frame_send(link, framing, link->last.reply);
    } else {
        link->last.header[0] = 0; /* as no request begins */
    }
    return true;
}

static void take_message(es_link *link, es_framing framing, uint32_t size)
{
    const uint8_t *rx = link->config.rx;
    bool write = (rx[0] & OP_WRITE) != 0;
    uint32_t crc = write ? es_crc32(0, rx, size) : 0, length;
    int rc;

    if (write && seen_before(link, framing, crc)) {
        return;
    }
    length = answer(link, size, crc, &rc);
    link->last.reply = 0;
    if (write) {
        link->last.crc = crc;
        link->last.reply = length;
        memcpy(link->last.header, rx, ES_SMP_HEADER);
    }
    es_frame_send(link, framing, length);
    if (rc == 0 && rx[5] == ES_GROUP_OS && rx[7] == RESET) {
        link->config.reset(link->config.user);
    }
}

void es_link_feed(es_link *link, uint8_t byte)
{
    es_framing framing = es_frame_feed(link, byte);
    const uint8_t *rx = link->config.rx;
    uint32_t size = link->frame.have - ES_LINK_CHECK;

    if (framing == ES_FRAMING_NONE) {
        return;
    }
    link->frame.have = 0;
    if (es_crc16(rx, size) != (rx[size] << 8 | rx[size + 1])) {
        link->stats.crc++;
        return;
    }
    link->stats.frames++;
    take_message(link, framing, size);
}
