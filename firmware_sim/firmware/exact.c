/* Runs a preloaded plan on preloaded inputs, one after the other without a
 * reset between, and counts the bytes of each run's outputs that are not the
 * expected ones. a: runs; b: bytes of all inputs of a run; c: of all outputs.
 * Data: the inputs and the expected outputs of the first run, of the second...
 */
#include "preloaded.h"

#include <stdio.h>
#include <string.h>

static uint8_t arena[ARENA] __attribute__((aligned(ES_ALIGN)));
static es_plan plan;
static es_session session;

static es_status write_inputs(const uint8_t *from, uint32_t inputs)
{
    for (uint32_t i = 0; i < inputs; i++) {
        es_buffer buffer;
        es_status status = es_input(&session, i, &buffer);
        if (status != ES_OK) {
            return status;
        }
        memcpy(buffer.data, from, buffer.size);
        from += buffer.size;
    }
    return ES_OK;
}

/* Bytes beyond those expected, or missing ones, count too. */
static uint32_t differing(const uint8_t *expected, uint32_t size,
                          uint32_t outputs)
{
    uint32_t count = 0, at = 0;
    for (uint32_t i = 0; i < outputs; i++) {
        es_buffer buffer;
        if (es_output(&session, i, &buffer) != ES_OK) {
            return size;
        }
        for (uint32_t k = 0; k < buffer.size; k++, at++) {
            count += at >= size || (uint8_t)buffer.data[k] != expected[at];
        }
    }
    return at < size ? count + size - at : count;
}

static es_status run_all(const es_info *info)
{
    const preloaded *p = es_preloaded();
    const uint8_t *at = es_preloaded_data();

    for (uint32_t run = 0; run < p->a; run++) {
        es_status status = write_inputs(at, info->inputs);
        if (status == ES_OK) {
            status = es_run(&session);
        }
        if (status != ES_OK) {
            return status;
        }
        at += p->b;
        printf("run %lu differing %lu\n", (unsigned long)run,
               (unsigned long)differing(at, p->c, info->outputs));
        at += p->c;
    }
    return ES_OK;
}

int main(void)
{
    es_info info;
    es_status status = es_preloaded_start(&plan, &session, arena);
    if (status == ES_OK) {
        status = es_self_test(&session);
    }
    if (status == ES_OK) {
        status = es_plan_info(&plan, &info);
    }
    if (status == ES_OK) {
        status = run_all(&info);
    }
    printf("ended %s\n", es_status_text(status));
    return status != ES_OK;
}
