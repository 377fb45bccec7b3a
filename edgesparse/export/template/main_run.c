/* Opens the plan, tests itself, runs it once, prints what comes out.
 *
 * Yours to change: write the inputs where it says so, and do with the outputs
 * what they are for. printf goes to the debugger (semihosting) in QEMU. */
#include <stdio.h>
#include <string.h>

#include "plan.h"

/* All the RAM that the core uses, but for a few hundred bytes of stack. */
static uint8_t arena[ES_PLAN_RAM] __attribute__((aligned(ES_ALIGN)));
static es_plan plan;
static es_session session;

static int failed(const char *what, es_status status)
{
    printf("FAILED %s: %s\n", what, es_status_text(status));
    return 1;
}

int main(void)
{
    es_buffer buffer;
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

    for (uint32_t i = 0; i < ES_PLAN_INPUTS; i++) {
        status = es_input(&session, i, &buffer);
        if (status != ES_OK) {
            return failed("es_input", status);
        }
        /* Your data here: buffer.size values, stored = real / SCALE +
         * ZERO_POINT. These count up. */
        for (uint32_t k = 0; k < buffer.size; k++) {
            buffer.data[k] = (int8_t)(k % 256 - 128);
        }
    }
    status = es_run(&session);
    if (status != ES_OK) {
        return failed("es_run", status);
    }
    for (uint32_t i = 0; i < ES_PLAN_OUTPUTS; i++) {
        status = es_output(&session, i, &buffer);
        if (status != ES_OK) {
            return failed("es_output", status);
        }
        printf("output %u:", (unsigned)i);
        for (uint32_t k = 0; k < buffer.size; k++) {
            printf(" %d", buffer.data[k]);
        }
        printf("\n");
    }
    return 0;
}
