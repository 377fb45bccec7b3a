/* Reset and fault handling shared by every emulated Cortex-M board.
 *
 * A fault prints its registers and ends the run with exit status 1 at once, so
 * that a crash is a failed test and not a timeout. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t __bss_start[], __bss_end[], __stack_top[];
extern void initialise_monitor_handles(void); /* newlib: semihosted stdio */
extern int main(void);
void board_reset(void);
void es_fault_report(const uint32_t *frame);

/* System control block: Armv7-M ARM B3.2, Armv8-M ARM D1.2. */
#define SCB_VTOR  (*(volatile uint32_t *)0xE000ED08u)
#define SCB_CFSR  (*(volatile uint32_t *)0xE000ED28u)
#define SCB_HFSR  (*(volatile uint32_t *)0xE000ED2Cu)
#define SCB_BFAR  (*(volatile uint32_t *)0xE000ED38u)
#define SCB_CPACR (*(volatile uint32_t *)0xE000ED88u)

enum { SYS_WRITE0 = 0x04, SYS_EXIT = 0x18, RUN_TIME_ERROR = 0x20023 };

static int semihost(int op, const void *arg)
{
    register int r0 __asm("r0") = op;
    register const void *r1 __asm("r1") = arg;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void say(const char *name, uint32_t value)
{
    char text[9];
    for (int i = 7; i >= 0; i--, value >>= 4)
        text[i] = "0123456789abcdef"[value & 15];
    text[8] = '\0';
    (void)semihost(SYS_WRITE0, name);
    (void)semihost(SYS_WRITE0, text);
}

/* frame: what the core stacked on exception entry, r0-r3 r12 lr pc xpsr */
__attribute__((used)) void es_fault_report(const uint32_t *frame)
{
    say("FAULT pc=0x", frame[6]);
    say(" lr=0x", frame[5]);
    say(" cfsr=0x", SCB_CFSR);
    say(" hfsr=0x", SCB_HFSR);
    say(" bfar=0x", SCB_BFAR);
    (void)semihost(SYS_WRITE0, "\n");
    (void)semihost(SYS_EXIT, (const void *)RUN_TIME_ERROR);
    for (;;) {
    }
}

__attribute__((naked)) static void fault(void)
{
    __asm volatile("mov r0, sp\n\tb es_fault_report");
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    __stack_top,   (void *)board_reset, (void *)fault, (void *)fault,
    (void *)fault, (void *)fault,       (void *)fault, (void *)fault,
    (void *)fault, (void *)fault,       (void *)fault, (void *)fault,
    (void *)fault, (void *)fault,       (void *)fault, (void *)fault,
};

void board_reset(void)
{
    SCB_CPACR |= 0xFu << 20; /* FPU and MVE on, before any code may use them */
    __asm volatile("dsb\n\tisb");
    SCB_VTOR = (uint32_t)(uintptr_t)vectors;
    for (uint32_t *p = __bss_start; p < __bss_end; p++)
        *p = 0;
    initialise_monitor_handles();
    exit(main());
}
