/* A real stream on this machine: every result and every output byte that the
 * plain Python reference gave for a signal, in an arena of exactly the stated
 * size.
 *
 * ES_PLAN_HEADER, written by tests/test_device_streams.py, defines
 *   STREAM_NAME, STREAM_RAM, STREAM_BEATS, STREAM_CHUNK, stream_hash
 *   plan_bytes[], stream_signal[]
 */
#include <stdio.h>

#include "edgesparse/edgesparse.h"
#include ES_PLAN_HEADER

enum { SAMPLES = sizeof stream_signal / sizeof stream_signal[0] };

static uint8_t arena[STREAM_RAM] __attribute__((aligned(16)));
static es_session session;
static uint32_t hash = 0x811C9DC5u, beats;

static void add(const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ byte[i]) * 0x01000193u;
    }
}

/* FNV-1a of the fields in order, as tests/test_stream_device.py has it. */
static void see(void *user, const es_result *result)
{
    uint32_t kind = (uint32_t)result->kind;
    es_buffer buffer;

    (void)user;
    add(&kind, sizeof kind);
    add(&result->value, sizeof result->value);
    add(&result->strength, sizeof result->strength);
    add(&result->skip, sizeof result->skip);
    add(&result->sample, sizeof result->sample);
    add(&result->column, sizeof result->column);
    beats += result->kind == ES_RESULT_BEAT;
    if (result->kind == ES_RESULT_RUN &&
        es_output(&session, 0, &buffer) == ES_OK) {
        add(buffer.data, buffer.size);
    }
}

int main(void)
{
    es_plan plan;
    es_status status = es_plan_open(&plan, plan_bytes, sizeof plan_bytes, NULL);
    if (status == ES_OK) {
        status = es_session_init(&session, &plan, arena, sizeof arena);
    }
    if (status == ES_OK) {
        status = es_self_test(&session);
    }
    for (uint32_t at = 0; status == ES_OK && at < SAMPLES; at += STREAM_CHUNK) {
        uint32_t left = SAMPLES - at;
        status = es_push(&session, stream_signal + at,
                         left < STREAM_CHUNK ? left : STREAM_CHUNK, see, NULL);
    }
    if (status == ES_OK) {
        status = es_flush(&session, see, NULL);
    }
    if (status != ES_OK) {
        printf("FAILED %s: %s\n", STREAM_NAME, es_status_text(status));
        return 1;
    }
    if (hash != stream_hash || beats != STREAM_BEATS) {
        printf("FAILED %s: %lu beats, the results are not the reference's\n",
               STREAM_NAME, (unsigned long)beats);
        return 1;
    }
    printf("%s: %lu samples, %lu beats, 0 differing\n", STREAM_NAME,
           (unsigned long)SAMPLES, (unsigned long)beats);
    return 0;
}
