/* The beat decoder: PLAN_FORMAT.md, "Streams". Step t is output column t. */
#include "stream/stream.h"

static uint32_t samples_per_step(const es_stream_session *s)
{
    return s->table.stride * s->table.front_end.decimation;
}

/* Step `back` steps before the newest one. Before the first, all is 0. */
static uint32_t slot(const es_beats_state *b, uint32_t back)
{
    return es_modulo(b->steps - 1 + ES_BEAT_STEPS - back, ES_BEAT_STEPS);
}

/* The softmax of the classes. e <= 2^15 (I-72), so e << p_bits <= 2^30. */
static void take_shares(const es_beats *table, const int8_t *logits,
                        uint32_t classes, uint16_t *share)
{
    int32_t largest = logits[0];
    uint32_t sum = 0;

    for (uint32_t k = 1; k < classes; k++) {
        largest = logits[k] > largest ? logits[k] : largest;
    }
    for (uint32_t k = 0; k < classes; k++) {
        sum += table->power.data[largest - logits[k]];
    }
    for (uint32_t k = 0; k < classes; k++) {
        uint32_t e = table->power.data[largest - logits[k]];
        share[k] = (uint16_t)((e << table->p_bits) / sum);
    }
}

/* The class with most votes of the three steps around the candidate, the
 * first of equal ones. A vote is at most 3 * 2^15 * 2^15 < 2^32. */
static uint8_t vote(const es_stream_session *s)
{
    const es_beats_state *b = s->beats;
    const uint32_t at[] = {slot(b, 1), slot(b, 2), slot(b, 3)};
    uint32_t most = 0;
    uint8_t kind = 0;

    for (uint32_t k = 0; k < s->classes; k++) {
        uint32_t votes = 0;
        for (uint32_t i = 0; i < 3; i++) {
            votes += b->p[at[i]] * b->share[at[i] * s->classes + k];
        }
        if (votes > most) {
            most = votes;
            kind = (uint8_t)k;
        }
    }
    return kind;
}

/* Whether the step two before the newest is a maximum above the threshold. */
static bool find_candidate(const es_stream_session *s, es_beat *beat)
{
    const es_beats_state *b = s->beats;
    const es_beats *table = &s->table.beats;
    uint32_t p[ES_BEAT_STEPS], at, before, sum, after, lean;

    if (b->steps < 3) {
        return false;
    }
    at = slot(b, 0);
    for (uint32_t k = ES_BEAT_STEPS; k-- > 0;) {
        p[k] = b->p[at];
        at = (at > 0 ? at : ES_BEAT_STEPS) - 1;
    }
    before = p[0] + p[1] + p[2];
    sum = p[1] + p[2] + p[3];
    after = p[2] + p[3] + p[4];
    /* the first step has none before it */
    if (sum <= table->threshold || (b->steps != 3 && sum <= before) ||
        sum < after) {
        return false;
    }
    /* at most (0 + 1 + 2 + 3 + 4) * 2^15 * 2^13 < 2^32; p[..] are not all 0 */
    lean = p[1] + 2 * p[2] + 3 * p[3] + 4 * p[4];
    beat->position =
        (int64_t)samples_per_step(s) *
            (int64_t)(s->table.exact + b->steps - 3) +
        table->position_shift +
        samples_per_step(s) * lean / (p[0] + p[1] + p[2] + p[3] + p[4]);
    beat->strength = sum;
    beat->kind = vote(s);
    return true;
}

static es_beat pending(const es_beats_state *b)
{
    es_beat beat = {b->position, b->strength, b->kind};
    return beat;
}

int64_t es_beats_undecided(const es_stream_session *s)
{
    uint64_t judged = s->beats->steps < 2 ? 0 : s->beats->steps - 2;
    return (int64_t)samples_per_step(s) * (int64_t)(s->table.exact + judged) +
           s->table.beats.position_shift;
}

uint32_t es_beats_push(const es_stream_session *s, const int8_t *column,
                       es_beat beats[2])
{
    es_beats_state *b = s->beats;
    const es_beats *table = &s->table.beats;
    uint32_t count = 0, at;
    es_beat found;

    b->steps++;
    at = slot(b, 0);
    b->p[at] = table->probability.data[column[0] + 128];
    take_shares(table, column + 1, s->classes, b->share + at * s->classes);
    if (find_candidate(s, &found)) {
        if (b->pending && found.position - b->position >= table->refractory) {
            beats[count++] = pending(b);
            b->pending = 0;
        }
        if (!b->pending || found.strength > b->strength) {
            b->position = found.position;
            b->strength = found.strength;
            b->kind = found.kind;
            b->pending = 1;
        }
    }
    if (b->pending &&
        es_beats_undecided(s) - b->position >= table->refractory) {
        beats[count++] = pending(b);
        b->pending = 0;
    }
    return count;
}
