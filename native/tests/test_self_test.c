/* The plan that has one of everything gives, on this machine, what the NumPy
 * interpreter of the plan said: every source, stage, encoding and layout. */
#include <stdio.h>

#include "edgesparse/edgesparse.h"
#include "plan_everything.h"

static uint8_t arena[1024] __attribute__((aligned(16)));

int main(void)
{
    es_plan plan;
    es_info info;
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
        status = es_self_test(&session);
    }
    printf("%s\n", es_status_text(status));
    return status != ES_OK;
}
