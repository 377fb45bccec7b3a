/* A real plan on this machine: it opens, says of itself what its converter
 * said, passes its self test, and one run on a given input gives the bytes that
 * the oracle gave, in an arena of exactly the stated size.
 *
 * ES_PLAN_HEADER, written by tests/test_device_plans.py, defines
 *   PLAN_NAME, PLAN_RAM, PLAN_STATE, PLAN_STEPS, PLAN_INPUTS, PLAN_OUTPUTS
 *   plan_bytes[], plan_source_sha256[32]
 *   plan_input[], plan_expected[]: all inputs, all outputs, one after another
 */
#include <stdio.h>
#include <string.h>

#include "edgesparse/edgesparse.h"
#include ES_PLAN_HEADER

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

static uint8_t memory[GUARD + PLAN_RAM + GUARD] __attribute__((aligned(16)));

static int failed(const char *what)
{
    printf("FAILED %s: %s\n", PLAN_NAME, what);
    return 1;
}

static int info_is_right(const es_info *info)
{
    return info->ram_bytes == PLAN_RAM && info->state_bytes == PLAN_STATE &&
           info->flash_bytes == sizeof plan_bytes &&
           info->steps == PLAN_STEPS && info->inputs == PLAN_INPUTS &&
           info->outputs == PLAN_OUTPUTS && info->source_sha256 != NULL &&
           memcmp(info->source_sha256, plan_source_sha256, 32) == 0;
}

static int guards_are_intact(void)
{
    for (uint32_t i = 0; i < GUARD; i++) {
        if (memory[i] != GUARD_BYTE ||
            memory[GUARD + PLAN_RAM + i] != GUARD_BYTE) {
            return 0;
        }
    }
    return 1;
}

/* Returns how many bytes of the given input there were for all inputs. */
static size_t write_inputs(const es_session *session)
{
    size_t used = 0;
    for (uint32_t i = 0; i < PLAN_INPUTS; i++) {
        es_buffer buffer;
        if (es_input(session, i, &buffer) != ES_OK ||
            buffer.size > sizeof plan_input - used) {
            return 0;
        }
        memcpy(buffer.data, plan_input + used, buffer.size);
        used += buffer.size;
    }
    return used;
}

/* Returns how many output bytes differ, or -1 when there are not as many. */
static long differing(const es_session *session)
{
    size_t used = 0;
    long count = 0;
    for (uint32_t i = 0; i < PLAN_OUTPUTS; i++) {
        es_buffer buffer;
        if (es_output(session, i, &buffer) != ES_OK ||
            buffer.size > sizeof plan_expected - used) {
            return -1;
        }
        for (uint32_t k = 0; k < buffer.size; k++) {
            count += buffer.data[k] != plan_expected[used + k];
        }
        used += buffer.size;
    }
    return used == sizeof plan_expected ? count : -1;
}

int main(void)
{
    es_plan plan;
    es_info info;
    es_session session;
    uint8_t *arena = memory + GUARD;

    memset(memory, GUARD_BYTE, sizeof memory);
    es_status status = es_plan_open(&plan, plan_bytes, sizeof plan_bytes, NULL);
    if (status != ES_OK || es_plan_info(&plan, &info) != ES_OK) {
        return failed(es_status_text(status));
    }
    if (!info_is_right(&info)) {
        return failed("es_plan_info differs from what the converter said");
    }
    if (es_session_init(&session, &plan, arena, PLAN_RAM - 1) != ES_ERR_ARENA) {
        return failed("one byte less than the stated RAM is accepted");
    }
    status = es_session_init(&session, &plan, arena, PLAN_RAM);
    if (status == ES_OK) {
        status = es_self_test(&session);
    }
    if (status != ES_OK) {
        return failed(es_status_text(status));
    }
    if (write_inputs(&session) != sizeof plan_input) {
        return failed("inputs of another size");
    }
    status = es_run(&session);
    if (status != ES_OK) {
        return failed(es_status_text(status));
    }
    long wrong = differing(&session);
    if (wrong != 0) {
        printf("%ld bytes differ, ", wrong);
        return failed("the outputs are not the oracle's");
    }
    if (!guards_are_intact()) {
        return failed("bytes beside the arena were written");
    }
    printf("%s: %lu plan bytes, %lu RAM, %lu output bytes, 0 differing\n",
           PLAN_NAME, (unsigned long)sizeof plan_bytes, (unsigned long)PLAN_RAM,
           (unsigned long)sizeof plan_expected);
    return 0;
}
