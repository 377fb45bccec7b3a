/* The watchdog: SysTick, which is above all other interrupts, and a count of
 * its periods. It stands still while the core sleeps, and each feeding starts
 * it anew, so that it does not interrupt, nor disturb a measurement, until
 * something takes longer than a period.
 *
 * Not the boards' CMSDK watchdog: in QEMU that one counts on when it is
 * switched off, and resets the board when it is switched on again. What SysTick
 * does not see is a hang with interrupts off. A product has a real one. */
#include "board.h"
#include "firmware.h"

#define SYST_CSR ES_REG(0xE000E010u)
#define SYST_RVR ES_REG(0xE000E014u)
#define SYST_CVR ES_REG(0xE000E018u) /* written: starts again */

#ifndef ES_WATCHDOG_PERIODS
#define ES_WATCHDOG_PERIODS 16 /* of half a second */
#endif

enum { OFF = 0, ON = 1 | 2 | 4 }; /* with interrupt, at the core's clock */

/* A slower core gets more time: what takes 8 s at 32 ns an instruction. */
enum { FULL_SPEED = 5 };

static volatile uint32_t missed;
static uint32_t limit;

void es_watchdog_start(void)
{
    uint32_t shift;

    limit = ES_WATCHDOG_PERIODS;
    if (es_host_shift(&shift) && shift > FULL_SPEED) {
        limit <<= shift - FULL_SPEED;
    }
    SYST_RVR = ES_CORE / 2 - 1;
    es_watchdog_feed();
}

void es_watchdog_feed(void)
{
    missed = 0;
    SYST_CVR = 0;
    SYST_CSR = ON;
}

void es_watchdog_pause(void)
{
    SYST_CSR = OFF;
}

void es_watchdog_period(const uint32_t *frame);

__attribute__((used)) void es_watchdog_period(const uint32_t *frame)
{
    missed++;
    if (missed >= limit) {
        es_watchdog_report(frame);
    }
}

__attribute__((naked)) void es_on_period(void)
{
    __asm volatile("mov r0, sp\n\tb es_watchdog_period");
}
