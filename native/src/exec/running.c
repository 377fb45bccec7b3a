/* Sums over a window that moves: PLAN_FORMAT.md section 4, Running.
 *
 * The ring holds the sum of each channel over the window, int32, then an entry
 * per block of columns: the sum of each channel over the block. All sums are
 * of value - zero point and fit int32 (I-43), but for the one over the window
 * between the two blocks of a run, when more columns are in it. */
#include "exec/exec.h"

static uint8_t *storage(const es_exec *x, const es_level *level)
{
    return x->arena + x->root->rings[level->running.ring].offset;
}

/* An entry has the lowest bits of its sum, which is at least `low`: sums of a
 * value of int8, of up to 256 and of more differ by less than its bits hold. */
static int32_t entry_sum(const uint8_t *entry, uint32_t bytes, int32_t low)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        bits |= (uint32_t)entry[i] << 8 * i;
    }
    return low +
           (int32_t)((bits - (uint32_t)low) & UINT32_MAX >> (32 - 8 * bytes));
}

static void set_entry(uint8_t *entry, uint32_t bytes, int32_t sum)
{
    for (uint32_t i = 0; i < bytes; i++) {
        entry[i] = (uint8_t)((uint32_t)sum >> 8 * i);
    }
}

void es_running_push(const es_exec *x, const es_level *level, uint32_t leaving)
{
    uint32_t ring = level->running.ring;
    uint32_t bytes = es_running_entry_bytes(&level->running);
    uint32_t channels = x->lane.branch.channels;
    uint32_t head = es_ring_head(x->arena, ring);
    int32_t low = (INT8_MIN - level->in_zero_point) * (int32_t)leaving;
    int32_t *sums = (int32_t *)(void *)level->buffer; /* 4-aligned: I-16 */
    uint8_t *total = storage(x, level);
    uint8_t *entry = total + (4 + (size_t)head * bytes) * channels;

    for (uint32_t channel = 0; channel < channels; channel++) {
        uint32_t all; /* modulo 2^32 */
        memcpy(&all, total, sizeof all);
        all += (uint32_t)sums[channel];
        all -= (uint32_t)entry_sum(entry, bytes, low);
        memcpy(total, &all, sizeof all);
        set_entry(entry, bytes, sums[channel]);
        sums[channel] = 0;
        total += sizeof all;
        entry += bytes;
    }
    head++;
    es_ring_set_head(x->arena, ring,
                     head < es_running_entries(&level->running) ? head : 0);
}

void es_running_total(const es_exec *x, const es_level *level)
{
    memcpy(level->buffer, storage(x, level),
           x->lane.branch.channels * sizeof(int32_t));
}
