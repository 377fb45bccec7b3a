/* The CMSDK UART (Arm DUI0479, section 4.3) with a ring each way. */
#include "board.h"
#include "firmware.h"

#define DATA           ES_REG(ES_UART + 0x00)
#define STATE          ES_REG(ES_UART + 0x04)
#define CONTROL        ES_REG(ES_UART + 0x08)
#define INTCLEAR       ES_REG(ES_UART + 0x0C) /* reads as the status */
#define BAUD           ES_REG(ES_UART + 0x10)
#define NVIC_ISER(irq) ES_REG(0xE000E100u + (irq) / 32 * 4)
#define NVIC_IPR(irq)  (*(volatile uint8_t *)(0xE000E400u + (irq)))

enum {
    TX_FULL = 1,
    RX_FULL = 2,
    RX_LOST = 8, /* of STATE: written back, it is cleared */
    TX_ON = 1,
    RX_ON = 2,
    TX_IRQ = 4,
    RX_IRQ = 8,
    RING = 2048, /* a power of two; two requests of 1 KiB */
    PATIENCE = 1 /* seconds */
};

/* One side puts, the other takes: neither writes the other's number. */
typedef struct ring {
    uint8_t bytes[RING];
    volatile uint32_t put, taken;
} ring;

static ring rx, tx;
static volatile uint32_t lost;
static uint32_t lost_told;

static bool full(const ring *r)
{
    return r->put - r->taken == RING;
}

static void send_waiting(void)
{
    while ((STATE & TX_FULL) == 0 && tx.put != tx.taken) {
        DATA = tx.bytes[tx.taken % RING];
        tx.taken++;
    }
}

void es_uart_irq(void)
{
    INTCLEAR = INTCLEAR;
    if ((STATE & RX_LOST) != 0) { /* stays set until it is cleared */
        STATE = RX_LOST;
        lost++;
    }
    while ((STATE & RX_FULL) != 0) {
        uint8_t byte = (uint8_t)DATA;
        if (full(&rx)) {
            lost++;
        } else {
            rx.bytes[rx.put % RING] = byte;
            rx.put++;
        }
    }
    send_waiting();
}

void es_uart_start(void)
{
    BAUD = ES_CORE / 115200; /* QEMU has no baud rate, a board has */
    CONTROL = TX_ON | RX_ON | TX_IRQ | RX_IRQ;
    /* QEMU's UART does not tell its main loop that it takes bytes from now on;
     * a read of DATA does. Else the first byte may wait for ever. */
    (void)DATA;
    for (uint32_t irq = ES_UART_IRQ; irq < ES_UART_IRQ + 2; irq++) {
        NVIC_IPR(irq) = 0x80; /* below the watchdog */
        NVIC_ISER(irq) = 1u << irq % 32;
    }
}

bool es_uart_get(uint8_t *byte)
{
    if (es_uart_is_empty()) {
        return false;
    }
    *byte = rx.bytes[rx.taken % RING];
    rx.taken++;
    return true;
}

bool es_uart_is_empty(void)
{
    return rx.put == rx.taken;
}

uint32_t es_uart_lost(void)
{
    uint32_t now = lost, more = now - lost_told;
    lost_told = now;
    return more;
}

static void kick(void)
{
    es_irq_off();
    send_waiting();
    es_irq_on();
}

/* False: nobody has read for too long. */
static bool wait_below(uint32_t waiting)
{
    uint32_t since = es_ticks(), before = tx.taken;

    kick();
    while (tx.put - tx.taken > waiting) {
        if (tx.taken != before) {
            before = tx.taken;
            since = es_ticks();
        } else if (es_ticks() - since > PATIENCE * ES_TICKS) {
            return false;
        }
    }
    return true;
}

void es_uart_send(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (full(&tx) && !wait_below(RING - 1)) {
            return;
        }
        tx.bytes[tx.put % RING] = bytes[i];
        tx.put++;
    }
    kick();
}

void es_uart_drain(void)
{
    (void)wait_below(0);
}

/* NULL: a zero byte and a newline. */
void es_uart_say(const char *text)
{
    static const char frame_end[2] = {'\0', '\n'};
    const char *at = text == NULL ? frame_end : text;
    const char *stop = text == NULL ? frame_end + 2 : NULL;

    for (; stop == NULL ? *at != '\0' : at != stop; at++) {
        uint32_t since = es_ticks();
        while ((STATE & TX_FULL) != 0 && es_ticks() - since < ES_TICKS) {
        }
        DATA = (uint8_t)*at;
    }
}
