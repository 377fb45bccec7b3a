/* Running sums at their largest: between the two blocks of a run more columns
 * are in the sum than a window has, and it leaves int32 on its way. */
#include <stdio.h>
#include <string.h>

#include "exec/exec.h"

enum {
    WINDOW = 7000000,
    FRESH = 6000000,
    TAIL = WINDOW % FRESH,
    MOST = 255,  /* 127 less a zero point of -128 */
    STORAGE = 4, /* behind the head of the ring */
    BYTES = 4 + 3 * 4
};

static int32_t pushed(const es_exec *x, const es_level *level, int32_t sum,
                      uint32_t leaving)
{
    memcpy(level->buffer, &sum, sizeof sum);
    es_running_push(x, level, leaving);
    es_running_total(x, level);
    memcpy(&sum, level->buffer, sizeof sum);
    return sum;
}

int main(void)
{
    int32_t arena[(STORAGE + BYTES) / 4] = {0}, buffer = 0;
    es_ring ring;
    es_root root;
    es_exec x;
    es_level level;
    memset(&ring, 0, sizeof ring);
    memset(&root, 0, sizeof root);
    memset(&x, 0, sizeof x);
    memset(&level, 0, sizeof level);
    ring.offset = STORAGE;
    ring.columns = BYTES;
    ring.channels = 1;
    root.rings = &ring;
    x.arena = (uint8_t *)arena;
    x.root = &root;
    x.lane.branch.channels = 1;
    level.in_zero_point = INT8_MIN;
    level.buffer = (uint8_t *)&buffer;
    level.running.there = true;
    level.running.fresh = FRESH;
    level.running.columns = WINDOW;

    /* The first run comes after zero points, the others fill the window. */
    static const int32_t expected[] = {FRESH, WINDOW, WINDOW, WINDOW};
    int failures = 0;
    for (int run = 0; run < 4; run++) {
        pushed(&x, &level, MOST * (FRESH - TAIL), TAIL);
        int32_t total = pushed(&x, &level, MOST * TAIL, FRESH - TAIL);
        if (total != MOST * expected[run]) {
            printf("run %d: a sum of %ld instead of %ld\n", run, (long)total,
                   (long)(MOST * expected[run]));
            failures++;
        }
    }
    return failures != 0;
}
