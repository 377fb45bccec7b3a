/* Reset, vectors, and the stack: painted to see how deep it gets, and guarded
 * so that it cannot grow into the arena unseen. */
#include "board.h"
#include "firmware.h"

#include <string.h>

extern uint32_t __bss_start[], __bss_end[], end[], __stack_end[], __stack_top[];
extern uint8_t __data_start[];
int main(void);
void board_reset(void);

/* Armv7-M ARM B3.2 and B3.5, Armv8-M ARM D1.2. */
#define SCB_VTOR  ES_REG(0xE000ED08u)
#define SCB_CPACR ES_REG(0xE000ED88u)
#define MPU_CTRL  ES_REG(0xE000ED94u)
#define MPU_RNR   ES_REG(0xE000ED98u)
#define MPU_RBAR  ES_REG(0xE000ED9Cu)
#define MPU_RASR  ES_REG(0xE000EDA0u)

enum { GUARD = 32, IRQS = 64 };
#define PAINT 0x5AC5C5A5u

uint8_t *es_arena(uint32_t *size)
{
    uintptr_t start = ((uintptr_t)end + ES_ALIGN - 1) / ES_ALIGN * ES_ALIGN;
    *size = (uint32_t)((uintptr_t)__stack_end - start) & ~(ES_ALIGN - 1u);
    return (uint8_t *)start;
}

void es_memory_of(es_link_memory *to)
{
    const uint32_t *at = __stack_end + GUARD / 4;

    while (at < __stack_top && *at == PAINT) {
        at++;
    }
    to->stack = (uint32_t)(__stack_top - __stack_end) * 4 - GUARD;
    to->stack_max = (uint32_t)(__stack_top - at) * 4;
    to->fixed = (uint32_t)((uint8_t *)end - __data_start);
    (void)es_arena(&to->arena);
    to->cause = es_cause_of_start(&to->pc);
}

/* A push below the stack is a fault. */
static void guard_stack(void)
{
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    __asm volatile("msr msplim, %0" ::"r"(__stack_end + GUARD / 4));
#else
    enum { NO_ACCESS = 1u << 28, BYTES_32 = 4 << 1, ON = 1, BACKGROUND = 4 };
    MPU_RNR = 0;
    MPU_RBAR = (uint32_t)(uintptr_t)__stack_end;
    MPU_RASR = NO_ACCESS | BYTES_32 | ON;
    MPU_CTRL = BACKGROUND | ON;
#endif
    __asm volatile("dsb\n\tisb");
}

__attribute__((section(".vectors"),
               used)) static void *const vectors[16 + IRQS] = {
    __stack_top,
    (void *)board_reset,
    [2 ... 14] = (void *)es_on_fault,
    [15] = (void *)es_on_period,
    [16 ... 15 + IRQS] = (void *)es_uart_irq, /* the only ones enabled */
};

__attribute__((noreturn, used)) static void go_on(void)
{
    SCB_CPACR |= 0xFu << 20; /* FPU and MVE on, before any code may use them */
    __asm volatile("dsb\n\tisb");
    SCB_VTOR = (uint32_t)(uintptr_t)vectors;
    memset(__bss_start, 0,
           (size_t)((uint8_t *)__bss_end - (uint8_t *)__bss_start));
    guard_stack();
    (void)main();
    for (;;) {
    }
}

/* In assembly, as it paints the stack it would stand on. */
__attribute__((naked)) void board_reset(void)
{
    __asm volatile("cpsid i\n\t"
                   "mov sp, %1\n\t"
                   "mov r0, %0\n"
                   "1:\tcmp r0, %1\n\t"
                   "it lo\n\t"
                   "strlo %2, [r0], #4\n\t"
                   "blo 1b\n\t"
                   "b go_on" ::"r"(__stack_end),
                   "r"(__stack_top), "r"(PAINT)
                   : "r0", "cc", "memory");
}
