/* A preloaded record through a preloaded stream plan, again and again, a hop
 * each time it is due by the board's counter; the core sleeps until then. With
 * QEMU's -icount and sleep=off, time in which it sleeps is skipped. a: samples
 * of the record, a multiple of the hop; b: hops to run; c: hops between two
 * reports. Data: int16 samples. A report has
 *   crc       CRC-32 of all results so far, with the outputs of the runs
 *   late      hops that were not done when the next one was due
 *   overruns  runs over the time of a hop, as the core counts them
 *   worst     ticks of the longest run
 *   ticks     that have passed on the counter
 *   due       ticks at which the last hop was
 *   stack     bytes of it used since the last report
 *   arena     bytes of it ever written, with what is behind the plan's */
#include "preloaded.h"

#include <stdio.h>
#include <string.h>

#include "plan/crc32.h"

#define SYST_CSR ES_REG(0xE000E010u)
#define SYST_RVR ES_REG(0xE000E014u)
#define SYST_CVR ES_REG(0xE000E018u)
#define SCB_ICSR ES_REG(0xE000ED04u)

enum {
    PEND = 1 << 26,
    UNPEND = 1 << 25,
    PAINT_BYTE = 0xA5,
    MARGIN = 64,
    BEHIND = 4096
};
#define LONGEST 0xFFFFFFu /* ticks that SysTick counts */
#define PAINT   0xA5A5A5A5u

extern uint32_t __stack_end[], __stack_top[];

static uint8_t arena[ARENA] __attribute__((aligned(ES_ALIGN)));
static es_plan plan;
static es_session session;
static uint32_t crc, late;
static uint64_t passed; /* ticks of the board's counter, since start */
static uint32_t started, arena_end;

static uint32_t counter(void)
{
    return es_ticks();
}

/* ---- marks ---- */

static void paint_stack(void)
{
    uint32_t here;
    for (uint32_t *at = __stack_end; at < &here - MARGIN; at++) {
        *at = PAINT;
    }
}

static uint32_t stack_used(void)
{
    const uint32_t *at = __stack_end;
    while (at < __stack_top && *at == PAINT) {
        at++;
    }
    return (uint32_t)(__stack_top - at) * 4;
}

static uint32_t arena_used(void)
{
    uint32_t used = arena_end;
    while (used > 0 && arena[used - 1] == PAINT_BYTE) {
        used--;
    }
    return used;
}

/* ---- results ---- */

static void take(void *user, const es_result *result)
{
    uint8_t record[32];
    uint32_t kind = (uint32_t)result->kind;
    es_buffer buffer;

    (void)user;
    memcpy(record, &kind, 4);
    memcpy(record + 4, &result->value, 4);
    memcpy(record + 8, &result->strength, 4);
    memcpy(record + 12, &result->skip, 4);
    memcpy(record + 16, &result->sample, 8);
    memcpy(record + 24, &result->column, 8);
    crc = es_crc32(crc, record, sizeof record);
    for (uint32_t i = 0; result->kind == ES_RESULT_RUN &&
                         es_output(&session, i, &buffer) == ES_OK;
         i++) {
        crc = es_crc32(crc, buffer.data, buffer.size);
    }
}

/* ---- time ---- */

/* Ticks from the start to when hop n is there; rounded down, so that none is
 * ever lost. */
static uint64_t due(const es_stream *stream, uint64_t n)
{
    return n * stream->hop * 1000 * ES_TICKS / stream->rate_mhz;
}

static uint64_t now(void)
{
    passed += (uint32_t)(es_ticks() - started - (uint32_t)passed);
    return passed;
}

/* Once, not again and again: with a second expiry in sight, QEMU skips both. */
static void sleep_for(uint64_t ticks)
{
    uint64_t core = ticks * ES_CORE / ES_TICKS;

    SYST_RVR = core < LONGEST ? (uint32_t)core : LONGEST;
    SYST_CVR = 0;
    SYST_CSR = 1 | 2 | 4; /* with interrupt, at the core's clock */
    while (SYST_CVR == 0) {
    }
    SYST_RVR = 0;
    while ((SCB_ICSR & PEND) == 0) {
        __asm volatile("dsb\n\twfi");
    }
    SYST_CSR = 0;
    SCB_ICSR = UNPEND;
}

static void wait_until(uint64_t then)
{
    for (uint64_t at = now(); at < then; at = now()) {
        if (then - at > ES_TICKS / 10000) {
            sleep_for(then - at - ES_TICKS / 20000);
        }
    }
}

/* ---- the run ---- */

static void say(const char *name, uint64_t value)
{
    printf("%s %llu ", name, (unsigned long long)value);
}

static void report(uint64_t hops)
{
    es_stream stream;
    uint32_t stack = stack_used();
    if (es_stream_info(&session, &stream) != ES_OK) {
        return;
    }
    say("hops", hops);
    say("samples", stream.samples);
    say("crc", crc);
    say("late", late);
    say("overruns", stream.overruns);
    say("worst", stream.worst_ticks);
    say("ticks", passed);
    say("due", due(&stream, hops));
    say("stack", stack);
    say("arena", arena_used());
    (void)putchar('\n');
    paint_stack();
}

static es_status run(const es_stream *stream)
{
    const preloaded *p = es_preloaded();
    const int16_t *samples = (const int16_t *)(const void *)es_preloaded_data();
    uint32_t at = 0;

    started = es_ticks();
    for (uint32_t hop = 1; hop <= p->b; hop++) {
        es_status status;
        wait_until(due(stream, hop));
        status = es_push(&session, samples + at, stream->hop, take, NULL);
        if (status != ES_OK) {
            return status;
        }
        at = at + stream->hop < p->a ? at + stream->hop : 0;
        late += now() >= due(stream, hop + 1);
        if (hop % p->c == 0) {
            report(hop);
        }
    }
    return ES_OK;
}

int main(void)
{
    es_stream stream;
    es_info info;
    es_status status;

    __asm volatile("cpsid i"); /* what is due ends the sleep, and interrupts
                                  nothing */
    memset(arena, PAINT_BYTE, sizeof arena);
    status = es_preloaded_start(&plan, &session, arena);
    if (status == ES_OK) {
        status = es_plan_info(&plan, &info);
    }
    if (status == ES_OK) {
        arena_end = info.ram_bytes + BEHIND;
        status = es_stream_info(&session, &stream);
    }
    if (status == ES_OK) {
        es_set_clock(&session, counter);
        es_set_budget(&session, (uint32_t)due(&stream, 1));
        paint_stack();
        status = run(&stream);
    }
    printf("ended %s\n", es_status_text(status));
    return status != ES_OK;
}
