/* Where things are on the emulated boards. All four have the same CMSDK UART
 * and FPGAIO counter, at other addresses. */
#ifndef ES_BOARD_H
#define ES_BOARD_H

#include <stdint.h>

#define ES_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

#if defined(ES_MACHINE_mps2_an386) || defined(ES_MACHINE_mps2_an500)
#define ES_UART     0x40004000u
#define ES_FPGAIO   0x40028000u
#define ES_TICKS    25000000u /* of the FPGAIO counter, per second */
#define ES_CORE     25000000u /* of the core and SysTick */
#define ES_UART_IRQ 0u        /* receive; transmit is the next one */
#if defined(ES_MACHINE_mps2_an500)
#define ES_NVM 0x60000000u
#else
#define ES_NVM 0x21000000u
#endif
#elif defined(ES_MACHINE_mps2_an505)
#define ES_UART     0x50200000u
#define ES_FPGAIO   0x50302000u
#define ES_TICKS    20000000u
#define ES_CORE     20000000u
#define ES_UART_IRQ 32u
#define ES_NVM      0x80000000u
#elif defined(ES_MACHINE_mps3_an547)
#define ES_UART     0x59303000u
#define ES_FPGAIO   0x59302000u
#define ES_TICKS    20000000u /* QEMU's; the board's is 32 MHz */
#define ES_CORE     32000000u
#define ES_UART_IRQ 33u
#define ES_NVM      0x70000000u
#else
#error "no such board"
#endif

/* A counter that runs up for ever, ES_TICKS a second. */
static inline uint32_t es_ticks(void)
{
    return ES_REG(ES_FPGAIO + 0x18);
}

static inline void es_irq_off(void)
{
    __asm volatile("cpsid i" ::: "memory");
}

static inline void es_irq_on(void)
{
    __asm volatile("cpsie i" ::: "memory");
}

#endif /* ES_BOARD_H */
