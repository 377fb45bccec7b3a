/* The parts of the firmware. */
#ifndef ES_FIRMWARE_H
#define ES_FIRMWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edgesparse/link.h"
#include "edgesparse/store.h"

/* ---- memory (start.c): | .data .bss .noinit | arena | guard, stack | ---- */

uint8_t *es_arena(uint32_t *size);     /* aligned to ES_ALIGN */
void es_memory_of(es_link_memory *to); /* all but arena_used */

/* ---- why it starts, and what it dies of (fault.c) ---- */

typedef enum es_cause {
    ES_CAUSE_POWER,
    ES_CAUSE_ASKED,
    ES_CAUSE_FAULT,
    ES_CAUSE_WATCHDOG
} es_cause;

/* Of this start; pc: where the fault was, or where the watchdog struck. */
es_cause es_cause_of_start(uint32_t *pc);
/* Faults and hangs in a row: since the power came, or a reset was asked for. */
uint32_t es_failures(void);
/* First thing: read what the last run left behind. */
void es_fault_start(void);
__attribute__((noreturn)) void es_restart(es_cause cause, uint32_t pc);
/* frame: what the core stacked. */
__attribute__((noreturn)) void es_watchdog_report(const uint32_t *frame);
void es_on_fault(void); /* vector */

/* ---- UART (uart.c) ---- */

void es_uart_start(void);
bool es_uart_get(uint8_t *byte); /* false: nothing there */
bool es_uart_is_empty(void);
/* Bytes lost because nobody took them, since the last call. */
uint32_t es_uart_lost(void);
/* Waits where the ring is full, a second at most: then what is left is
 * dropped, nobody reads. */
void es_uart_send(const uint8_t *bytes, size_t size);
void es_uart_drain(void);       /* until all is sent, a second at most */
void es_uart_say(const char *); /* past the ring, when nothing else works */
void es_uart_irq(void);         /* vector */

/* ---- the clock of sessions (clock.c) ---- */

/* False: the emulator's host says nothing. Else an instruction takes 2^shift
 * ns. */
bool es_host_shift(uint32_t *shift);
/* Returns how much it runs up in a second. */
uint32_t es_clock_start(void);
uint32_t es_clock(void);

/* ---- watchdog (watchdog.c) ---- */

void es_watchdog_start(void);
void es_watchdog_feed(void);
void es_watchdog_pause(void); /* the core sleeps */
void es_on_period(void);      /* vector */

/* ---- plans (nvm.c, plans.c) ---- */

extern const es_flash es_nvm;
extern const es_store_hooks es_plan_hooks;
/* Whether this device takes a plan; ES_STORE_OK or the reason. */
es_store_status es_plan_fits(const uint8_t *bytes, uint32_t size, es_plan *plan,
                             es_info *info);
/* Bytes of the arena that a plan takes here, with its counters. */
uint32_t es_plan_ram(const es_info *info);

#endif /* ES_FIRMWARE_H */
