/* Group 64: samples in, results out. Results wait in a ring until the host has
 * acknowledged them, so that any reply may be lost; while the ring is half
 * full no more samples are taken, and the reply says how far they went. */
#include "link/link.h"

#include <string.h>

enum {
    RECORD = 32,  /* bytes of a result without outputs */
    OVERHEAD = 72 /* of a reply with results, at most: header, keys, check */
};

static uint32_t capacity(const es_link *link)
{
    return link->config.ring_size / link->stream.record;
}

static uint32_t waiting(const es_link *link)
{
    return link->stream.made - link->stream.acked;
}

/* The outputs that a run has just made, behind its record. */
static void keep_outputs(const es_link *link, uint8_t *at)
{
    es_buffer buffer;
    for (uint32_t i = 0; es_output(link->config.session, i, &buffer) == ES_OK;
         i++) {
        memcpy(at, buffer.data, buffer.size);
        at += buffer.size;
    }
}

/* Where result number k is kept. */
static uint8_t *slot_of(const es_link *link, uint32_t k)
{
    return link->config.ring + k % capacity(link) * link->stream.record;
}

static void keep_result(void *user, const es_result *result)
{
    es_link *link = user;
    uint8_t *at = slot_of(link, link->stream.made);

    if (result->kind == ES_RESULT_RUN && !link->stream.runs) {
        return;
    }
    if (waiting(link) == capacity(link)) {
        link->stats.drop++; /* never seen; and if it is, the host hears of it */
        link->stream.open = false;
        return;
    }
    memset(at, 0, link->stream.record);
    at = es_put_u32(at, (uint32_t)result->kind);
    at = es_put_u32(at, result->value);
    at = es_put_u32(at, result->strength);
    at = es_put_u32(at, result->skip);
    at = es_put_u64(at, (uint64_t)result->sample);
    at = es_put_u64(at, (uint64_t)result->column);
    if (result->kind == ES_RESULT_RUN) {
        keep_outputs(link, at);
    }
    link->stream.made++;
}

/* ---- what push and poll have in common ---- */

static int acknowledge(es_link *link, const es_argument *ack)
{
    if (ack->value - link->stream.acked > waiting(link)) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    link->stream.acked = ack->value;
    return 0;
}

static void put_results(const es_link *link, es_cbor_out *reply)
{
    uint32_t size = link->stream.record;
    uint32_t count = (link->config.buf_size - OVERHEAD) / size;
    uint8_t *at;

    if (count > waiting(link)) {
        count = waiting(link);
    }
    es_cbor_put(reply,
                ES_UINT("sid") ES_UINT("i") ES_UINT("r") ES_UINT("n")
                    ES_BOOL("e") ES_BYTES("res"),
                link->stream.id, link->stream.next, link->stream.acked,
                link->stream.made, (uint32_t)link->stream.ended, NULL,
                count * size);
    at = reply->at - count * size; /* OVERHEAD leaves room for the rest */
    for (uint32_t k = link->stream.acked; count > 0; count--, k++) {
        memcpy(at, slot_of(link, k), size);
        at += size;
    }
}

/* ---- the commands ---- */

static uint32_t most_samples(const es_link *link, uint32_t channels)
{
    return (link->config.buf_size - OVERHEAD) / (2 * channels);
}

int es_link_open(es_link *link, const es_argument *arguments,
                 es_cbor_out *reply)
{
    uint32_t sid =
        arguments[0].bytes != NULL ? arguments[0].value : link->stream.id + 1;
    bool runs = arguments[1].value != 0;
    uint32_t record = RECORD, most;
    es_stream info;

    if (es_stream_info(link->config.session, &info) != ES_OK) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (runs) {
        record += es_link_outputs(link->config.session);
    }
    most = most_samples(link, info.channels);
    if (link->config.ring_size / record < 2 ||
        record > link->config.buf_size - OVERHEAD || most == 0) {
        return ES_SMP_TOO_LONG;
    }
    if (es_reset(link->config.session) != ES_OK) {
        return ES_SMP_UNKNOWN;
    }
    memset(&link->stream, 0, sizeof link->stream);
    link->stream.id = sid;
    link->stream.record = record;
    link->stream.runs = runs;
    link->stream.open = true;
    es_cbor_put(reply, ES_UINT("sid") ES_UINT("max") ES_UINT("rsz"), sid, most,
                record);
    return 0;
}

/* Feeds frames until they or the room for results end: a hop brings a few. */
static int feed_samples(es_link *link, const int16_t *samples, uint32_t frames,
                        const es_stream *info)
{
    while (frames > 0 && waiting(link) <= capacity(link) / 2) {
        uint32_t count = frames < info->hop ? frames : info->hop;
        es_link_moment since = es_link_now(link);
        es_status status =
            es_push(link->config.session, samples, count, keep_result, link);
        if (status != ES_OK) {
            return status == ES_ERR_ENDED ? ES_SMP_BAD_STATE : ES_SMP_UNKNOWN;
        }
        if (!link->stream.open) {
            return ES_GROUP_RC + ES_LINK_LOST;
        }
        (void)es_link_timed(link, since);
        samples += (size_t)count * info->channels;
        frames -= count;
        link->stream.next += count;
    }
    return 0;
}

/* Samples stand anywhere in rx; es_push wants them on an even address. Nothing
 * of the request but its header is read after this. */
static const int16_t *align_samples(uint8_t *rx, const es_argument *data)
{
    uint8_t *even = rx + ((size_t)(data->bytes - rx) & ~(size_t)1);

    for (uint32_t i = 0; i < data->value; i++) {
        even[i] = data->bytes[i];
    }
    return (const int16_t *)(const void *)even;
}

/* The record ends once all its samples are in and all results are fetched: the
 * ring has room for the last ones then. */
static int end_record(es_link *link)
{
    if (link->stream.ended || waiting(link) != 0) {
        return 0;
    }
    if (es_flush(link->config.session, keep_result, link) != ES_OK) {
        return ES_SMP_UNKNOWN;
    }
    link->stream.ended = true;
    return link->stream.open ? 0 : ES_GROUP_RC + ES_LINK_LOST;
}

int es_link_push(es_link *link, const es_argument *arguments,
                 es_cbor_out *reply)
{
    const es_argument *data = &arguments[3];
    uint32_t skip = link->stream.next - arguments[2].value, frames;
    es_stream info;
    int rc;

    if (es_stream_info(link->config.session, &info) != ES_OK ||
        data->value % (2 * info.channels) != 0) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    if (skip > INT32_MAX) {
        link->stats.gap++;
        return ES_GROUP_RC + ES_LINK_GAP;
    }
    frames = data->value / (2 * info.channels);
    rc = acknowledge(link, &arguments[1]);
    if (rc == 0 && skip < frames) {
        const int16_t *samples = align_samples(link->config.rx, data);
        rc = feed_samples(link, samples + (size_t)skip * info.channels,
                          frames - skip, &info);
        skip = link->stream.next - arguments[2].value;
    }
    if (rc == 0 && arguments[4].value && skip >= frames) {
        rc = end_record(link);
    }
    put_results(link, reply);
    return rc;
}

int es_link_poll(es_link *link, const es_argument *arguments,
                 es_cbor_out *reply)
{
    int rc = acknowledge(link, &arguments[1]);

    put_results(link, reply);
    return rc;
}

int es_link_close(es_link *link, const es_argument *sid, es_cbor_out *reply)
{
    (void)sid;
    link->stream.open = false;
    es_cbor_put(reply, "");
    return 0;
}
