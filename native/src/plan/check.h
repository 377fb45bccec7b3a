/* The parts of es_plan_open. Each checks invariants of PLAN_FORMAT.md section
 * 12 (named beside it) that may rely on those of the parts before it.
 *
 * Work: each part is linear in what it reads. One step reads at most N + 2^20
 * bytes (I-8), so with shared tables all of it is bounded by steps * (N + 2^20)
 * and what stands outside of steps; I-26 by ES_MAX_LOOKS. Nothing recurses,
 * nothing is stored but a few hundred bytes of stack. */
#ifndef ES_PLAN_CHECK_H
#define ES_PLAN_CHECK_H

#include "plan/view.h"

enum {
    ES_MAX_COLUMNS = 1 << 24, /* also of what passes between two stages */
    ES_MAX_CHANNELS = 65535,
    ES_MAX_POOLS = 4,      /* MaxPool, AvgPool, Mean, Softmax in a branch */
    ES_SEEN_WEIGHTS = 8,   /* weight matrices remembered */
    ES_MAX_LOOKS = 1 << 24 /* I-26: looks at a writer, in all */
};

/* A weight matrix that is right: the steps of an unrolled recurrent net share
 * theirs, and its bytes are what takes long. */
typedef struct es_seen {
    const uint8_t *groups; /* that of its vector of row groups; NULL: none */
    uint32_t cols;
    uint64_t row_sum; /* the largest sum of |weight| of a row */
} es_seen;

typedef struct es_check {
    es_plan plan; /* bytes and size; root once it is known */
    es_root root;
    es_status status; /* what a refusal returns */
    es_fault fault;
    uint32_t looks; /* I-26 */
    uint32_t sums;  /* I-47: rings before this one are taken */
    uint32_t seen_next;
    es_seen seen[ES_SEEN_WEIGHTS];
} es_check;

/* Note why the plan is refused; always false. */
bool es_refuse(es_check *check, uint16_t invariant, int32_t index);

/* I-1 to I-4: trailer, checksum, identifier; fills check->plan. */
bool es_check_file(es_check *check, const uint8_t *bytes, size_t size);
/* The checksum in the trailer of a file that is right. */
uint32_t es_file_crc(const uint8_t *bytes, size_t size);
/* I-5, I-7, I-8: every table, vector and string. */
bool es_check_structure(es_check *check);
/* That this build has all the kinds the plan uses. */
bool es_check_built(es_check *check);
/* I-10 to I-17 but scratch: check->root is filled from here on. */
bool es_check_tensors(es_check *check);
/* Everything of every step, through the parts below. */
bool es_check_steps(es_check *check);
/* I-60 to I-62. */
bool es_check_whole(es_check *check);
/* I-70 to I-73. */
bool es_check_stream(es_check *check);
/* I-80 to I-82. */
bool es_check_program(es_check *check);

/* Of one step. Those that return a number return the invariant broken, or 0. */

/* Add, Mul, AddSingleRequant: `operand` is a tensor. */
bool es_stage_has_operand(const es_stage *stage);

/* Where values are on their way through a branch. */
typedef struct es_flow {
    uint32_t columns, channels;
} es_flow;

/* I-30 to I-32; `input` is the Mac's. */
uint16_t es_check_geometry(const es_geometry *geometry, const es_place *input);
/* I-30, I-33: a pool over `columns` columns. */
uint16_t es_check_window(const es_window *window, uint32_t columns);
/* I-34. */
uint16_t es_check_copy(const es_copy *copy, const es_place *input,
                       const es_place *output);
/* I-40 to I-45 of one stage, but I-43 of a Mac. `in` comes in. */
uint16_t es_check_arithmetic(const es_stage *stage, const es_flow *in);
/* I-47 but that no other stage of the branch needs whole columns. */
uint16_t es_check_running(es_check *check, const es_stage *stage,
                          const es_flow *in);
/* I-50 to I-58. */
bool es_check_weights(es_check *check, const es_mac *mac);
/* What the sums of a Mac go into. */
typedef struct es_sink {
    const es_step *step;     /* scales NULL: the first stages of its branches */
    const es_scaled *scales; /* otherwise int16: one for each `block` rows */
    uint32_t block;
} es_sink;
/* I-43 and I-46 of a Mac whose weights and sink are right. */
bool es_check_sums(es_check *check, const es_sink *sink, const es_mac *mac);
/* I-35 and I-46; I-36 and I-46; with all that their Macs hold. */
bool es_check_lstm(es_check *check, const es_step *step);
bool es_check_svdf(es_check *check, const es_step *step);
/* I-40 of a Scaled. */
bool es_scaled_fits(const es_scaled *scaled);
/* I-16 of a step's scratch, I-24 to I-26. */
bool es_check_memory(es_check *check, const es_step *step, uint32_t index);
/* I-26 for the plan's outputs. */
bool es_check_results(es_check *check);

/* The bytes of the arena from the first to the last one of a tensor, halo and
 * gaps included; a constant has none, a ring tensor has its ring. */
typedef struct es_extent {
    int64_t first, end;
} es_extent;

es_extent es_place_extent(const es_place *place); /* neither ring nor const */
es_extent es_tensor_extent(const es_root *root, uint32_t index);
bool es_extents_overlap(es_extent a, es_extent b);
/* Whether two tensors of the arena share a byte. By extents, but for channels
 * of one NWC tensor side by side. */
bool es_tensors_overlap(const es_root *root, uint32_t a, uint32_t b);

#endif /* ES_PLAN_CHECK_H */
