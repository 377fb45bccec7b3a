/* Group 64: what runs, how it runs, and one inference on given tensors. The
 * stream's commands are in stream.c. */
#include "link/link.h"

#include <string.h>

enum {
    INFO,
    OPEN,
    PUSH,
    POLL,
    STATS,
    SELF_TEST,
    PROFILE,
    LATENCY,
    CLOSE,
    RUN,
    MEMORY,
    STATS_OF_LINK = sizeof(es_link_stats) / sizeof(uint32_t),
    STATS_OF_STREAM = 4,
    PROTOCOL = 1,    /* version of this group */
    PLAN_HASH = 8,   /* bytes of the model's SHA-256 that are shown */
    PROFILE_ROW = 12 /* u64 ticks, u32 runs */
};

static uint32_t total_outputs(const es_session *session, uint32_t outputs)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < outputs; i++) {
        es_buffer buffer;
        if (es_output(session, i, &buffer) == ES_OK) {
            bytes += buffer.size;
        }
    }
    return bytes;
}

int es_link_info(es_link *link, const es_request *request, es_cbor_out *reply)
{
    static const uint8_t unknown[PLAN_HASH] = {0};
    const es_session *session = link->config.session;
    const char *isa = link->config.isa == NULL ? "c" : link->config.isa;
    es_info info = {.inputs = 0};
    es_stream stream = {.rate_mhz = 0};

    (void)request;
    if (session != NULL &&
        (es_plan_info(session->plan, &info) != ES_OK ||
         (es_stream_info(session, &stream) != ES_OK && stream.hop != 0))) {
        return ES_SMP_UNKNOWN;
    }
    es_cbor_put_map(reply, 14);
    es_cbor_put_bool(reply, "run", session != NULL);
    es_cbor_put_bytes(reply, "plan",
                      info.source_sha256 == NULL ? unknown : info.source_sha256,
                      PLAN_HASH);
    es_cbor_put_uints(
        reply, "v\0lay\0in\0out\0osz\0mhz\0ch\0hop\0ring\0tps\0",
        (const uint32_t[]){
            PROTOCOL, info.steps, info.inputs, info.outputs,
            session == NULL ? 0 : total_outputs(session, info.outputs),
            stream.rate_mhz, stream.channels, stream.hop,
            link->config.ring_size, link->config.ticks_per_second});
    (void)es_cbor_put_string(reply, "isa");
    (void)es_cbor_put_string(reply, isa);
    return 0;
}

int es_link_stats_read(es_link *link, const es_request *request,
                       es_cbor_out *reply)
{
    uint32_t values[STATS_OF_LINK + STATS_OF_STREAM] = {0};
    es_stream stream;

    (void)request;
    memcpy(values, &link->stats, sizeof link->stats);
    if (link->config.session != NULL &&
        es_stream_info(link->config.session, &stream) == ES_OK) {
        uint32_t *of_stream = values + STATS_OF_LINK;
        of_stream[0] = stream.overruns;
        of_stream[1] = (uint32_t)stream.runs;
        of_stream[2] = (uint32_t)stream.missing;
        of_stream[3] = stream.worst_ticks;
    }
    es_cbor_put_map(reply, STATS_OF_LINK + STATS_OF_STREAM + 1);
    es_cbor_put_uints(reply,
                      "rx\0tx\0frames\0crc\0enc\0long\0restart\0dup\0gap\0"
                      "overrun\0infer\0drop\0late\0runs\0miss\0worst\0",
                      values);
    return 0;
}

int es_link_memory_read(es_link *link, const es_request *request,
                        es_cbor_out *reply)
{
    es_link_memory memory;

    (void)request;
    if (link->config.memory == NULL) {
        return ES_SMP_NOT_SUPPORTED;
    }
    memset(&memory, 0, sizeof memory);
    link->config.memory(link->config.user, &memory);
    es_cbor_put_map(reply, 8);
    es_cbor_put_uints(
        reply, "stack\0stack_max\0arena\0arena_used\0static\0cause\0pc\0",
        (const uint32_t[]){memory.stack, memory.stack_max, memory.arena,
                           memory.arena_used, memory.fixed, memory.cause,
                           memory.pc});
    return 0;
}

/* It resets the session, so a stream ends. */
int es_link_self_test(es_link *link, const es_request *request,
                      es_cbor_out *reply)
{
    uint32_t since = es_link_micros(link);
    es_status status;

    (void)request;
    link->stream.open = false;
    status = es_self_test(link->config.session);
    if (status != ES_OK) {
        return status == ES_ERR_SELF_TEST ? ES_GROUP_RC + ES_LINK_SELF_TEST
                                          : ES_SMP_NOT_SUPPORTED;
    }
    es_cbor_put_map(reply, 3);
    es_cbor_put_bool(reply, "ok", true);
    es_cbor_put_uint(reply, "us", es_link_micros(link) - since);
    return 0;
}

int es_link_profile(es_link *link, const es_request *request,
                    es_cbor_out *reply)
{
    const es_step_counter *counters = link->config.counters;
    uint32_t first = 0, rows = link->config.buf_size / (2 * PROFILE_ROW);
    es_info info;
    uint8_t *row;

    if (counters == NULL ||
        es_plan_info(link->config.session->plan, &info) != ES_OK) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (es_cbor_uint(&request->map, "l", &first) == ES_CBOR_WRONG ||
        first > info.steps) {
        return ES_SMP_INVALID;
    }
    if (rows > info.steps - first) {
        rows = info.steps - first;
    }
    es_cbor_put_map(reply, 4);
    es_cbor_put_uint(reply, "n", info.steps);
    es_cbor_put_uint(reply, "l", first);
    row = es_cbor_put_space(reply, "cyc", rows * PROFILE_ROW);
    for (uint32_t i = 0; row != NULL && i < rows; i++) {
        es_put_u64(row, counters[first + i].ticks);
        es_put_u32(row + 8, counters[first + i].runs);
        row += PROFILE_ROW;
    }
    return 0;
}

int es_link_latency(es_link *link, const es_request *request,
                    es_cbor_out *reply)
{
    const es_link_times *times = &link->times;
    uint8_t *bins;

    (void)request;
    es_cbor_put_map(reply, 6);
    es_cbor_put_uint(reply, "n", times->count);
    es_cbor_put_uint(reply, "mean",
                     times->count == 0 ? 0
                                       : (uint32_t)(times->sum / times->count));
    es_cbor_put_uint(reply, "max", times->max);
    es_cbor_put_uint(reply, "t", times->ticks);
    bins = es_cbor_put_space(reply, "h", 4 * ES_LINK_BINS);
    for (uint32_t i = 0; bins != NULL && i < ES_LINK_BINS; i++) {
        es_put_u32(bins + (size_t)4 * i, times->bins[i]);
    }
    return 0;
}

/* ---- one inference ---- */

/* {t, off, d}: bytes of an input, from `off` on. */
static int write_input(es_link *link, const es_request *request, uint32_t input,
                       es_cbor_out *reply)
{
    const uint8_t *data;
    uint32_t offset = 0, size;
    es_buffer buffer;

    if (es_cbor_uint(&request->map, "off", &offset) == ES_CBOR_WRONG ||
        es_cbor_bytes(&request->map, "d", &data, &size) != ES_CBOR_FOUND ||
        es_input(link->config.session, input, &buffer) != ES_OK ||
        offset > buffer.size || size > buffer.size - offset) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    memcpy(buffer.data + offset, data, size);
    es_cbor_put_map(reply, 3);
    es_cbor_put_uint(reply, "off", offset + size);
    es_cbor_put_uint(reply, "n", buffer.size);
    return 0;
}

/* {o, off}: bytes of an output, as many as half a reply holds. */
static int read_output(es_link *link, const es_request *request,
                       uint32_t output, es_cbor_out *reply)
{
    uint32_t offset = 0, size = link->config.buf_size - 64;
    es_buffer buffer;

    if (es_cbor_uint(&request->map, "off", &offset) == ES_CBOR_WRONG ||
        es_output(link->config.session, output, &buffer) != ES_OK ||
        offset > buffer.size) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    if (size > buffer.size - offset) {
        size = buffer.size - offset;
    }
    es_cbor_put_map(reply, 4);
    es_cbor_put_uint(reply, "off", offset);
    es_cbor_put_uint(reply, "n", buffer.size);
    es_cbor_put_bytes(reply, "d", buffer.data + offset, size);
    return 0;
}

static int run_once(es_link *link, bool reset, es_cbor_out *reply)
{
    es_link_moment since;
    uint32_t passed = 0;

    if (reset && es_reset(link->config.session) != ES_OK) {
        return ES_SMP_UNKNOWN;
    }
    es_cbor_put_map(reply, 2);
    since = es_link_now(link);
    if (!reset) {
        if (es_run(link->config.session) != ES_OK) {
            return ES_SMP_UNKNOWN;
        }
        link->stats.infer++;
        passed = es_link_timed(link, since);
    }
    es_cbor_put_uint(reply, "us", passed);
    return 0;
}

int es_link_run(es_link *link, const es_request *request, es_cbor_out *reply)
{
    uint32_t number;
    bool reset = false;
    es_cbor_found input = es_cbor_uint(&request->map, "t", &number);
    es_cbor_found output = input == ES_CBOR_ABSENT
                               ? es_cbor_uint(&request->map, "o", &number)
                               : ES_CBOR_ABSENT;

    if (!request->checked) {
        return ES_GROUP_RC + ES_LINK_BAD_CRC;
    }
    if (link->stream.open) {
        return ES_GROUP_RC + ES_LINK_BUSY;
    }
    if (input == ES_CBOR_WRONG || output == ES_CBOR_WRONG ||
        es_cbor_bool(&request->map, "rst", &reset) == ES_CBOR_WRONG) {
        return ES_GROUP_RC + ES_LINK_BAD_FORMAT;
    }
    return input == ES_CBOR_FOUND    ? write_input(link, request, number, reply)
           : output == ES_CBOR_FOUND ? read_output(link, request, number, reply)
                                     : run_once(link, reset, reply);
}

/* ---- the group ---- */

int es_link_edgesparse(es_link *link, const es_request *request,
                       es_cbor_out *reply)
{
    static const struct {
        uint8_t command;
        bool write, needs_plan;
        es_command *run;
    } commands[] = {
        {INFO, false, false, es_link_info},
        {OPEN, true, true, es_link_open},
        {PUSH, true, true, es_link_push},
        {POLL, true, true, es_link_poll},
        {STATS, false, false, es_link_stats_read},
        {SELF_TEST, true, true, es_link_self_test},
        {PROFILE, false, true, es_link_profile},
        {LATENCY, false, false, es_link_latency},
        {CLOSE, true, true, es_link_close},
        {RUN, true, true, es_link_run},
        {MEMORY, false, false, es_link_memory_read},
    };

    for (uint32_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (commands[i].command == request->command &&
            commands[i].write == request->write) {
            if (commands[i].needs_plan && link->config.session == NULL) {
                return ES_GROUP_RC + ES_LINK_NO_PLAN;
            }
            return commands[i].run(link, request, reply);
        }
    }
    return ES_SMP_NOT_SUPPORTED;
}
