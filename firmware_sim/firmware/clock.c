/* The clock of sessions: the board's ticks or, where the emulator's host says
 * how long an instruction takes, instructions.
 *
 * A tick is 40 or 50 ns. Where an instruction takes at least 128, the ticks
 * between two readings tell to the instruction how many there were: a reading
 * is less than a tick off. So each interval is rounded by itself, and sums of
 * intervals are exact. */
#include "board.h"
#include "firmware.h"

enum { PER_SECOND = 1000000000, SHIFT_MOST = 15 };
#define SAYS_SHIFT 0x49434E00u /* and the shift: 2^shift ns an instruction */

extern const volatile uint32_t __host_word[];

static uint32_t per_tick; /* instructions a tick, times 2^24; 0: ticks */
static uint32_t before, instructions;

bool es_host_shift(uint32_t *shift)
{
    *shift = __host_word[0] - SAYS_SHIFT;
    return *shift <= SHIFT_MOST;
}

uint32_t es_clock_start(void)
{
    uint32_t shift;

    if (!es_host_shift(&shift)) {
        return ES_TICKS;
    }
    per_tick = (uint32_t)(((uint64_t)PER_SECOND << 24) /
                          ((uint64_t)ES_TICKS << shift));
    before = es_ticks();
    return (uint32_t)PER_SECOND >> shift;
}

uint32_t es_clock(void)
{
    uint32_t now = es_ticks();
    const uint64_t half = 1u << 23;

    if (per_tick == 0) {
        return now;
    }
    instructions +=
        (uint32_t)(((uint64_t)(now - before) * per_tick + half) >> 24);
    before = now;
    return instructions;
}
