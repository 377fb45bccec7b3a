/* What the firmware dies of. It says so on the line, as text outside frames:
 * a zero byte and a newline before it end whatever frame is open, and a zero
 * byte behind it is a fresh start. Then it starts again; the store sees to it
 * that a plan on trial is not started for ever. With a debugger (semihosting)
 * behind the core the run ends there, with exit status 1. */
#include "board.h"
#include "firmware.h"

#define SCB_AIRCR ES_REG(0xE000ED0Cu)
#define SCB_CFSR  ES_REG(0xE000ED28u)
#define SCB_HFSR  ES_REG(0xE000ED2Cu)
#define SCB_BFAR  ES_REG(0xE000ED38u)

enum { SYS_WRITE0 = 0x04, SYS_EXIT = 0x18, SYS_TIME = 0x11 };
#define RUN_TIME_ERROR 0x20023u
#define DEBUG_EVENT    (1u << 31) /* of HFSR: a breakpoint without a debugger */
#define RESET_REQUEST  0x05FA0004u
#define LEFT_BEHIND    0x45535750u

/* Not cleared at a start. */
static struct {
    uint32_t magic, cause, pc, failures;
} last __attribute__((section(".noinit")));

static es_cause cause;
static uint32_t cause_pc;
static bool no_debugger;
static volatile uint32_t probing __attribute__((used));

void es_fault_report(const uint32_t *frame);
void es_fault_probed(uint32_t *frame);

uint32_t es_failures(void)
{
    return last.failures;
}

es_cause es_cause_of_start(uint32_t *pc)
{
    *pc = cause_pc;
    return cause;
}

void es_restart(es_cause why, uint32_t pc)
{
    last.magic = LEFT_BEHIND;
    last.cause = why;
    last.pc = pc;
    last.failures = why == ES_CAUSE_ASKED ? 0 : last.failures + 1;
    __asm volatile("dsb");
    SCB_AIRCR = RESET_REQUEST;
    for (;;) {
    }
}

/* ---- semihosting ---- */

static uint32_t semihost(uint32_t op, const void *arg)
{
    register uint32_t r0 __asm("r0") = op;
    register const void *r1 __asm("r1") = arg;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* Is anybody there? Without, the breakpoint is a fault, see es_on_fault. */
static void probe(void)
{
    probing = 1;
    (void)semihost(SYS_TIME, NULL);
    probing = 0;
}

void es_fault_start(void)
{
    if (last.magic == LEFT_BEHIND) {
        cause = (es_cause)last.cause;
        cause_pc = last.pc;
    } else {
        last.failures = 0;
    }
    last.magic = 0;
    probe();
}

/* ---- the reports ---- */

static void put_hex(char *at, uint32_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 4) {
        at[i] = "0123456789abcdef"[value & 15];
    }
}

static void say(const char *text)
{
    es_uart_say(text);
    if (!no_debugger) {
        (void)semihost(SYS_WRITE0, text);
    }
}

static void say_register(const char *name, uint32_t value)
{
    char text[9] = "";
    put_hex(text, value);
    say(name);
    say(text);
}

__attribute__((noreturn)) static void finish(es_cause why, uint32_t pc)
{
    say("\n");
    es_uart_say(NULL);
    if (!no_debugger) {
        (void)semihost(SYS_EXIT, (const void *)(uintptr_t)RUN_TIME_ERROR);
    }
    es_restart(why, pc);
}

/* frame: what the core stacked on entry: r0-r3, r12, lr, pc, xpsr */
__attribute__((used)) void es_fault_report(const uint32_t *frame)
{
    es_uart_say(NULL);
    say_register("FAULT pc=0x", frame[6]);
    say_register(" lr=0x", frame[5]);
    say_register(" cfsr=0x", SCB_CFSR);
    say_register(" hfsr=0x", SCB_HFSR);
    say_register(" bfar=0x", SCB_BFAR);
    finish(ES_CAUSE_FAULT, frame[6]);
}

void es_watchdog_report(const uint32_t *frame)
{
    es_uart_say(NULL);
    say_register("WATCHDOG pc=0x", frame[6]);
    say_register(" lr=0x", frame[5]);
    finish(ES_CAUSE_WATCHDOG, frame[6]);
}

/* The breakpoint of probe(): step over it. */
__attribute__((used)) void es_fault_probed(uint32_t *frame)
{
    probing = 0;
    no_debugger = true;
    SCB_HFSR = DEBUG_EVENT;
    frame[6] += 2;
}

/* The stack may be what is wrong: the report stands on a fresh one, at its
 * top, which nobody needs any more, and no guard is in its way. */
__attribute__((naked)) void es_on_fault(void)
{
    __asm volatile("mov r0, sp\n\t"
                   "ldr r1, =probing\n\t"
                   "ldr r1, [r1]\n\t"
                   "cmp r1, #0\n\t"
                   "bne es_fault_probed\n\t"
                   "ldr r1, =0xE000ED94\n\t" /* MPU_CTRL: off */
                   "mov r2, #0\n\t"
                   "str r2, [r1]\n\t"
                   "ldr r1, =__stack_top\n\t"
                   "mov sp, r1\n\t"
                   "b es_fault_report\n\t"
                   ".ltorg");
}
