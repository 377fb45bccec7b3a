/* edgesparse: the C core. No allocation, no I/O, no global state.
 *
 * Open a plan (checks every byte that will ever be trusted), ask how much
 * memory it needs, give a session that much, write the inputs, run, read the
 * outputs. Plan bytes are used where they stand, in flash, and are never
 * written. Two sessions share nothing but the plan, so they may run in two
 * threads. The core needs a little-endian machine.
 *
 * Every function that can fail returns an es_status; on error, output
 * parameters are untouched. docs/PLAN_FORMAT.md is the law of the bytes. */
#ifndef EDGESPARSE_H
#define EDGESPARSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bumped when a declaration below changes incompatibly. */
#define ES_API_VERSION 1
/* The Plan.format this core reads. */
#define ES_PLAN_FORMAT 1
/* Alignment of plan bytes and arena, in bytes. */
#define ES_ALIGN 16

#if defined(__GNUC__)
#define ES_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ES_MUST_CHECK
#endif

typedef enum es_status {
#define ES_STATUS(name, value, text) name = (value),
#include "edgesparse/status.inc"
#undef ES_STATUS
} es_status;

/* Text of a status; never NULL. */
const char *es_status_text(es_status status);

/* An opened plan. The content is private; the size is public so that the
 * caller can place it. Points into the plan bytes, which must stay. */
typedef struct es_plan {
    const uint8_t *bytes; /* the FlatBuffer */
    uint32_t size;        /* of the FlatBuffer, without padding and trailer */
    uint32_t root;        /* byte of the root table */
} es_plan;

/* Where and why a plan was refused. */
typedef struct es_fault {
    uint16_t invariant; /* number of PLAN_FORMAT.md section 12, e.g. 24 = I-24;
                           0: none is broken, the build lacks something */
    int16_t step;       /* step it was met in; -1: none */
    int32_t index;      /* tensor, row, branch or stage number; -1: none */
} es_fault;

/* Check `size` bytes at `bytes` against every invariant and open them.
 *
 * plan   [1] filled on success
 * bytes  [size] uint8, aligned to ES_ALIGN; must outlive the plan
 * fault  [1] or NULL: filled when the plan is refused
 * Returns ES_OK, ES_ERR_ARG, ES_ERR_FILE, ES_ERR_VERSION, ES_ERR_FORMAT or, in
 * a core built for certain plans (ES_CONFIG), ES_ERR_BUILD. */
ES_MUST_CHECK es_status es_plan_open(es_plan *plan, const void *bytes,
                                     size_t size, es_fault *fault);

typedef struct es_info {
    uint32_t ram_bytes;   /* arena size a session needs, exactly */
    uint32_t state_bytes; /* part of it that lives from run to run */
    uint32_t flash_bytes; /* FlatBuffer, padding and trailer */
    uint32_t steps;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t config;              /* configuration id of the target; 0: none */
    const uint8_t *source_sha256; /* [32] of the model file; NULL: unknown */
    uint32_t rate_mhz; /* of a stream's samples, millihertz; 0: unknown or no
                          stream */
} es_info;

/* Returns ES_OK or ES_ERR_ARG. */
ES_MUST_CHECK es_status es_plan_info(const es_plan *plan, es_info *info);

typedef struct es_step_counter {
    uint64_t ticks; /* of the clock given by es_set_clock, summed */
    uint32_t runs;
} es_step_counter;

/* Does what all steps of a plan do, from its inputs to its outputs in the
 * arena; 0: it has. */
typedef int (*es_runner_fn)(void *user);

/* One execution state of a plan. Content private, size public. */
typedef struct es_session {
    const es_plan *plan;
    uint8_t *arena;
    uint32_t (*ticks)(void);
    es_step_counter *counters;
    uint32_t budget, overruns, worst_ticks; /* of a run of a stream */
    es_runner_fn runner;
    void *runner_user;
} es_session;

/* Bind a session to a plan and an arena, and reset it.
 *
 * arena  [arena_size] uint8, aligned to ES_ALIGN, owned by the session until
 *        it is no longer used; arena_size >= es_info.ram_bytes
 * Returns ES_OK, ES_ERR_ARG or ES_ERR_ARENA. */
ES_MUST_CHECK es_status es_session_init(es_session *session,
                                        const es_plan *plan, void *arena,
                                        size_t arena_size);

typedef struct es_buffer {
    int8_t *data; /* [size] in the arena */
    uint32_t size;
} es_buffer;

/* The buffer of input or output `index`. Inputs may be overwritten by a run:
 * write them before each one. Returns ES_OK or ES_ERR_ARG. */
ES_MUST_CHECK es_status es_input(const es_session *session, uint32_t index,
                                 es_buffer *buffer);
ES_MUST_CHECK es_status es_output(const es_session *session, uint32_t index,
                                  es_buffer *buffer);

/* Run all steps once. Returns ES_OK, ES_ERR_ARG, ES_ERR_RUNNER or, in a core
 * built for one plan that lacks what a step needs after all, ES_ERR_BUILD: so
 * too where ES_ERR_RUNNER or ES_ERR_SELF_TEST stands below. */
ES_MUST_CHECK es_status es_run(es_session *session);

/* Run one step; for debugging and profiles: all of them in order are es_run.
 * Returns ES_OK or ES_ERR_ARG (no such step). */
ES_MUST_CHECK es_status es_run_step(es_session *session, uint32_t step);

/* Forget everything earlier runs left: rings hold their zero points again.
 * Returns ES_OK or ES_ERR_ARG. */
ES_MUST_CHECK es_status es_reset(es_session *session);

/* Reset, run the plan on the inputs its golden seed stands for, compare every
 * step's results (by checksum) and the outputs with the golden ones, reset.
 * Returns ES_OK, ES_ERR_ARG, ES_ERR_NO_GOLDEN or ES_ERR_SELF_TEST. */
ES_MUST_CHECK es_status es_self_test(es_session *session);

/* From now on `runner` stands in for the steps in es_run and in the runs of a
 * stream: an accelerator. NULL: the steps again. It may call es_run_step, which
 * runs the step as ever, as es_self_test runs all of them; a reset of the
 * session is not told to it. */
void es_set_runner(es_session *session, es_runner_fn runner, void *user);

/* Count per step from now on: ticks between two calls of `ticks` (a free
 * running counter, wrap-around allowed within a step) into counters.
 *
 * ticks     NULL: count runs only. A self test calls it once a step, too
 * counters  [es_info.steps], owned by the caller; NULL: stop counting */
void es_set_clock(es_session *session, uint32_t (*ticks)(void));
void es_set_counters(es_session *session, es_step_counter *counters);

/* ---- streams: plans with a table Stream (PLAN_FORMAT.md section 10) ---- */

/* A sample of this value says that there was none. */
#define ES_MISSING INT16_MIN

typedef enum es_result_kind {
    ES_RESULT_RUN,   /* a run has ended: es_output has its outputs, for now */
    ES_RESULT_BEAT,  /* a beat is final */
    ES_RESULT_SIGNAL /* the signal has another state */
} es_result_kind;

typedef enum es_signal {
    ES_SIGNAL_GOOD,
    ES_SIGNAL_NOISY,
    ES_SIGNAL_FLAT, /* no signal, the lead is off */
    ES_SIGNAL_SATURATED,
    ES_SIGNAL_MISSING
} es_signal;

/* One result. Samples are numbered from 0 at the last reset. */
typedef struct es_result {
    es_result_kind kind;
    uint32_t value;    /* BEAT: its class; SIGNAL: the es_signal */
    uint32_t strength; /* BEAT: sum of three probabilities */
    uint32_t skip;  /* RUN: output columns that come first and do not count */
    int64_t sample; /* RUN: the newest it has seen; BEAT: the R peak; SIGNAL:
                       the first in the new state */
    int64_t column; /* RUN: number of its first output column, or window */
} es_result;

/* Called inside es_push and es_flush, in order. It may read outputs, which the
 * next samples overwrite, and es_stream_info; it must not push, run or reset.
 */
typedef void (*es_result_fn)(void *user, const es_result *result);

/* Push samples, any number at a time: results do not depend on how they are
 * cut. What does not fill a run yet waits in the arena: between two calls, the
 * arena and its inputs are the stream's.
 *
 * samples    [frames][channels] int16
 * on_result  NULL: results are not wanted
 * Returns ES_OK, ES_ERR_ARG, ES_ERR_NO_STREAM, ES_ERR_ENDED or ES_ERR_RUNNER;
 * after the last one only a reset allows further frames. */
ES_MUST_CHECK es_status es_push(es_session *session, const int16_t *samples,
                                size_t frames, es_result_fn on_result,
                                void *user);

/* The record ends here. Its last sample is repeated until every beat before
 * the end is final; a second flush does nothing. Pushing needs es_reset then.
 * Returns ES_OK, ES_ERR_ARG, ES_ERR_NO_STREAM or ES_ERR_RUNNER. */
ES_MUST_CHECK es_status es_flush(es_session *session, es_result_fn on_result,
                                 void *user);

/* From now on count runs of a stream that take more than `ticks` of the clock
 * given by es_set_clock; 0: none. Counting changes no result. */
void es_set_budget(es_session *session, uint32_t ticks);

typedef struct es_stream {
    uint32_t rate_mhz; /* of the samples, millihertz; 0: unknown */
    uint32_t channels; /* of a sample */
    uint32_t hop;      /* samples per run */
    uint32_t delay;    /* samples from a beat to its result at most; without
                          beats from a sample to the run that sees it */
    uint32_t classes;  /* of beats; 0: no beats are reported */
    uint64_t samples;  /* pushed since the reset, as all below */
    uint64_t runs;
    uint64_t missing;     /* of the samples */
    es_signal signal;     /* state now */
    uint32_t overruns;    /* runs over the budget */
    uint32_t worst_ticks; /* of the longest run since a clock is set */
} es_stream;

/* Returns ES_OK, ES_ERR_ARG or ES_ERR_NO_STREAM. */
ES_MUST_CHECK es_status es_stream_info(const es_session *session,
                                       es_stream *info);

#ifdef __cplusplus
}
#endif
#endif /* EDGESPARSE_H */
