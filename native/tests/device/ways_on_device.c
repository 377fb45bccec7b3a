/* Steps that edgesparse/export/kernels.py says a kernel takes whole are taken
 * whole on this machine.
 *
 * ES_PLAN_HEADER, written by tests/test_export_ways.py, defines
 *   WAYS_NAME, WAYS_RAM: the most of all plans
 *   ways_plans[]: {plan bytes, size, foretold}, foretold[i] of step i: 1, whole
 */
#include <stdio.h>

#include "exec/kernels.h"

typedef struct ways_plan {
    const uint8_t *bytes;
    uint32_t size;
    const uint8_t *foretold;
} ways_plan;

#include ES_PLAN_HEADER

enum { PLANS = sizeof ways_plans / sizeof ways_plans[0] };

static uint8_t arena[WAYS_RAM] __attribute__((aligned(16)));
static uint32_t steps, taken, foretold, wrong;

/* What a run leaves in the arena does not matter here. */
static void try_step(const es_root *root, uint32_t index, bool whole)
{
    es_exec x;
    es_step_begin(&x, arena, root, index);
    bool is_whole = es_regular_run(&x);
    steps++;
    taken += is_whole;
    foretold += whole;
    wrong += whole && !is_whole;
}

int main(void)
{
    for (uint32_t i = 0; i < PLANS; i++) {
        const ways_plan *p = &ways_plans[i];
        es_plan plan;
        es_session session;
        es_root root;
        if (es_plan_open(&plan, p->bytes, p->size, NULL) != ES_OK ||
            es_session_init(&session, &plan, arena, sizeof arena) != ES_OK) {
            printf("FAILED %s: plan %lu\n", WAYS_NAME, (unsigned long)i);
            return 1;
        }
        es_root_view(&plan, &root);
        for (uint32_t k = 0; k < root.steps.count; k++) {
            try_step(&root, k, p->foretold[k] != 0);
        }
    }
    printf("%s: %lu steps, %lu taken whole, %lu foretold, %lu wrong\n",
           WAYS_NAME, (unsigned long)steps, (unsigned long)taken,
           (unsigned long)foretold, (unsigned long)wrong);
    return wrong != 0;
}
