/* Sessions: a plan, an arena, and the public calls on them. */
#include "exec/exec.h"

static bool ready(const es_session *session)
{
    return session && session->plan && session->arena;
}

/* The session as no run has touched it. */
static void forget(es_session *session, const es_root *root)
{
    session->overruns = 0;
    session->worst_ticks = 0;
    uint8_t *arena = session->arena;
    memset(arena, 0, root->arena_bytes);
    for (uint32_t i = 0; i < root->ring_count; i++) {
        const es_ring *ring = &root->rings[i];
        memset(arena + ring->offset, ring->zero_point,
               (size_t)ring->columns * ring->channels);
    }
}

es_status es_session_init(es_session *session, const es_plan *plan, void *arena,
                          size_t arena_size)
{
    if (!session || !plan || !plan->bytes || !arena) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(plan, &root);
    if ((uintptr_t)arena % ES_ALIGN != 0 || arena_size < root.arena_bytes) {
        return ES_ERR_ARENA;
    }
    session->plan = plan;
    session->arena = arena;
    session->ticks = NULL;
    session->counters = NULL;
    session->budget = 0;
    session->runner = NULL;
    session->runner_user = NULL;
    forget(session, &root);
    return ES_OK;
}

/* I-17: inputs and outputs are bytes in logical order. */
static es_status buffer_of(const es_session *session, const es_root *root,
                           es_tables ios, uint32_t index, es_buffer *buffer)
{
    if (index >= ios.count) {
        return ES_ERR_ARG;
    }
    es_tensor tensor;
    es_tensor_view(root, es_io_tensor(ios, index), &tensor);
    buffer->data = (int8_t *)session->arena + tensor.place->offset;
    buffer->size = tensor.place->columns * tensor.place->channels;
    return ES_OK;
}

es_status es_input(const es_session *session, uint32_t index, es_buffer *buffer)
{
    if (!ready(session) || !buffer) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    return buffer_of(session, &root, root.inputs, index, buffer);
}

es_status es_output(const es_session *session, uint32_t index,
                    es_buffer *buffer)
{
    if (!ready(session) || !buffer) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    return buffer_of(session, &root, root.outputs, index, buffer);
}

static es_status run_step(es_session *session, const es_root *root,
                          uint32_t step)
{
    uint32_t before = session->ticks ? session->ticks() : 0;
    es_exec x;
    es_step_begin(&x, session->arena, root, step);
    if (!es_step_run(&x)) {
        return ES_ERR_BUILD;
    }
    es_step_advance(&x);
    if (session->counters) {
        es_step_counter *counter = &session->counters[step];
        counter->runs++;
        if (session->ticks) { /* unsigned: right across a wrap-around */
            counter->ticks += session->ticks() - before;
        }
    }
    return ES_OK;
}

es_status es_session_run(es_session *session, const es_root *root)
{
    uint32_t before = session->ticks ? session->ticks() : 0, taken;

    if (session->runner) {
        if (session->runner(session->runner_user) != 0) {
            return ES_ERR_RUNNER;
        }
    } else {
        for (uint32_t step = 0; step < root->steps.count; step++) {
            es_status status = run_step(session, root, step);
            if (status != ES_OK) {
                return status;
            }
        }
    }
    if (session->ticks) {
        taken = session->ticks() - before;
        session->overruns += session->budget != 0 && taken > session->budget;
        if (taken > session->worst_ticks) {
            session->worst_ticks = taken;
        }
    }
    return ES_OK;
}

es_status es_run(es_session *session)
{
    if (!ready(session)) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    return es_session_run(session, &root);
}

es_status es_run_step(es_session *session, uint32_t step)
{
    if (!ready(session)) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    if (step >= root.steps.count) {
        return ES_ERR_ARG;
    }
    return run_step(session, &root, step);
}

es_status es_reset(es_session *session)
{
    if (!ready(session)) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    forget(session, &root);
    return ES_OK;
}

void es_set_clock(es_session *session, uint32_t (*ticks)(void))
{
    if (session) {
        session->ticks = ticks;
    }
}

void es_set_runner(es_session *session, es_runner_fn runner, void *user)
{
    if (session) {
        session->runner = runner;
        session->runner_user = user;
    }
}

void es_set_counters(es_session *session, es_step_counter *counters)
{
    if (session) {
        session->counters = counters;
    }
}

void es_set_budget(es_session *session, uint32_t ticks)
{
    if (session) {
        session->budget = ticks;
    }
}

/* ---- self test: PLAN_FORMAT.md section 9 ---- */

static void generate_inputs(const es_session *session, const es_root *root)
{
    uint32_t x = root->golden_seed;
    for (uint32_t i = 0; i < root->inputs.count; i++) {
        es_buffer buffer;
        (void)buffer_of(session, root, root->inputs, i, &buffer);
        for (uint32_t k = 0; k < buffer.size; k++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            buffer.data[k] = (int8_t)(x >> 24);
        }
    }
}

static bool outputs_match(const es_session *session, const es_root *root)
{
    const uint8_t *expected = root->golden_outputs.data;
    for (uint32_t i = 0; i < root->outputs.count; i++) {
        es_buffer buffer;
        (void)buffer_of(session, root, root->outputs, i, &buffer);
        if (memcmp(buffer.data, expected, buffer.size) != 0) {
            return false;
        }
        expected += buffer.size;
    }
    return true;
}

es_status es_self_test(es_session *session)
{
    if (!ready(session)) {
        return ES_ERR_ARG;
    }
    es_root root;
    es_root_view(session->plan, &root);
    if (!root.has_golden) {
        return ES_ERR_NO_GOLDEN;
    }
    forget(session, &root);
    generate_inputs(session, &root);
    uint32_t crc = 0;
    for (uint32_t step = 0; step < root.steps.count; step++) {
        es_exec x;
        if (session->ticks) { /* it may be what feeds a watchdog */
            (void)session->ticks();
        }
        es_step_begin(&x, session->arena, &root, step);
        if (!es_step_run(&x)) {
            return ES_ERR_BUILD;
        }
        crc = es_step_trace(&x, crc);
        es_step_advance(&x);
    }
    bool same = crc == root.golden_trace_crc && outputs_match(session, &root);
    forget(session, &root);
    return same ? ES_OK : ES_ERR_SELF_TEST;
}
