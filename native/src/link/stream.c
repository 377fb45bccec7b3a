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

static void keep_result(void *user, const es_result *result)
{
    es_link *link = user;
    uint32_t slot = link->stream.made % capacity(link);
    uint8_t *at = link->config.ring + (size_t)slot * link->stream.record;

    if (result->kind == ES_RESULT_RUN && !link->stream.runs) {
        return;
    }
    if (waiting(link) == capacity(link)) {
        link->stats.drop++; /* never seen; and if it is, the host hears of it */
        link->stream.open = false;
        return;
    }
    memset(at, 0, link->stream.record);
    es_put_u32(at, (uint32_t)result->kind);
    es_put_u32(at + 4, result->value);
    es_put_u32(at + 8, result->strength);
    es_put_u32(at + 12, result->skip);
    es_put_u64(at + 16, (uint64_t)result->sample);
    es_put_u64(at + 24, (uint64_t)result->column);
    if (result->kind == ES_RESULT_RUN) {
        keep_outputs(link, at + RECORD);
    }
    link->stream.made++;
}

/* ---- what push, poll and close have in common ---- */

static int check_stream(const es_link *link, const es_request *request)
{
    uint32_t sid;

    if (es_cbor_uint(&request->map, "sid", &sid) != ES_CBOR_FOUND ||
        !link->stream.open || sid != link->stream.id) {
        return ES_GROUP_RC + ES_LINK_BAD_SID;
    }
    return request->checked ? 0 : ES_GROUP_RC + ES_LINK_BAD_CRC;
}

static int acknowledge(es_link *link, const es_request *request)
{
    uint32_t ack, more;

    if (es_cbor_uint(&request->map, "ack", &ack) != ES_CBOR_FOUND) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    more = ack - link->stream.acked;
    if (more > waiting(link)) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    link->stream.acked = ack;
    return 0;
}

static void put_results(es_link *link, es_cbor_out *reply)
{
    uint32_t count = (link->config.buf_size - OVERHEAD) / link->stream.record;
    uint8_t *at;

    if (count > waiting(link)) {
        count = waiting(link);
    }
    es_cbor_put_map(reply, 7);
    es_cbor_put_uint(reply, "sid", link->stream.id);
    es_cbor_put_uint(reply, "i", link->stream.next);
    es_cbor_put_uint(reply, "r", link->stream.acked);
    es_cbor_put_uint(reply, "n", link->stream.made);
    es_cbor_put_bool(reply, "e", link->stream.ended);
    at = es_cbor_put_space(reply, "res", count * link->stream.record);
    for (uint32_t k = 0; at != NULL && k < count; k++) {
        uint32_t slot = (link->stream.acked + k) % capacity(link);
        memcpy(at, link->config.ring + (size_t)slot * link->stream.record,
               link->stream.record);
        at += link->stream.record;
    }
}

/* ---- the commands ---- */

static uint32_t most_samples(const es_link *link, uint32_t channels)
{
    return (link->config.buf_size - OVERHEAD) / (2 * channels);
}

static uint32_t record_size(const es_link *link, bool outputs)
{
    uint32_t size = RECORD;
    es_buffer buffer;

    for (uint32_t i = 0;
         outputs && es_output(link->config.session, i, &buffer) == ES_OK; i++) {
        size += buffer.size;
    }
    return size;
}

int es_link_open(es_link *link, const es_request *request, es_cbor_out *reply)
{
    uint32_t sid = link->stream.id + 1, record;
    bool runs = false;
    es_stream info;

    if (es_stream_info(link->config.session, &info) != ES_OK) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (es_cbor_uint(&request->map, "sid", &sid) == ES_CBOR_WRONG ||
        es_cbor_bool(&request->map, "runs", &runs) == ES_CBOR_WRONG) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    record = record_size(link, runs);
    if (link->config.ring_size / record < 2 ||
        record > link->config.buf_size - OVERHEAD ||
        most_samples(link, info.channels) == 0) {
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
    es_cbor_put_map(reply, 4);
    es_cbor_put_uint(reply, "sid", sid);
    es_cbor_put_uint(reply, "max", most_samples(link, info.channels));
    es_cbor_put_uint(reply, "rsz", record);
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
static const int16_t *align_samples(es_link *link, const uint8_t *data,
                                    uint32_t size)
{
    uint8_t *rx = link->config.rx;
    uint8_t *even = rx + ((size_t)(data - rx) & ~(size_t)1);

    memmove(even, data, size);
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

int es_link_push(es_link *link, const es_request *request, es_cbor_out *reply)
{
    const uint8_t *data;
    uint32_t index, size, skip, frames;
    bool end = false;
    es_stream info;
    int rc = check_stream(link, request);

    if (rc != 0) {
        return rc;
    }
    if (es_stream_info(link->config.session, &info) != ES_OK ||
        es_cbor_uint(&request->map, "i", &index) != ES_CBOR_FOUND ||
        es_cbor_bytes(&request->map, "d", &data, &size) != ES_CBOR_FOUND ||
        es_cbor_bool(&request->map, "end", &end) == ES_CBOR_WRONG ||
        size % (2 * info.channels) != 0) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    skip = link->stream.next - index;
    frames = size / (2 * info.channels);
    if (skip > INT32_MAX) {
        link->stats.gap++;
        return ES_GROUP_RC + ES_LINK_GAP;
    }
    rc = acknowledge(link, request);
    if (rc == 0 && skip < frames) {
        const int16_t *samples = align_samples(link, data, size);
        rc = feed_samples(link, samples + (size_t)skip * info.channels,
                          frames - skip, &info);
    }
    if (rc == 0 && end && link->stream.next - index >= frames) {
        rc = end_record(link);
    }
    if (rc == 0) {
        put_results(link, reply);
    }
    return rc;
}

int es_link_poll(es_link *link, const es_request *request, es_cbor_out *reply)
{
    int rc = check_stream(link, request);

    if (rc == 0) {
        rc = acknowledge(link, request);
    }
    if (rc == 0) {
        put_results(link, reply);
    }
    return rc;
}

int es_link_close(es_link *link, const es_request *request, es_cbor_out *reply)
{
    int rc = check_stream(link, request);

    if (rc == 0) {
        link->stream.open = false;
        es_cbor_put_map(reply, 1);
    }
    return rc;
}
