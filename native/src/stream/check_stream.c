/* I-70 to I-73: the table Stream and what belongs to it. */
#include "plan/check.h"
#include "plan/fb.h"
#include "stream/stream.h"

enum {
    MAX_NUMBER = 1 << 24, /* columns, runs, samples */
    MAX_TAPS = 1024,
    MAX_CLASSES = 16,
    MAX_STEP = 8192 /* samples from one output column to the next */
};

/* I-70: columns and runs. */
static bool schedule_is_right(const es_root *root, const es_stream_table *t)
{
    es_tensor tensor;

    es_tensor_view(root, es_io_tensor(root->inputs, 0), &tensor);
    if (root->inputs.count != 1 || t->hop != tensor.place->columns ||
        t->first_run > MAX_NUMBER) {
        return false;
    }
    if (t->mode == ES_STREAM_INCREMENTAL) {
        return t->window >= t->hop && t->window <= MAX_NUMBER &&
               t->lead == (t->hop - t->window % t->hop) % t->hop &&
               t->first_run == (t->window + t->lead) / t->hop - 1 &&
               t->stride == 0 && t->behind == 0 && t->exact == 0;
    }
    if (t->mode != ES_STREAM_CONTINUOUS || t->window != 0 || t->lead != 0 ||
        t->stride == 0 || t->hop % t->stride != 0 || t->behind > MAX_NUMBER ||
        t->exact > MAX_NUMBER) {
        return false;
    }
    for (uint32_t i = 0; i < root->outputs.count; i++) {
        es_tensor_view(root, es_io_tensor(root->outputs, i), &tensor);
        if (tensor.place->columns != t->hop / t->stride) {
            return false;
        }
    }
    return t->first_run == (t->behind + t->exact) / (t->hop / t->stride);
}

/* I-70: the promise of `delay`. */
static uint64_t delay_of(const es_stream_table *t)
{
    uint64_t decimation = t->front_end.decimation;
    uint64_t step = t->stride * decimation;
    uint64_t wait = (uint64_t)(t->hop - t->stride) * decimation;

    if (!ES_HAS_BEATS || !t->has_beats) {
        return t->hop * decimation - 1;
    }
    /* I-72: never negative */
    return (uint64_t)((int64_t)(step * (3 + t->behind) + wait +
                                t->beats.refractory) -
                      1 - (int64_t)decimation - t->beats.position_shift);
}

/* I-70: the state stands behind the rings. */
static bool state_fits(const es_root *root, const es_stream_table *t)
{
    es_tensor input, output;
    uint64_t end = (uint64_t)4 * root->ring_count;

    es_tensor_view(root, es_io_tensor(root->inputs, 0), &input);
    es_tensor_view(root, es_io_tensor(root->outputs, 0), &output);
    if (root->ring_count > 0) {
        const es_ring *last = &root->rings[root->ring_count - 1];
        end = last->offset + (uint64_t)last->columns * last->channels;
    }
    return t->state_offset % 8 == 0 && t->state_offset >= end &&
           t->state_offset + es_stream_bytes(t, input.place->channels,
                                             output.place->channels - 1) <=
               root->state_bytes;
}

/* I-71. */
static bool front_end_is_right(const es_front_end *f)
{
    uint64_t sum = 0;
    uint32_t shift = (uint32_t)f->tap_bits - f->fraction_bits;

    if (f->taps.count < 1 || f->taps.count > MAX_TAPS || f->tap_bits > 30 ||
        f->fraction_bits > f->tap_bits || f->decimation < 1 ||
        f->dc_shift > 16 || f->multiplier < 0 || f->shift < 1 ||
        f->shift > 62) {
        return false;
    }
    for (uint32_t i = 0; i < f->taps.count; i++) {
        int32_t tap = f->taps.data[i];
        sum += (uint64_t)(tap < 0 ? -tap : tap) << 15;
    }
    /* sums, and the DC blocker's mean, twice the largest value */
    return sum <= INT32_MAX &&
           ((sum >> shift) + 1) << (f->dc_shift == 0 ? 1 : f->dc_shift) <=
               INT32_MAX;
}

static bool fits(es_u16s table, uint8_t bits)
{
    if (table.count != 256) {
        return false;
    }
    for (uint32_t i = 0; i < table.count; i++) {
        if (table.data[i] > 1u << bits) {
            return false;
        }
    }
    return true;
}

/* I-72. */
static bool beats_are_right(const es_root *root, const es_stream_table *t)
{
    const es_beats *b = &t->beats;
    uint64_t step = (uint64_t)t->stride * t->front_end.decimation;
    es_tensor output;

    es_tensor_view(root, es_io_tensor(root->outputs, 0), &output);
    return t->mode == ES_STREAM_CONTINUOUS && output.place->channels >= 2 &&
           output.place->channels <= 1 + MAX_CLASSES && b->p_bits >= 1 &&
           b->p_bits <= 15 && fits(b->probability, b->p_bits) &&
           fits(b->power, b->p_bits) && b->power.data[0] > 0 &&
           step <= MAX_STEP && b->position_shift >= -MAX_NUMBER &&
           b->position_shift <= 0 && b->refractory <= MAX_NUMBER;
}

/* I-73. */
static bool quality_is_right(const es_quality *q)
{
    return q->flat_samples <= MAX_NUMBER &&
           q->saturated_samples <= MAX_NUMBER && q->missing_run <= MAX_NUMBER &&
           q->missing_window <= 4096 && q->missing_window % 8 == 0 &&
           q->noise_samples <= 1 << 14 && q->noise_margin <= q->noise_limit &&
           q->missing_margin <= q->missing_most && q->recover_samples >= 1 &&
           q->recover_samples <= MAX_NUMBER &&
           q->settle_samples <= MAX_NUMBER && q->guard_samples <= MAX_NUMBER;
}

bool es_check_stream(es_check *check)
{
    const es_root *root = &check->root;
    es_stream_table t;
    es_tensor input;

    if (!ES_HAS_STREAM || !es_stream_view(root, &t)) {
        return true;
    }
    es_tensor_view(root, es_io_tensor(root->inputs, 0), &input);
    if (!schedule_is_right(root, &t)) {
        return es_refuse(check, 70, -1);
    }
    if (ES_HAS_FRONT_END && t.has_front_end &&
        (input.place->channels != 1 || !front_end_is_right(&t.front_end))) {
        return es_refuse(check, 71, -1);
    }
    if (ES_HAS_BEATS && t.has_beats && !beats_are_right(root, &t)) {
        return es_refuse(check, 72, -1);
    }
    if (ES_HAS_QUALITY && t.has_quality &&
        (input.place->channels != 1 || !quality_is_right(&t.quality))) {
        return es_refuse(check, 73, -1);
    }
    return (t.delay == delay_of(&t) && state_fits(root, &t)) ||
           es_refuse(check, 70, -1);
}
