/* Runs any plan between marks that plugin.c counts between. QEMU loads a blob
 * to BLOB (benchmarks/device_instructions.py makes and explains it):
 *   u32 plan bytes, input bytes, samples a push (0: plain runs), runs, steps
 *   (0: none), 3 unused
 *   the plan, padded to 16 bytes; int8 inputs, or int16 samples
 * A region is one es_run or one es_push, and after them, where there are steps,
 * one es_run_step of a step that does not exist, then one of each that does.
 * Prints an FNV-1a of the outputs of runs and pushes. */
#include <stdio.h>
#include <string.h>

#include "edgesparse/edgesparse.h"

#if defined(ES_MACHINE_mps2_an386)
#define BLOB 0x21000000u
#elif defined(ES_MACHINE_mps2_an500)
#define BLOB 0x60000000u
#elif defined(ES_MACHINE_mps2_an505)
#define BLOB 0x80000000u
#else
#define BLOB 0x70000000u
#endif

#define MARK_BEGIN() __asm volatile(".inst.n 0xbf80" ::: "memory")
#define MARK_END()   __asm volatile(".inst.n 0xbf90" ::: "memory")

typedef struct blob {
    uint32_t plan_bytes, input_bytes, chunk, runs, steps, unused[3];
    uint8_t bytes[];
} blob;

static uint8_t arena[1 << 20] __attribute__((aligned(16)));
static es_session session;
static uint32_t hash = 0x811C9DC5u;

static void add_outputs(const es_info *info)
{
    for (uint32_t i = 0; i < info->outputs; i++) {
        es_buffer buffer = {0};
        if (es_output(&session, i, &buffer) != ES_OK) {
            return;
        }
        for (uint32_t k = 0; k < buffer.size; k++) {
            hash = (hash ^ (uint8_t)buffer.data[k]) * 0x01000193u;
        }
    }
}

static void ignore(void *user, const es_result *result)
{
    (void)user, (void)result;
}

static es_status run(const blob *b, const es_info *info, const uint8_t *input)
{
    es_status status = ES_OK;
    for (uint32_t n = 0; n < b->runs && status == ES_OK; n++) {
        const uint8_t *from = input;
        for (uint32_t i = 0; i < info->inputs && status == ES_OK; i++) {
            es_buffer buffer = {0};
            status = es_input(&session, i, &buffer);
            memcpy(buffer.data, from, buffer.size);
            from += buffer.size;
        }
        MARK_BEGIN();
        status = status == ES_OK ? es_run(&session) : status;
        MARK_END();
        add_outputs(info);
    }
    return status;
}

static es_status push(const blob *b, const es_info *info, const uint8_t *input)
{
    const int16_t *samples = (const int16_t *)(const void *)input;
    uint32_t count = b->input_bytes / 2;
    es_status status = ES_OK;
    for (uint32_t at = 0; at + b->chunk <= count && status == ES_OK;
         at += b->chunk) {
        MARK_BEGIN();
        status = es_push(&session, samples + at, b->chunk, ignore, NULL);
        MARK_END();
        add_outputs(info);
    }
    return status;
}

/* What a call costs that does nothing, then every step. */
static es_status run_steps(const blob *b)
{
    MARK_BEGIN();
    es_status status = es_run_step(&session, UINT32_MAX);
    MARK_END();
    status = status == ES_ERR_ARG ? ES_OK : status;
    for (uint32_t n = 0; n < b->steps && status == ES_OK; n++) {
        MARK_BEGIN();
        status = es_run_step(&session, n);
        MARK_END();
    }
    return status;
}

int main(void)
{
    const blob *b = (const blob *)BLOB;
    const uint8_t *input = b->bytes + (b->plan_bytes + 15) / 16 * 16;
    es_plan plan;
    es_info info;
    es_status status = es_plan_open(&plan, b->bytes, b->plan_bytes, NULL);
    if (status == ES_OK) {
        status = es_plan_info(&plan, &info);
    }
    if (status == ES_OK) {
        status = es_session_init(&session, &plan, arena, sizeof arena);
    }
    if (status == ES_OK) {
        status = b->chunk ? push(b, &info, input) : run(b, &info, input);
    }
    if (status == ES_OK && b->steps) {
        status = run_steps(b);
    }
    if (status != ES_OK) {
        printf("FAILED %s\n", es_status_text(status));
        return 1;
    }
    printf("outputs %08lx\n", (unsigned long)hash);
    return 0;
}
