/* I-50 to I-58, and I-43 and I-46 of a Mac: weights, their order, sums of a
 * row. */
#include <string.h>

#include "plan/check.h"
#include "weights/weights.h"

/* I-51: every number below `count` once, found 2,048 numbers at a time: 256
 * bytes of stack, at most 32 passes. */
static bool is_permutation(es_u16s order, uint32_t count)
{
    uint32_t seen[64];

    for (uint32_t base = 0; base < count; base += 64 * 32) {
        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = order.data[i] - base; /* below base: wraps, is big */
            if (order.data[i] >= count) {
                return false;
            }
            if (at < 64 * 32) {
                uint32_t bit = (uint32_t)1 << at % 32;
                if (seen[at / 32] & bit) {
                    return false;
                }
                seen[at / 32] |= bit;
            }
        }
    }
    return true;
}

/* The note about a weight matrix; NULL: it has not been seen, or too long ago.
 * Its row groups and their number of columns are all that counts: the rest of
 * Weights is checked each time. */
static es_seen *find_seen(es_check *check, const es_weights *w)
{
    for (uint32_t i = 0; i < ES_SEEN_WEIGHTS; i++) {
        if (check->seen[i].groups == w->groups.data &&
            check->seen[i].cols == w->cols) {
            return &check->seen[i];
        }
    }
    return NULL;
}

bool es_check_weights(es_check *check, const es_mac *mac)
{
    const es_geometry *g = mac->geometry;
    const es_weights *w = &mac->weights;
    uint64_t taps = (uint64_t)g->kernel_h * g->kernel_w;
    bool seen = find_seen(check, w) != NULL;
    uint32_t next_row = 0;

    if (w->rows != g->rows || w->cols != taps * (g->in_c / g->groups) ||
        w->cols > ES_MAX_COLUMNS || mac->bias.count != w->rows ||
        mac->bias_form > ES_BIAS_PLAIN) {
        return es_refuse(check, 50, -1);
    }
    for (uint32_t i = 0; i < w->groups.count; i++) {
        es_row_group group;
        uint16_t broken;
        es_row_group_view(w, i, &group);
        if (group.first_row != next_row || group.row_count < 1 ||
            group.row_count > w->rows - next_row) {
            return es_refuse(check, 51, (int32_t)i);
        }
        next_row += group.row_count;
        broken = seen ? 0 : es_weights_check(&group, w->cols);
        if (broken != 0) {
            return es_refuse(check, broken, (int32_t)i);
        }
    }
    if (next_row != w->rows) {
        return es_refuse(check, 51, -1);
    }
    if (w->row_order.data != NULL && (w->row_order.count != w->rows ||
                                      !is_permutation(w->row_order, w->rows))) {
        return es_refuse(check, 51, -1);
    }
    return true;
}

/* The first stage of the branch an output channel belongs to. */
typedef struct es_head {
    uint32_t first, end; /* channels of the branch */
    es_i8s shift;        /* of its Requant; count 0: AddSingleRequant */
} es_head;

static void find_head(const es_step *step, uint32_t channel, es_head *head)
{
    es_branch branch;
    es_stage stage;
    uint32_t b = 0;

    do {
        es_branch_view(step, b++, &branch);
    } while (channel - branch.first_channel >= branch.channels);
    es_stage_view(&branch, 0, &stage);
    head->first = branch.first_channel;
    head->end = branch.first_channel + branch.channels;
    head->shift = stage.shift;
    if (stage.kind == ES_STAGE_ADD_SINGLE_REQUANT) {
        head->shift.count = 0;
    }
}

/* The most that the sum of a row can be. */
static uint64_t reach_of(const es_mac *mac, uint32_t channel, uint64_t weights)
{
    uint64_t input = mac->bias_form == ES_BIAS_FOLDED ? 128 : 255;
    int64_t bias = mac->bias.data[channel];
    return (uint64_t)(bias < 0 ? -bias : bias) + input * weights;
}

/* Whether a sum fits, and what scaling makes of it with `room` to spare. */
static bool sum_fits(uint64_t most, int shift, uint64_t room)
{
    const uint64_t limit = (uint64_t)1 << 31;
    return most < limit && (shift > 0 ? most << shift : most) < limit - room;
}

/* Sums of |weight| of the rows of the row block the iterator stands at. */
static void add_up(es_weight_iter *it, uint64_t sums[ES_MAX_BLOCK_ROWS])
{
    es_block block;
    memset(sums, 0, ES_MAX_BLOCK_ROWS * sizeof sums[0]);
    while (es_weights_next(it, &block)) {
        for (uint32_t r = 0; r < block.rows; r++) {
            const int8_t *row = block.values + (size_t)r * block.stride;
            uint64_t sum = 0;
            for (uint32_t c = 0; c < block.cols; c++) {
                int weight = row[c];
                sum += (uint64_t)(weight < 0 ? -weight : weight);
            }
            sums[r] += sum;
        }
    }
}

/* What the sums of every row of a matrix are held against. */
typedef struct es_sums {
    const es_sink *sink;
    const es_mac *mac;
    es_head head;  /* of the last channel looked at, without scales */
    uint64_t most; /* the largest sum of a row so far */
} es_sums;

static bool row_fits(es_sums *sums, uint32_t row, uint64_t weights)
{
    es_u16s order = sums->mac->weights.row_order;
    uint32_t channel = order.data == NULL ? row : order.data[row];
    uint64_t most = reach_of(sums->mac, channel, weights);
    const es_sink *sink = sums->sink;
    es_head *head = &sums->head;

    if (weights > sums->most) {
        sums->most = weights;
    }
    if (sink->scales != NULL) { /* I-46: an int16 is added */
        return sum_fits(most, sink->scales[channel / sink->block].shift,
                        1 << 16);
    }
    if (channel < head->first || channel >= head->end) {
        find_head(sink->step, channel, head);
    }
    if (head->shift.count == 0) {
        return sum_fits(most, 0, 0);
    }
    return sum_fits(
        most,
        head->shift.data[head->shift.count == 1 ? 0 : channel - head->first],
        256);
}

/* All rows of a matrix whose largest sum is known: nearly always it fits even
 * as the sum of each of them. */
static bool largest_fits(es_sums *sums, uint64_t weights)
{
    for (uint32_t row = 0; row < sums->mac->weights.rows; row++) {
        if (!row_fits(sums, row, weights)) {
            return false;
        }
    }
    return true;
}

bool es_check_sums(es_check *check, const es_sink *sink, const es_mac *mac)
{
    const es_weights *w = &mac->weights;
    es_sums sums = {sink, mac, {0, 0, {NULL, 0}}, 0};
    uint64_t block[ES_MAX_BLOCK_ROWS];
    es_seen *seen = find_seen(check, w);

    if (seen != NULL && largest_fits(&sums, seen->row_sum)) {
        return true;
    }
    sums.most = 0;
    for (uint32_t i = 0; i < w->groups.count; i++) {
        es_weight_iter it;
        es_row_group_view(w, i, &it.group); /* one copy on the stack */
        es_weights_begin(&it, &it.group, w->cols);
        while (es_weights_next_rows(&it)) {
            add_up(&it, block);
            for (uint32_t r = 0; r < it.rows; r++) {
                uint32_t row = it.group.first_row + it.row + r;
                if (!row_fits(&sums, row, block[r])) {
                    return es_refuse(check, sink->scales ? 46 : 43,
                                     (int32_t)row);
                }
            }
        }
    }
    if (seen == NULL) {
        seen = &check->seen[check->seen_next++ % ES_SEEN_WEIGHTS];
        seen->groups = w->groups.data;
        seen->cols = w->cols;
        seen->row_sum = sums.most;
    }
    return true;
}
