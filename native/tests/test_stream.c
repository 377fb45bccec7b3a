/* Streams: what the plain reference says, however samples are cut; flush and
 * reset; a budget; arguments. The plan and the signal: plan_stream.h. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "edgesparse/edgesparse.h"
#include "plan_everything.h"
#include "plan_stream.h"

enum {
    ROOM = 4096,
    GUARD = 64,
    SAMPLES = sizeof stream_signal / sizeof stream_signal[0]
};

static uint8_t memory[ROOM] __attribute__((aligned(16)));
static es_plan plan;
static es_info info;
static es_session session;

/* What has been reported: counts, and FNV-1a of all results and outputs. */
typedef struct es_seen_results {
    uint32_t runs, beats, changes, hash;
    int64_t late; /* largest time from a beat to its report */
} es_seen_results;

static const es_seen_results nothing = {0, 0, 0, 0x811C9DC5u, 0};

static void add(es_seen_results *seen, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < size; i++) {
        seen->hash = (seen->hash ^ byte[i]) * 0x01000193u;
    }
}

static void see(void *user, const es_result *result)
{
    es_seen_results *seen = user;
    uint32_t kind = (uint32_t)result->kind;
    es_stream stream;
    es_buffer buffer;

    add(seen, &kind, sizeof kind);
    add(seen, &result->value, sizeof result->value);
    add(seen, &result->strength, sizeof result->strength);
    add(seen, &result->skip, sizeof result->skip);
    add(seen, &result->sample, sizeof result->sample);
    add(seen, &result->column, sizeof result->column);
    switch (result->kind) {
    case ES_RESULT_RUN:
        seen->runs++;
        for (uint32_t i = 0; i < info.outputs; i++) {
            CHECK(es_output(&session, i, &buffer) == ES_OK);
            add(seen, buffer.data, buffer.size);
        }
        break;
    case ES_RESULT_BEAT:
        seen->beats++;
        CHECK(es_stream_info(&session, &stream) == ES_OK);
        if ((int64_t)stream.samples - result->sample > seen->late) {
            seen->late = (int64_t)stream.samples - result->sample;
        }
        break;
    default:
        seen->changes++;
        CHECK(es_stream_info(&session, &stream) == ES_OK);
        CHECK((uint32_t)stream.signal == result->value);
        CHECK((int64_t)stream.samples == result->sample);
    }
}

static void start(void)
{
    memset(memory, 0xa5, sizeof memory);
    CHECK(es_session_init(&session, &plan, memory + GUARD, info.ram_bytes) ==
          ES_OK);
}

/* The whole signal, `first` samples, then `step` at a time. */
static void push_all(es_seen_results *seen, uint32_t first, uint32_t step)
{
    CHECK(es_push(&session, stream_signal, first, see, seen) == ES_OK);
    for (uint32_t at = first; at < SAMPLES; at += step) {
        uint32_t count = step < SAMPLES - at ? step : SAMPLES - at;
        CHECK(es_push(&session, stream_signal + at, count, see, seen) == ES_OK);
    }
}

static void test_it_is_the_reference_however_cut(void)
{
    static const uint32_t steps[][2] = {{0, SAMPLES}, {0, 1},    {1, 7},
                                        {13, 16},     {15, 320}, {0, 33}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        es_seen_results seen = nothing;
        es_stream stream;
        start();
        push_all(&seen, steps[i][0], steps[i][1]);
        CHECK(seen.hash == stream_pushed);
        CHECK(es_flush(&session, see, &seen) == ES_OK);
        CHECK(seen.hash == stream_flushed);
        CHECK(seen.runs == STREAM_RUNS && seen.beats == STREAM_BEATS &&
              seen.changes == STREAM_CHANGES);
        CHECK(es_stream_info(&session, &stream) == ES_OK);
        CHECK(stream.samples == SAMPLES && stream.missing == STREAM_MISSING);
        CHECK(stream.rate_mhz == 360000 && stream.channels == 1 &&
              stream.hop == 16 && stream.classes == 3);
        if (steps[i][1] == 1) {
            CHECK(seen.late <= stream.delay);
        }
    }
}

static void test_nothing_outside_the_arena(void)
{
    es_seen_results seen = nothing;
    start();
    push_all(&seen, 0, 50);
    CHECK(es_flush(&session, NULL, NULL) == ES_OK);
    for (uint32_t i = 0; i < GUARD; i++) {
        CHECK(memory[i] == 0xa5);
        CHECK(memory[GUARD + info.ram_bytes + i] == 0xa5);
    }
}

static void test_reset_starts_again(void)
{
    es_seen_results seen = nothing;
    start();
    CHECK(es_push(&session, stream_signal + 99, 777, NULL, NULL) == ES_OK);
    CHECK(es_reset(&session) == ES_OK);
    push_all(&seen, 0, 100);
    CHECK(seen.hash == stream_pushed);
    CHECK(es_flush(&session, see, &seen) == ES_OK);
    CHECK(es_push(&session, stream_signal, 1, NULL, NULL) == ES_ERR_ENDED);
    CHECK(es_flush(&session, see, &seen) == ES_OK); /* nothing any more */
    CHECK(seen.hash == stream_flushed);
    CHECK(es_reset(&session) == ES_OK);
    seen = nothing;
    push_all(&seen, 0, SAMPLES);
    CHECK(seen.hash == stream_pushed);
}

/* A clock that makes each third run take longer. */
static uint32_t now, readings;

static uint32_t slow_clock(void)
{
    uint32_t per_run = info.steps + 2; /* before, each step, after */
    readings++;
    if (readings % (3 * per_run) == 0) {
        now += 1000;
    }
    now += 10;
    return now;
}

static void test_a_run_over_the_budget_is_counted_and_nothing_else(void)
{
    es_seen_results seen = nothing;
    es_stream stream;
    start();
    readings = 0;
    now = 0xFFFFFF00u; /* wraps around */
    es_set_clock(&session, slow_clock);
    es_set_budget(&session, 500);
    push_all(&seen, 0, 64);
    CHECK(seen.hash == stream_pushed);
    CHECK(es_stream_info(&session, &stream) == ES_OK);
    CHECK(stream.runs > 9 && stream.overruns == (uint32_t)stream.runs / 3);
    CHECK(stream.worst_ticks == 1000 + 10 * (info.steps + 1));
    es_set_budget(&session, stream.worst_ticks);
    push_all(&seen, 0, 64);
    es_set_budget(&session, 0);
    push_all(&seen, 0, 64);
    CHECK(es_stream_info(&session, &stream) == ES_OK);
    CHECK(stream.overruns == (uint32_t)stream.runs / 3 / 3);
    CHECK(es_reset(&session) == ES_OK);
    CHECK(es_stream_info(&session, &stream) == ES_OK);
    CHECK(stream.overruns == 0 && stream.worst_ticks == 0 && stream.runs == 0);
}

static int fail(void *user)
{
    (void)user;
    return 1;
}

static void test_a_run_that_fails_ends_the_stream(void)
{
    es_seen_results seen = nothing;
    es_stream stream;
    start();
    es_set_runner(&session, fail, NULL);
    CHECK(es_push(&session, stream_signal, SAMPLES, see, &seen) ==
          ES_ERR_RUNNER);
    CHECK(es_stream_info(&session, &stream) == ES_OK && stream.runs == 0);
    CHECK(es_push(&session, stream_signal, 1, see, &seen) == ES_ERR_ENDED);
    CHECK(es_flush(&session, see, &seen) == ES_OK);
    CHECK(es_reset(&session) == ES_OK);
    /* Too few samples for a run: the flush needs one. */
    CHECK(es_push(&session, stream_signal, 1, NULL, NULL) == ES_OK);
    CHECK(es_flush(&session, NULL, NULL) == ES_ERR_RUNNER);
    es_set_runner(&session, NULL, NULL);
    CHECK(es_reset(&session) == ES_OK);
    seen = nothing;
    push_all(&seen, 0, SAMPLES);
    CHECK(seen.hash == stream_pushed);
}

static void test_arguments(void)
{
    static uint8_t room[2048] __attribute__((aligned(16)));
    es_session none, other;
    es_plan without;
    es_stream stream = {.hop = 7};

    memset(&none, 0, sizeof none);
    start();
    CHECK(es_push(NULL, stream_signal, 1, NULL, NULL) == ES_ERR_ARG);
    CHECK(es_push(&none, stream_signal, 1, NULL, NULL) == ES_ERR_ARG);
    CHECK(es_push(&session, NULL, 1, NULL, NULL) == ES_ERR_ARG);
    CHECK(es_push(&session, NULL, 0, NULL, NULL) == ES_OK);
    CHECK(es_flush(NULL, NULL, NULL) == ES_ERR_ARG);
    CHECK(es_flush(&none, NULL, NULL) == ES_ERR_ARG);
    CHECK(es_stream_info(NULL, &stream) == ES_ERR_ARG);
    CHECK(es_stream_info(&session, NULL) == ES_ERR_ARG);
    es_set_budget(NULL, 1);
    CHECK(es_plan_open(&without, plan_everything, sizeof plan_everything,
                       NULL) == ES_OK);
    CHECK(es_session_init(&other, &without, room, sizeof room) == ES_OK);
    CHECK(es_push(&other, stream_signal, 1, NULL, NULL) == ES_ERR_NO_STREAM);
    CHECK(es_flush(&other, NULL, NULL) == ES_ERR_NO_STREAM);
    CHECK(es_stream_info(&other, &stream) == ES_ERR_NO_STREAM);
    CHECK(stream.hop == 7);
}

/* A record without samples has no beats, and flushing it does not hang. */
static void test_an_empty_record(void)
{
    es_seen_results seen = nothing;
    start();
    CHECK(es_flush(&session, see, &seen) == ES_OK);
    CHECK(seen.hash == nothing.hash);
}

int main(void)
{
    CHECK(es_plan_open(&plan, plan_stream, sizeof plan_stream, NULL) == ES_OK);
    CHECK(es_plan_info(&plan, &info) == ES_OK);
    CHECK(info.ram_bytes + 2 * GUARD <= ROOM);
    test_it_is_the_reference_however_cut();
    test_nothing_outside_the_arena();
    test_reset_starts_again();
    test_a_run_over_the_budget_is_counted_and_nothing_else();
    test_a_run_that_fails_ends_the_stream();
    test_arguments();
    test_an_empty_record();
    printf("%d failures\n", failures);
    return failures != 0;
}
