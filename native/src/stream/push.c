/* es_push and es_flush: samples in, results out. */
#include "exec/exec.h"
#include "fixedpoint.h"
#include "stream/stream.h"

static void report(const es_stream_session *s, const es_result *result)
{
    if (s->on_result != NULL) {
        s->on_result(s->user, result);
    }
}

/* A beat that is final: inside the record, and the signal was good there. */
static void report_beat(const es_stream_session *s, const es_beat *beat)
{
    es_result result = {.kind = ES_RESULT_BEAT,
                        .value = beat->kind,
                        .strength = beat->strength,
                        .sample = beat->position};
    if (beat->position < 0 ||
        (s->state->ended && beat->position >= (int64_t)s->state->end) ||
        (s->quality != NULL && beat->position >= s->quality->mute_from &&
         beat->position < s->quality->mute_to)) {
        return;
    }
    report(s, &result);
}

static void decode_beats(const es_stream_session *s, uint32_t skip,
                         uint32_t columns)
{
    es_beat beats[2];
    for (uint32_t i = skip; i < columns; i++) {
        uint32_t count =
            es_beats_push(s, s->logits + (size_t)i * (s->classes + 1), beats);
        for (uint32_t k = 0; k < count; k++) {
            report_beat(s, &beats[k]);
        }
    }
}

/* The input is full: run, and say what came out. */
static void run(es_stream_session *s)
{
    const es_stream_table *t = &s->table;
    es_stream_state *state = s->state;
    es_result result = {.kind = ES_RESULT_RUN,
                        .sample = (int64_t)state->samples};
    uint32_t columns = 0;

    s->status = es_session_run(s->session, &s->root);
    if (s->status != ES_OK) {
        state->ended = 1;
        state->end = state->samples;
        return;
    }
    state->filled = 0;
    result.column = (int64_t)state->runs - t->first_run;
    if (t->mode == ES_STREAM_CONTINUOUS) {
        int64_t early;
        columns = t->hop / t->stride;
        result.column = (int64_t)state->runs * columns - t->behind;
        early = t->exact - result.column;
        result.skip = early <= 0        ? 0
                      : early < columns ? (uint32_t)early
                                        : columns;
    }
    state->runs++;
    if (state->runs > t->first_run) {
        report(s, &result);
    }
    if (ES_HAS_BEATS && s->beats != NULL) {
        decode_beats(s, result.skip, columns);
    }
}

/* The next column of the input, from samples that are all there. */
static void take_column(es_stream_session *s)
{
    es_stream_state *state = s->state;
    int8_t *column = s->input + (size_t)state->filled * s->channels;

    if (ES_HAS_FRONT_END && s->front_end != NULL) {
        if (!es_front_end_push(&s->table.front_end, s->front_end,
                               state->held[0], s->zero_point, column)) {
            return;
        }
    } else {
        for (uint32_t c = 0; c < s->channels; c++) {
            column[c] = (int8_t)es_clamp(state->held[c], -128, 127);
        }
    }
    state->filled++;
    if (state->filled == s->table.hop) {
        run(s);
    }
}

/* Keep the sample, or what there was before where it is missing. */
static bool hold(es_stream_session *s, const int16_t *sample)
{
    bool missing = false;
    for (uint32_t c = 0; c < s->channels; c++) {
        if (sample[c] == ES_MISSING) {
            missing = true;
        } else {
            s->state->held[c] = sample[c];
        }
    }
    return missing;
}

static void push_one(es_stream_session *s, const int16_t *sample)
{
    es_stream_state *state = s->state;
    bool missing = hold(s, sample);
    bool settle = !missing && !state->settled;

    state->missing += missing;
    state->settled |= !missing;
    if (ES_HAS_QUALITY && s->quality != NULL && !state->ended) {
        uint32_t change =
            es_quality_push(&s->table.quality, s->quality, s->table.delay,
                            state->samples, state->held[0], missing);
        if (change & ES_QUALITY_CHANGED) {
            es_result result = {.kind = ES_RESULT_SIGNAL,
                                .value = s->quality->state,
                                .sample = (int64_t)state->samples};
            report(s, &result);
        }
        settle |= (change & ES_QUALITY_SETTLE) != 0;
    }
    if (ES_HAS_FRONT_END && settle && s->front_end != NULL) {
        es_front_end_settle(&s->table.front_end, s->front_end, state->held[0]);
    }
    take_column(s);
    state->samples++;
}

static ES_APART void push_frames(es_stream_session *s, const int16_t *samples,
                                 size_t frames)
{
    for (; frames > 0 && s->status == ES_OK; frames--) {
        push_one(s, samples);
        samples += s->channels;
    }
}

/* The columns that stand before the first sample. */
static void start(es_stream_session *s)
{
    if (!s->state->started) {
        s->state->started = 1;
        memset(s->input, s->zero_point, (size_t)s->table.lead * s->channels);
        s->state->filled = s->table.lead;
    }
}

static bool ready(const es_session *session)
{
    return session != NULL && session->plan != NULL && session->arena != NULL;
}

es_status es_push(es_session *session, const int16_t *samples, size_t frames,
                  es_result_fn on_result, void *user)
{
    es_stream_session s;

    if (!ready(session) || (samples == NULL && frames > 0)) {
        return ES_ERR_ARG;
    }
    if (!es_stream_begin(&s, session, on_result, user)) {
        return ES_ERR_NO_STREAM;
    }
    if (s.state->ended) {
        return ES_ERR_ENDED;
    }
    start(&s);
    push_frames(&s, samples, frames);
    return s.status;
}

/* Whether a beat before the end may still come. Each step moves the bound on
 * by at least a sample, so this ends. */
static bool is_undecided(const es_stream_session *s)
{
    int64_t end = (int64_t)s->state->end;
    return ES_HAS_BEATS && s->beats != NULL &&
           (es_beats_undecided(s) < end ||
            (s->beats->pending && s->beats->position < end));
}

es_status es_flush(es_session *session, es_result_fn on_result, void *user)
{
    es_stream_session s;

    if (!ready(session)) {
        return ES_ERR_ARG;
    }
    if (!es_stream_begin(&s, session, on_result, user)) {
        return ES_ERR_NO_STREAM;
    }
    if (s.state->ended) {
        return ES_OK;
    }
    s.state->ended = 1;
    s.state->end = s.state->samples;
    if (s.state->samples > 0) {
        while (s.status == ES_OK && is_undecided(&s)) {
            push_frames(&s, s.state->held, 1);
        }
    }
    return s.status;
}

es_status es_stream_info(const es_session *session, es_stream *info)
{
    es_stream_session s;
    es_session copy;

    if (!ready(session) || info == NULL) {
        return ES_ERR_ARG;
    }
    copy = *session;
    if (!es_stream_begin(&s, &copy, NULL, NULL)) {
        return ES_ERR_NO_STREAM;
    }
    info->rate_mhz = s.table.rate_mhz;
    info->channels = s.channels;
    info->hop = s.table.hop * s.table.front_end.decimation;
    info->delay = s.table.delay;
    info->classes = s.beats != NULL ? s.classes : 0;
    info->samples = s.state->ended ? s.state->end : s.state->samples;
    info->runs = s.state->runs;
    info->missing = s.state->missing;
    info->signal =
        s.quality != NULL ? (es_signal)s.quality->state : ES_SIGNAL_GOOD;
    info->overruns = session->overruns;
    info->worst_ticks = session->worst_ticks;
    return ES_OK;
}
