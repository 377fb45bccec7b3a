/* Streams: samples -> front end -> runs -> results (PLAN_FORMAT.md, "Streams").
 *
 * The tables as views, and the state they keep in the arena. The state's
 * structs are the layout that PLAN_FORMAT.md gives: fields on multiples of
 * their size, no holes. All zeros is the state of a stream that has seen
 * nothing. Nothing here checks: es_plan_open has. */
#ifndef ES_STREAM_H
#define ES_STREAM_H

#include "plan/view.h"

enum { ES_STREAM_INCREMENTAL, ES_STREAM_CONTINUOUS };

typedef struct es_front_end {
    es_i16s taps;
    int32_t multiplier;
    uint16_t decimation;
    uint8_t tap_bits, fraction_bits, dc_shift, shift;
} es_front_end;

typedef struct es_beats {
    es_u16s probability, power;
    uint32_t threshold, refractory;
    int32_t position_shift;
    uint8_t p_bits;
} es_beats;

typedef struct es_quality {
    uint32_t flat_samples, saturated_samples, missing_run, recover_samples,
        settle_samples, guard_samples;
    uint16_t flat_range, saturation, missing_window, missing_most,
        noise_samples, noise_limit, noise_margin, missing_margin;
} es_quality;

typedef struct es_stream_table {
    uint8_t mode;
    bool has_front_end, has_beats, has_quality;
    uint32_t rate_mhz, hop, window, lead, first_run, stride, behind, exact,
        delay, state_offset;
    es_front_end front_end; /* decimation is 1 without one */
    es_beats beats;
    es_quality quality;
} es_stream_table;

/* False, and the view untouched, when the plan has no Stream. */
bool es_stream_view(const es_root *root, es_stream_table *view);

/* ---- the state ---- */

typedef struct es_stream_state {
    uint64_t samples; /* with those that es_flush repeats */
    uint64_t end;     /* samples when the record was flushed */
    uint64_t runs;
    uint64_t missing;
    uint32_t filled; /* columns of the plan's input */
    uint8_t started; /* the lead is written */
    uint8_t settled; /* there was a sample that is not missing */
    uint8_t ended;   /* flushed */
    uint8_t reserved;
    int16_t held[]; /* [channels] the last sample there was */
} es_stream_state;

typedef struct es_front_end_state {
    int32_t mean;   /* of the DC blocker, times 2^dc_shift */
    uint16_t next;  /* slot of past[] for the next sample */
    uint16_t phase; /* of the decimation */
    uint8_t steady; /* mean is set */
    uint8_t reserved[3];
    int16_t past[]; /* [taps] a ring */
} es_front_end_state;

enum { ES_BEAT_STEPS = 5 }; /* what a candidate is judged by */

typedef struct es_beats_state {
    uint64_t steps; /* taken */
    int64_t position;
    uint32_t strength;
    uint8_t kind, pending; /* pending: position, strength, kind are a beat's */
    uint16_t reserved;
    uint16_t p[ES_BEAT_STEPS]; /* of step i in slot i mod 5 */
    uint16_t share[];          /* [5][classes] likewise */
} es_beats_state;

typedef struct es_quality_state {
    int64_t mute_from, mute_to; /* beats in [from, to) are not reported */
    uint32_t flat, saturated, missing, calm; /* samples in a row */
    uint32_t noise;                          /* sum of the block so far */
    uint16_t noise_count, lost_count;
    int16_t anchor, before[2]; /* the last sample, the one before */
    uint8_t state;
    uint8_t beyond; /* bits ES_BEYOND_*: past a limit, and not a margin back */
    uint8_t lost[]; /* [missing_window / 8] bit i: sample i mod the window */
} es_quality_state;

enum { ES_BEYOND_NOISE = 1, ES_BEYOND_MISSING = 2 };

/* Where the fixed part of each ends; PLAN_FORMAT.md says the same. */
enum {
    ES_STREAM_HEADER = 40,
    ES_FRONT_END_HEADER = 12,
    ES_BEATS_HEADER = 34,
    ES_QUALITY_HEADER = 48
};

/* Bytes of all of it; `channels` of a sample, `classes` of the decoder. */
uint64_t es_stream_bytes(const es_stream_table *table, uint32_t channels,
                         uint32_t classes);

/* A session's stream while samples are pushed. */
typedef struct es_stream_session {
    es_session *session;
    es_root root;
    es_stream_table table;
    uint32_t channels, classes;
    int8_t zero_point;    /* of the input */
    int8_t *input;        /* [hop][channels] */
    const int8_t *logits; /* output 0 */
    es_stream_state *state;
    es_front_end_state *front_end; /* NULL: there is none, as below */
    es_beats_state *beats;
    es_quality_state *quality;
    es_result_fn on_result;
    void *user;
    es_status status; /* of the last run; but ES_OK: the stream has ended */
} es_stream_session;

/* False when the plan has no Stream. */
bool es_stream_begin(es_stream_session *s, es_session *session,
                     es_result_fn on_result, void *user);

/* value mod by, by < 2^16, in divisions that a Cortex-M has an instruction for,
 * mostly one; that of 64 bits is a loop, and 700 bytes of library. */
static inline uint32_t es_modulo(uint64_t value, uint32_t by)
{
    uint32_t rest = (uint32_t)(value >> 32);
    if (rest == 0) {
        return (uint32_t)value % by;
    }
    rest %= by;
    rest = (rest << 16 | (uint32_t)(value >> 16 & 0xFFFF)) % by;
    return (rest << 16 | (uint32_t)(value & 0xFFFF)) % by;
}

static inline int64_t es_round_shift(int64_t value, uint32_t bits)
{
    return (value + ((int64_t)1 << bits >> 1)) >> bits; /* halves up */
}

/* The same of 32 bits, for which a half more could be too much. */
static inline int32_t es_round_shift_32(int32_t value, uint32_t bits)
{
    return bits == 0 ? value : (value >> bits) + (value >> (bits - 1) & 1);
}

/* ---- the parts ---- */

/* Go on as if `x` had stood there for ever. */
void es_front_end_settle(const es_front_end *front_end,
                         es_front_end_state *state, int16_t x);
/* One sample; whether it brings a value of the input. */
bool es_front_end_push(const es_front_end *front_end, es_front_end_state *state,
                       int16_t x, int8_t zero_point, int8_t *value);

typedef struct es_beat {
    int64_t position;
    uint32_t strength;
    uint8_t kind;
} es_beat;

/* One step, [1 + classes] int8. Returns how many beats are final now, 0 to 2,
 * and gives them in order. */
uint32_t es_beats_push(const es_stream_session *s, const int8_t *column,
                       es_beat beats[2]);
/* No beat that is still to be found lies before this sample. */
int64_t es_beats_undecided(const es_stream_session *s);

/* What a sample did: ES_QUALITY_CHANGED, a new state; ES_QUALITY_SETTLE, the
 * front end starts again. */
enum { ES_QUALITY_CHANGED = 1, ES_QUALITY_SETTLE = 2 };
uint32_t es_quality_push(const es_quality *quality, es_quality_state *state,
                         uint32_t delay, uint64_t now, int16_t x, bool missing);

#endif /* ES_STREAM_H */
