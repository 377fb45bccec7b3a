/* The state of the signal: PLAN_FORMAT.md, "Streams". */
#include "stream/stream.h"

#include <string.h>

/* Past a limit, and so until a margin below it: a state must not change with
 * every sample of a signal that is near the limit. I-73: margin <= limit. */
static void judge_limit(es_quality_state *s, uint8_t which, uint32_t amount,
                        uint32_t limit, uint32_t margin)
{
    if ((s->beyond & which) != 0) {
        limit -= margin;
    }
    s->beyond =
        (uint8_t)(amount > limit ? s->beyond | which : s->beyond & ~which);
}

static void measure_missing(const es_quality *q, es_quality_state *s,
                            uint64_t now, bool missing)
{
    uint32_t at;
    uint8_t bit;

    if (!missing) {
        s->missing = 0;
    } else if (s->missing < UINT32_MAX) {
        s->missing++;
    }
    if (q->missing_window == 0 || (!missing && s->lost_count == 0)) {
        return;
    }
    at = es_modulo(now, q->missing_window);
    bit = (uint8_t)(1u << at % 8);
    if (!missing && !(s->lost[at / 8] & bit)) {
        return; /* as many are missing as before */
    }
    s->lost_count =
        (uint16_t)(s->lost_count - ((s->lost[at / 8] & bit) != 0) + missing);
    s->lost[at / 8] =
        (uint8_t)(missing ? s->lost[at / 8] | bit : s->lost[at / 8] & ~bit);
    judge_limit(s, ES_BEYOND_MISSING, s->lost_count, q->missing_most,
                q->missing_margin);
}

static void count(uint32_t *run, bool goes_on)
{
    if (!goes_on) {
        *run = 0;
    } else if (*run < UINT32_MAX) {
        ++*run;
    }
}

/* How long x has stayed where it is, and at the end of its range. */
static void measure_level(const es_quality *q, es_quality_state *s, int16_t x)
{
    int32_t moved = x - s->anchor;
    if (moved > q->flat_range || -moved > q->flat_range) {
        s->anchor = x;
        s->flat = 0;
    }
    count(&s->flat, true);
    count(&s->saturated, x >= q->saturation || -x >= q->saturation);
}

/* |second difference| <= 2^17, at most 2^14 of them (I-73): 2^31 */
static void measure_noise(const es_quality *q, es_quality_state *s, int16_t x)
{
    int32_t change = x - 2 * s->before[0] + s->before[1];

    s->before[1] = s->before[0];
    s->before[0] = x;
    if (q->noise_samples == 0) {
        return;
    }
    s->noise += (uint32_t)(change < 0 ? -change : change);
    s->noise_count++;
    if (s->noise_count == q->noise_samples) {
        uint32_t samples = q->noise_samples;
        judge_limit(s, ES_BEYOND_NOISE, s->noise, q->noise_limit * samples,
                    q->noise_margin * samples);
        s->noise = 0;
        s->noise_count = 0;
    }
}

/* The state this sample asks for, and for how many samples it has been so. */
static uint8_t active(const es_quality *q, const es_quality_state *s,
                      uint32_t *since)
{
    if (q->missing_run != 0 && s->missing > q->missing_run) {
        *since = s->missing;
        return ES_SIGNAL_MISSING;
    }
    if ((s->beyond & ES_BEYOND_MISSING) != 0) {
        *since = q->missing_window;
        return ES_SIGNAL_MISSING;
    }
    if (q->saturated_samples != 0 && s->saturated >= q->saturated_samples) {
        *since = s->saturated;
        return ES_SIGNAL_SATURATED;
    }
    if (q->flat_samples != 0 && s->flat >= q->flat_samples) {
        *since = s->flat;
        return ES_SIGNAL_FLAT;
    }
    if ((s->beyond & ES_BEYOND_NOISE) != 0) {
        *since = q->noise_samples;
        return ES_SIGNAL_NOISY;
    }
    return ES_SIGNAL_GOOD;
}

static uint32_t recover(const es_quality *q, es_quality_state *s, int64_t now)
{
    if (s->state == ES_SIGNAL_GOOD || ++s->calm < q->recover_samples) {
        return 0;
    }
    s->state = ES_SIGNAL_GOOD;
    s->mute_to = now + q->settle_samples;
    return ES_QUALITY_CHANGED | ES_QUALITY_SETTLE;
}

uint32_t es_quality_push(const es_quality *q, es_quality_state *s,
                         uint32_t delay, uint64_t samples, int16_t x,
                         bool missing)
{
    int64_t now = (int64_t)samples, start;
    uint32_t since = 0;
    uint8_t state;

    if (samples == 0) {
        s->anchor = s->before[0] = s->before[1] = x;
    }
    measure_missing(q, s, samples, missing);
    measure_level(q, s, x);
    measure_noise(q, s, x);
    state = active(q, s, &since);
    if (state == ES_SIGNAL_GOOD) {
        return recover(q, s, now);
    }
    s->calm = 0;
    if (state == s->state) {
        return 0;
    }
    start = now + 1 - since - q->guard_samples;
    /* Beats before the end of an earlier bad time may still be undecided;
     * in a bad time mute_to is the largest number. */
    if (s->mute_to > 0 && now - delay <= s->mute_to && s->mute_from < start) {
        start = s->mute_from;
    }
    s->mute_from = start;
    s->mute_to = INT64_MAX;
    s->state = state;
    return ES_QUALITY_CHANGED;
}
