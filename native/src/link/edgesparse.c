/* Group 64: what runs, how it runs, and one inference on given tensors. The
 * stream's commands are in stream.c. */
#include "link/link.h"

#include <string.h>

enum {
    PROTOCOL = 1,     /* version of this group */
    PLAN_HASH = 8,    /* bytes of the model's SHA-256 that are shown */
    PROFILE_ROW = 12, /* u64 ticks, u32 runs */
    ISA = 23          /* characters, at most */
};

uint32_t es_link_outputs(const es_session *session)
{
    uint32_t bytes = 0;
    es_buffer buffer;

    for (uint32_t i = 0; es_output(session, i, &buffer) == ES_OK; i++) {
        bytes += buffer.size;
    }
    return bytes;
}

int es_link_info(es_link *link, const es_argument *none, es_cbor_out *reply)
{
    static const uint8_t unknown[PLAN_HASH] = {0};
    const es_session *session = link->config.session;
    const char *isa = link->config.isa == NULL ? "c" : link->config.isa;
    es_info info = {.inputs = 0};
    es_stream stream = {.rate_mhz = 0};
    uint32_t outputs = 0, size = 0;

    (void)none;
    if (session != NULL) {
        if (es_plan_info(session->plan, &info) != ES_OK ||
            (es_stream_info(session, &stream) != ES_OK && stream.hop != 0)) {
            return ES_SMP_UNKNOWN;
        }
        outputs = es_link_outputs(session);
    }
    while (size <= ISA && isa[size] != 0) {
        size++;
    }
    es_cbor_put(reply,
                ES_BOOL("run") ES_BYTES("plan") ES_UINT("v") ES_UINT("lay")
                    ES_UINT("in") ES_UINT("out") ES_UINT("osz") ES_UINT("mhz")
                        ES_UINT("ch") ES_UINT("hop") ES_UINT("ring")
                            ES_UINT("tps") ES_TEXT("isa"),
                (uint32_t)(session != NULL),
                info.source_sha256 == NULL ? unknown : info.source_sha256,
                (uint32_t)PLAN_HASH, (uint32_t)PROTOCOL, info.steps,
                info.inputs, info.outputs, outputs, stream.rate_mhz,
                stream.channels, stream.hop, link->config.ring_size,
                link->config.ticks_per_second, isa, size);
    return size > ISA ? ES_SMP_TOO_LONG : 0;
}

int es_link_stats_read(es_link *link, const es_argument *none,
                       es_cbor_out *reply)
{
    const es_link_stats *s = &link->stats;
    es_stream stream;

    (void)none;
    if (link->config.session == NULL ||
        es_stream_info(link->config.session, &stream) != ES_OK) {
        memset(&stream, 0, sizeof stream);
    }
    es_cbor_put(
        reply,
        ES_UINT("rx") ES_UINT("tx") ES_UINT("frames") ES_UINT("crc")
            ES_UINT("enc") ES_UINT("long") ES_UINT("restart") ES_UINT("dup")
                ES_UINT("gap") ES_UINT("overrun") ES_UINT("infer")
                    ES_UINT("drop") ES_UINT("late") ES_UINT("runs")
                        ES_UINT("miss") ES_UINT("worst"),
        s->rx, s->tx, s->frames, s->crc, s->enc, s->too_long, s->restart,
        s->dup, s->gap, s->overrun, s->infer, s->drop, stream.overruns,
        (uint32_t)stream.runs, (uint32_t)stream.missing, stream.worst_ticks);
    return 0;
}

int es_link_memory_read(es_link *link, const es_argument *none,
                        es_cbor_out *reply)
{
    es_link_memory m;

    (void)none;
    if (link->config.memory == NULL) {
        return ES_SMP_NOT_SUPPORTED;
    }
    memset(&m, 0, sizeof m);
    link->config.memory(link->config.user, &m);
    es_cbor_put(reply,
                ES_UINT("stack") ES_UINT("stack_max") ES_UINT("arena")
                    ES_UINT("arena_used") ES_UINT("static") ES_UINT("cause")
                        ES_UINT("pc"),
                m.stack, m.stack_max, m.arena, m.arena_used, m.fixed, m.cause,
                m.pc);
    return 0;
}

/* It resets the session, so a stream ends. */
int es_link_self_test(es_link *link, const es_argument *none,
                      es_cbor_out *reply)
{
    uint32_t since = es_link_micros(link);
    es_status status;

    (void)none;
    link->stream.open = false;
    status = es_self_test(link->config.session);
    if (status != ES_OK) {
        return status == ES_ERR_SELF_TEST ? ES_GROUP_RC + ES_LINK_SELF_TEST
                                          : ES_SMP_NOT_SUPPORTED;
    }
    es_cbor_put(reply, ES_BOOL("ok") ES_UINT("us"), (uint32_t)1,
                es_link_micros(link) - since);
    return 0;
}

int es_link_profile(es_link *link, const es_argument *first, es_cbor_out *reply)
{
    const es_step_counter *counters = link->config.counters;
    uint32_t rows = link->config.buf_size / (2 * PROFILE_ROW);
    es_info info;
    uint8_t *row;

    if (counters == NULL ||
        es_plan_info(link->config.session->plan, &info) != ES_OK) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (first->value > info.steps) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    if (rows > info.steps - first->value) {
        rows = info.steps - first->value;
    }
    /* Half a buffer of rows always fits. */
    es_cbor_put(reply, ES_UINT("n") ES_UINT("l") ES_BYTES("cyc"), info.steps,
                first->value, NULL, rows * PROFILE_ROW);
    row = reply->at - rows * PROFILE_ROW;
    counters += first->value;
    for (; rows > 0; rows--, counters++) {
        row = es_put_u32(es_put_u64(row, counters->ticks), counters->runs);
    }
    return 0;
}

int es_link_latency(es_link *link, const es_argument *none, es_cbor_out *reply)
{
    const es_link_times *times = &link->times;
    uint8_t *at;

    (void)none;
    es_cbor_put(reply,
                ES_UINT("n") ES_UINT("mean") ES_UINT("max") ES_UINT("t")
                    ES_BYTES("h"),
                times->count,
                times->count == 0 ? 0 : (uint32_t)(times->sum / times->count),
                times->max, times->ticks, NULL, (uint32_t)(4 * ES_LINK_BINS));
    at = reply->at - (size_t)4 * ES_LINK_BINS; /* it fits the least buffer */
    for (uint32_t i = 0; i < ES_LINK_BINS; i++) {
        at = es_put_u32(at, times->bins[i]);
    }
    return 0;
}

/* ---- one inference ---- */

/* {t, off, d}: bytes of an input, from `off` on. */
static int write_input(const es_buffer *buffer, uint32_t offset,
                       const es_argument *data, es_cbor_out *reply)
{
    if (data->bytes == NULL || data->value > buffer->size - offset) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    memcpy(buffer->data + offset, data->bytes, data->value);
    es_cbor_put(reply, ES_UINT("off") ES_UINT("n"), offset + data->value,
                buffer->size);
    return 0;
}

/* {o, off}: bytes of an output, as many as a reply holds. */
static int read_output(const es_buffer *buffer, uint32_t offset, uint32_t most,
                       es_cbor_out *reply)
{
    uint32_t size = buffer->size - offset;

    es_cbor_put(reply, ES_UINT("off") ES_UINT("n") ES_BYTES("d"), offset,
                buffer->size, buffer->data + offset, size < most ? size : most);
    return 0;
}

static int run_once(es_link *link, bool reset, es_cbor_out *reply)
{
    es_session *session = link->config.session;
    es_link_moment since = es_link_now(link);
    uint32_t passed = 0;

    if ((reset ? es_reset : es_run)(session) != ES_OK) {
        return ES_SMP_UNKNOWN;
    }
    if (!reset) {
        link->stats.infer++;
        passed = es_link_timed(link, since);
    }
    es_cbor_put(reply, ES_UINT("us"), passed);
    return 0;
}

int es_link_run(es_link *link, const es_argument *arguments, es_cbor_out *reply)
{
    const es_argument *input = &arguments[0], *output = &arguments[3];
    const es_session *session = link->config.session;
    uint32_t offset = arguments[1].value;
    es_buffer buffer;

    if (ES_LINK_STREAMS && link->stream.open) {
        return ES_GROUP_RC + ES_LINK_BUSY;
    }
    if (input->bytes == NULL && output->bytes == NULL) {
        return run_once(link, arguments[4].value != 0, reply);
    }
    if ((input->bytes != NULL
             ? es_input(session, input->value, &buffer)
             : es_output(session, output->value, &buffer)) != ES_OK ||
        offset > buffer.size) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    return input->bytes != NULL
               ? write_input(&buffer, offset, &arguments[2], reply)
               : read_output(&buffer, offset, link->config.buf_size - 64,
                             reply);
}
