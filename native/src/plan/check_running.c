/* I-47: sums over a window that moves. */
#include "plan/check.h"

/* The pool sees each column that comes in once, in order. */
static bool takes_all(const es_window *w)
{
    return w->out_h == 1 && w->out_w == 1 && w->kernel_h == w->in_h &&
           w->kernel_w == w->in_w && w->pad_top == 0 && w->pad_left == 0;
}

static bool fits(const es_running *running, const es_ring *ring,
                 const es_flow *in)
{
    if (running->fresh < 1 || running->fresh > in->columns ||
        running->fresh > running->columns ||
        running->columns > ES_MAX_COLUMNS) {
        return false;
    }
    return ring->use == ES_RING_OF_SUMS && ring->zero_point == 0 &&
           ring->channels == in->channels &&
           ring->columns == 4 + es_running_entries(running) *
                                    es_running_entry_bytes(running);
}

uint16_t es_check_running(es_check *check, const es_stage *stage,
                          const es_flow *in)
{
    const es_running *running = &stage->running;
    if (!running->there) {
        return 0;
    }
    /* Rings in the order of the stages: none is taken twice. */
    if (running->ring < check->sums ||
        running->ring >= check->root.ring_count ||
        !fits(running, &check->root.rings[running->ring], in) ||
        (stage->window != NULL && !takes_all(stage->window))) {
        return 47;
    }
    check->sums = running->ring + 1u;
    return 0;
}
