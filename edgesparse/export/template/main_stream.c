/* Opens the plan, tests itself, pushes ten seconds of a made signal, prints
 * what it reports.
 *
 * Yours to change: give es_push the samples of your ADC, any number at a time.
 * printf goes to the debugger (semihosting) in QEMU. */
#include <stdio.h>

#include "plan.h"

enum { SAMPLES = 3600, AT_ONCE = 36 };

/* All the RAM that the core uses, but for a few hundred bytes of stack. */
static uint8_t arena[ES_PLAN_RAM] __attribute__((aligned(ES_ALIGN)));
static es_plan plan;
static es_session session;
static unsigned long runs, sum;

static int failed(const char *what, es_status status)
{
    printf("FAILED %s: %s\n", what, es_status_text(status));
    return 1;
}

/* In place of an ADC: a spike of 200 in every 360 samples. */
static int16_t sample_at(uint32_t number)
{
    int32_t away = (int32_t)(number % 360) - 180;
    away = away < 0 ? -away : away;
    return (int16_t)(away < 10 ? 200 - 20 * away : 0);
}

static void on_result(void *user, const es_result *result)
{
    es_buffer buffer;
    (void)user;
    switch (result->kind) {
    case ES_RESULT_RUN: /* es_output has its outputs until the next samples */
        runs++;
        if (es_output(&session, 0, &buffer) == ES_OK) {
            for (uint32_t k = 0; k < buffer.size; k++) {
                sum = (sum * 31 + (uint8_t)buffer.data[k]) & 0xFFFFFFFFul;
            }
        }
        break;
    case ES_RESULT_BEAT:
        printf("beat at %ld, class %lu\n", (long)result->sample,
               (unsigned long)result->value);
        break;
    case ES_RESULT_SIGNAL:
        printf("signal at %ld, state %lu\n", (long)result->sample,
               (unsigned long)result->value);
        break;
    }
}

int main(void)
{
    es_status status =
        es_plan_open(&plan, es_plan_data, sizeof es_plan_data, NULL);
    if (status != ES_OK) {
        return failed("es_plan_open", status);
    }
    status = es_session_init(&session, &plan, arena, sizeof arena);
    if (status != ES_OK) {
        return failed("es_session_init", status);
    }
#if ES_PLAN_HAS_GOLDEN
    status = es_self_test(&session); /* once, after power up */
    if (status != ES_OK) {
        return failed("es_self_test", status);
    }
    printf("self test passed\n");
#endif

    for (uint32_t at = 0; at < SAMPLES; at += AT_ONCE) {
        int16_t samples[AT_ONCE * ES_PLAN_CHANNELS];
        for (uint32_t i = 0; i < AT_ONCE * ES_PLAN_CHANNELS; i++) {
            samples[i] = sample_at(at + i / ES_PLAN_CHANNELS);
        }
        status = es_push(&session, samples, AT_ONCE, on_result, NULL);
        if (status != ES_OK) {
            return failed("es_push", status);
        }
    }
    status = es_flush(&session, on_result, NULL); /* where a record ends */
    if (status != ES_OK) {
        return failed("es_flush", status);
    }
    printf("%lu runs, sum of outputs %08lx\n", runs, sum);
    return 0;
}
