/* The device: a plan store, what runs from it, and the link. */
#include "board.h"
#include "firmware.h"

enum { BUFFER = 1024, RESULTS = 1024, FAILURES = 3 };
/* Not less: a host that is busy stops in the middle of a frame. */
#define QUIET (int32_t)(ES_TICKS / 2)

static es_store store;
static es_link link;
static es_link_images images;
static es_plan plan;
static es_session session;
static uint8_t rx[BUFFER + ES_LINK_CHECK] __attribute__((aligned(4)));
static uint8_t tx[BUFFER + ES_LINK_CHECK], results[RESULTS];
static uint32_t arena_used;
static bool reset_wanted;

/* ---- what the link asks for ---- */

static void link_send(void *user, const uint8_t *bytes, size_t size)
{
    (void)user;
    es_uart_send(bytes, size);
}

static void link_reset(void *user)
{
    (void)user;
    reset_wanted = true;
}

/* The counter is read often enough to see it wrap: what is timed ends soon. */
static uint32_t link_micros(void *user)
{
    static uint64_t ticks;
    (void)user;
    ticks += es_ticks() - (uint32_t)ticks;
    return (uint32_t)(ticks / (ES_TICKS / 1000000));
}

static void link_memory(void *user, es_link_memory *memory)
{
    (void)user;
    es_memory_of(memory);
    memory->arena_used = arena_used;
}

/* Each step of a plan reads the clock: one that ends is no hang, however long
 * all of them take in an emulator. */
static uint32_t session_ticks(void)
{
    es_watchdog_feed();
    return es_clock();
}

/* ---- start ---- */

static void set_budget(uint32_t per_second)
{
    es_stream stream;
    if (es_stream_info(&session, &stream) == ES_OK && stream.rate_mhz != 0) {
        es_set_budget(&session, (uint32_t)((uint64_t)stream.hop * 1000 *
                                           per_second / stream.rate_mhz));
    }
}

/* False: no plan runs, only the link does. */
static bool start_plan(es_link_config *config)
{
    const uint8_t *bytes;
    uint32_t size, arena_size, counters_at;
    uint8_t *arena = es_arena(&arena_size);
    es_step_counter *counters;
    es_info info;

    /* A plan that takes the device down again and again must not keep the link
     * from bringing another one. */
    if (es_failures() >= FAILURES ||
        es_store_running(&store, &bytes, &size) != ES_STORE_OK ||
        es_plan_fits(bytes, size, &plan, &info) != ES_STORE_OK ||
        es_session_init(&session, &plan, arena, arena_size) != ES_OK) {
        return false;
    }
    arena_used = es_plan_ram(&info);
    counters_at = arena_used - info.steps * (uint32_t)sizeof *counters;
    counters = (es_step_counter *)(void *)(arena + counters_at);
    for (uint32_t i = 0; i < info.steps; i++) {
        counters[i] = (es_step_counter){0};
    }
    es_set_counters(&session, counters);
    es_set_clock(&session, session_ticks);
    set_budget(config->ticks_per_second);
    config->session = &session;
    config->counters = counters;
    return true;
}

static void start(void)
{
    es_link_config config = {
        .rx = rx,
        .tx = tx,
        .buf_size = BUFFER,
        .ring = results,
        .ring_size = RESULTS,
        .send = link_send,
        .reset = link_reset,
        .micros = link_micros,
        .memory = link_memory,
        .ticks_per_second = es_clock_start(),
        .images = &images,
#if defined(ES_BUILD_MVE)
        .isa = "mve",
#else
        .isa = "dsp",
#endif
    };
    /* An error of the flash leaves a store that can be used; it says more when
     * it is asked. */
    es_store_status status = es_store_mount(&store, &es_nvm, &es_plan_hooks);
    if (status == ES_STORE_OK || status == ES_STORE_FLASH) {
        status = es_store_boot(&store);
    }
    (void)status;
    images = es_link_store_images(&store);
    (void)start_plan(&config);
    if (es_link_init(&link, &config) != ES_OK) {
        es_restart(ES_CAUSE_FAULT, 0);
    }
}

/* ---- for ever ---- */

static void take_bytes(void)
{
    static uint32_t last;
    uint8_t byte;
    uint32_t now = es_ticks();

    /* What was half received stays so. Signed: QEMU's clock starts again when
     * idle time is to be skipped and no timer runs. */
    if ((int32_t)(now - last) > QUIET) {
        es_link_idle(&link);
    }
    while (es_uart_get(&byte)) {
        es_link_feed(&link, byte);
    }
    last = es_ticks();
    for (uint32_t lost = es_uart_lost(); lost > 0; lost--) {
        es_link_overrun(&link);
    }
}

static void sleep(void)
{
    es_irq_off();
    if (es_uart_is_empty()) {
        es_watchdog_pause();
        __asm volatile(
            "dsb\n\twfi"); /* an interrupt ends it, held off or not */
        es_watchdog_feed();
    }
    es_irq_on();
}

int main(void)
{
    es_fault_start();
    es_watchdog_start();
    es_uart_start();
    es_irq_on();
    start();
    for (;;) {
        es_watchdog_feed();
        take_bytes();
        if (reset_wanted) {
            es_uart_drain();
            es_restart(ES_CAUSE_ASKED, 0);
        }
        sleep();
    }
}
