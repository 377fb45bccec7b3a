/* The plan that has one of everything gives, on this machine, what the NumPy
 * interpreter of the plan said: every source, stage, encoding and layout. The
 * clock is read once a step: a firmware feeds its watchdog there. */
#include <stdio.h>

#include "edgesparse/edgesparse.h"
#include "plan_everything.h"

static uint8_t arena[1024] __attribute__((aligned(16)));

static uint32_t readings;

static uint32_t count_readings(void)
{
    return readings++;
}

int main(void)
{
    es_plan plan;
    es_info info = {0};
    es_session session;
    es_status status =
        es_plan_open(&plan, plan_everything, sizeof plan_everything, NULL);
    if (status == ES_OK) {
        status = es_plan_info(&plan, &info);
    }
    if (status == ES_OK) {
        status = es_session_init(&session, &plan, arena, sizeof arena);
    }
    if (status == ES_OK) {
        es_set_clock(&session, count_readings);
        status = es_self_test(&session);
    }
    printf("%s, %lu readings of the clock in %lu steps\n",
           es_status_text(status), (unsigned long)readings,
           (unsigned long)info.steps);
    return status != ES_OK || readings != info.steps;
}
