/* The CMSDK watchdog (Arm DUI0479, section 4.5). It counts down while the core
 * is awake: the first time it is through it raises the NMI, which reports and
 * restarts; should that fail too, the second time resets the board. */
#include "board.h"
#include "firmware.h"

#define LOAD    ES_REG(ES_WATCHDOG + 0x000)
#define CONTROL ES_REG(ES_WATCHDOG + 0x008)
#define CLEAR   ES_REG(ES_WATCHDOG + 0x00C) /* and count from LOAD again */
#define LOCK    ES_REG(ES_WATCHDOG + 0xC00)

#ifndef ES_WATCHDOG_MS
#define ES_WATCHDOG_MS 8000u
#endif

enum { INTERRUPT = 1, RESET = 2 };

void es_watchdog_start(void)
{
    LOCK = 0x1ACCE551u; /* writes are let through from now on */
    LOAD = ES_WATCHDOG_HZ / 1000 * ES_WATCHDOG_MS;
    es_watchdog_feed();
}

void es_watchdog_feed(void)
{
    CLEAR = 1;
    CONTROL = INTERRUPT | RESET;
}

void es_watchdog_pause(void)
{
    CONTROL = 0;
}
