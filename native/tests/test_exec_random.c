/* Plans made at random give, on this machine, what the NumPy interpreter said:
 * results of every step by checksum, and all outputs. */
#include <stdio.h>

#include "edgesparse/edgesparse.h"
#include "plans_random.h"

static uint8_t arena[4096] __attribute__((aligned(16)));

static es_status self_test(const void *bytes, uint32_t size)
{
    es_plan plan;
    es_session session;
    es_status status = es_plan_open(&plan, bytes, size, NULL);
    if (status == ES_OK) {
        status = es_session_init(&session, &plan, arena, sizeof arena);
    }
    return status == ES_OK ? es_self_test(&session) : status;
}

int main(void)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof plans_random / sizeof *plans_random; i++) {
        es_status status =
            self_test(plans_random[i].bytes, plans_random[i].size);
        printf("plan %d: %s\n", (int)i, es_status_text(status));
        failures += status != ES_OK;
    }
    return failures != 0;
}
