/* Sessions: arguments, arenas, state from run to run, steps one by one. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan/view.h"
#include "plan_everything.h"

enum { ROOM = 2048, GUARD = 64, MOST_STEPS = 16 };

static uint8_t memory[2][ROOM] __attribute__((aligned(16)));
static es_plan plan;
static es_info info;

static void start(es_session *session, uint8_t *arena)
{
    CHECK(es_session_init(session, &plan, arena, info.ram_bytes) == ES_OK);
}

static void write_inputs(const es_session *session, int seed)
{
    for (uint32_t i = 0; i < info.inputs; i++) {
        es_buffer buffer;
        CHECK(es_input(session, i, &buffer) == ES_OK);
        for (uint32_t k = 0; k < buffer.size; k++) {
            buffer.data[k] = (int8_t)(seed + 37 * (int)k);
        }
    }
}

/* Some number that depends on every byte of the arena but the rings, and so on
 * what every step gave. */
static uint32_t results_of(const es_session *session)
{
    uint32_t hash = 1;
    for (uint32_t i = info.state_bytes; i < info.ram_bytes; i++) {
        hash = hash * 16777619u + session->arena[i];
    }
    return hash;
}

static uint32_t run(es_session *session, int seed)
{
    write_inputs(session, seed);
    CHECK(es_run(session) == ES_OK);
    return results_of(session);
}

static void test_arguments(void)
{
    es_session session, untouched;
    es_buffer buffer = {NULL, 7};
    memset(&session, 0, sizeof session);
    untouched = session;
    CHECK(es_session_init(NULL, &plan, memory[0], ROOM) == ES_ERR_ARG);
    CHECK(es_session_init(&session, NULL, memory[0], ROOM) == ES_ERR_ARG);
    CHECK(es_session_init(&session, &plan, NULL, ROOM) == ES_ERR_ARG);
    CHECK(es_session_init(&session, &plan, memory[0], info.ram_bytes - 1) ==
          ES_ERR_ARENA);
    CHECK(es_session_init(&session, &plan, memory[0] + 8, ROOM - 8) ==
          ES_ERR_ARENA);
    CHECK(memcmp(&session, &untouched, sizeof session) == 0);
    CHECK(es_run(&session) == ES_ERR_ARG && es_run(NULL) == ES_ERR_ARG);
    CHECK(es_reset(&session) == ES_ERR_ARG);
    CHECK(es_self_test(&session) == ES_ERR_ARG);
    CHECK(es_run_step(&session, 0) == ES_ERR_ARG);
    CHECK(es_input(&session, 0, &buffer) == ES_ERR_ARG);
    start(&session, memory[0]);
    CHECK(es_run_step(&session, info.steps) == ES_ERR_ARG);
    CHECK(es_input(&session, info.inputs, &buffer) == ES_ERR_ARG);
    CHECK(es_output(&session, info.outputs, &buffer) == ES_ERR_ARG);
    CHECK(es_output(&session, 0, NULL) == ES_ERR_ARG);
    CHECK(buffer.data == NULL && buffer.size == 7);
    es_set_clock(NULL, NULL);
    es_set_counters(NULL, NULL);
}

/* The arena of exactly the size asked for, and not a byte beside it. */
static void test_nothing_outside_the_arena(void)
{
    es_session session;
    uint8_t *arena = memory[0] + GUARD;
    memset(memory[0], 0xa5, ROOM);
    start(&session, arena);
    run(&session, 1);
    run(&session, 2);
    for (uint32_t i = 0; i < GUARD; i++) {
        CHECK(memory[0][i] == 0xa5);
        CHECK(arena[info.ram_bytes + i] == 0xa5);
    }
}

/* A plan with rings remembers; reset makes it forget; sessions share nothing.
 */
static void test_state(void)
{
    es_session a, b;
    start(&a, memory[0]);
    start(&b, memory[1]);
    uint32_t first = run(&a, 1), second = run(&a, 1);
    CHECK(first != second);
    CHECK(run(&b, 1) == first);
    uint32_t third = run(&a, 2);
    CHECK(run(&b, 1) == second);
    CHECK(run(&b, 2) == third);
    CHECK(es_reset(&a) == ES_OK);
    CHECK(run(&a, 1) == first);
    CHECK(es_self_test(&b) == ES_OK);
    CHECK(run(&b, 1) == first);
}

static void test_steps_are_a_run(void)
{
    es_session whole, steps;
    start(&whole, memory[0]);
    start(&steps, memory[1]);
    for (int seed = 0; seed < 3; seed++) {
        write_inputs(&steps, seed);
        for (uint32_t i = 0; i < info.steps; i++) {
            CHECK(es_run_step(&steps, i) == ES_OK);
        }
        CHECK(run(&whole, seed) == results_of(&steps));
    }
}

/* Stands in for the steps by running them; `fails` in a row do not. */
typedef struct stand_in {
    es_session *session;
    uint32_t runs, fails;
} stand_in;

static int all_steps(void *user)
{
    stand_in *it = user;
    it->runs++;
    if (it->fails > 0) {
        it->fails--;
        return 1;
    }
    for (uint32_t step = 0; step < info.steps; step++) {
        CHECK(es_run_step(it->session, step) == ES_OK);
    }
    return 0;
}

static void test_a_runner_stands_in_for_the_steps(void)
{
    es_session plain, other;
    stand_in runner = {&other, 0, 0};
    start(&plain, memory[0]);
    start(&other, memory[1]);
    es_set_runner(NULL, all_steps, &runner);
    es_set_runner(&other, all_steps, &runner);
    CHECK(run(&plain, 3) == run(&other, 3));
    CHECK(es_reset(&other) == ES_OK && es_reset(&plain) == ES_OK);
    CHECK(run(&plain, 4) == run(&other, 4));
    CHECK(es_self_test(&other) == ES_OK);
    CHECK(runner.runs == 2);
    runner.fails = 1;
    CHECK(es_run(&other) == ES_ERR_RUNNER);
    CHECK(es_run(&other) == ES_OK);
    es_set_runner(&other, NULL, NULL);
    CHECK(es_run(&other) == ES_OK);
    CHECK(runner.runs == 4);
}

static uint32_t now;

static uint32_t clock_that_wraps(void)
{
    now += 0x50000000u;
    return now;
}

static void test_counters(void)
{
    es_session session;
    es_step_counter counters[MOST_STEPS] = {{0, 0}};
    CHECK(info.steps <= MOST_STEPS);
    start(&session, memory[0]);
    run(&session, 1);
    es_set_counters(&session, counters);
    run(&session, 1);
    CHECK(counters[0].runs == 1 && counters[0].ticks == 0);
    es_set_clock(&session, clock_that_wraps);
    for (int i = 0; i < 4; i++) {
        run(&session, 1);
    }
    for (uint32_t i = 0; i < info.steps; i++) {
        CHECK(counters[i].runs == 5);
        CHECK(counters[i].ticks == 4 * (uint64_t)0x50000000);
    }
    es_set_counters(&session, NULL);
    run(&session, 1);
    CHECK(counters[0].runs == 5);
}

static void test_self_test_can_fail(void)
{
    static uint8_t changed[sizeof plan_everything] __attribute__((aligned(16)));
    es_session session;
    es_plan other = plan;
    es_root root;
    start(&session, memory[0]);
    CHECK(es_self_test(&session) == ES_OK);
    es_root_view(&plan, &root);
    memcpy(changed, plan_everything, sizeof changed);
    other.bytes = changed;
    /* opened before the change: a self test looks at every output byte */
    changed[root.golden_outputs.data + root.golden_outputs.count - 1 -
            plan.bytes] ^= 1;
    CHECK(es_session_init(&session, &other, memory[0], ROOM) == ES_OK);
    CHECK(es_self_test(&session) == ES_ERR_SELF_TEST);
}

int main(void)
{
    CHECK(es_plan_open(&plan, plan_everything, sizeof plan_everything, NULL) ==
          ES_OK);
    CHECK(es_plan_info(&plan, &info) == ES_OK);
    CHECK(info.ram_bytes + 2 * GUARD <= ROOM);
    test_arguments();
    test_nothing_outside_the_arena();
    test_state();
    test_steps_are_a_run();
    test_a_runner_stands_in_for_the_steps();
    test_counters();
    test_self_test_can_fail();
    printf("%d failures\n", failures);
    return failures != 0;
}
