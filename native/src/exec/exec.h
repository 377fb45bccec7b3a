/* How a step is executed: the portable executor, any source and any stages.
 *
 * A source gives values in tiles of a few columns by a few channels; a tile
 * goes through the elementwise stages of its branch at once, and then into
 * the output, or, in a branch with a stage that needs whole columns (pools,
 * Mean, Softmax), into the sums of that stage. Everything here was checked by
 * es_plan_open; nothing here checks. */
#ifndef ES_EXEC_H
#define ES_EXEC_H

#include "exec/address.h"

enum {
    /* Four columns share the decoding of weights; a fifth gains little. */
    ES_TILE_COLUMNS = 4,
    ES_TILE_CHANNELS = 16, /* the most rows of a row block */
    ES_MAX_LEVELS = 4      /* of a branch: I-7 */
};

typedef struct es_tile {
    /* int32 of a Mac, later int8 */
    int32_t value[ES_TILE_COLUMNS][ES_TILE_CHANNELS];
    uint32_t columns, channels; /* how many */
    uint32_t column[ES_TILE_COLUMNS];
    uint16_t channel[ES_TILE_CHANNELS]; /* of the source */
} es_tile;

/* A part of a tile: channels [from, to), all of one branch. */
typedef struct es_part {
    es_tile *tile;
    uint32_t from, to;
    uint32_t first_channel; /* of the branch in the source */
} es_part;

/* A stage that needs whole columns, and the column it is computing. */
typedef struct es_level {
    uint8_t stage, kind;
    int8_t in_zero_point;    /* Mean */
    const es_window *window; /* pools */
    es_running running;      /* AvgPool, Mean */
    uint8_t *buffer;         /* [channels] int32 (AvgPool, Mean) or int8 */
    uint32_t column;
    uint32_t taps;   /* columns that may go into it */
    uint32_t tap;    /* of them, the next to look at */
    uint32_t inside; /* of them, those that were there */
} es_level;

/* The branch that is being executed, decoded. */
typedef struct es_lane {
    es_branch branch;
    uint32_t index;
    es_writer output;
    /* Its levels, lowest first; no level: values go through all stages. */
    es_level levels[ES_MAX_LEVELS];
    uint32_t level_count;
} es_lane;

/* What a source with a state does with the sums of its Macs: it scales them
 * to int16 and keeps them. */
typedef struct es_collect {
    const es_scaled *scales; /* one for each `block` channels */
    uint32_t block;
    bool add;    /* to what is there */
    uint8_t *to; /* [channels] int16, at any address */
} es_collect;

typedef struct es_exec {
    uint8_t *arena;
    const es_root *root;
    es_step step;
    es_reader input;
    es_lane lane;
    /* Bit b: branch b has levels. Those are executed one by one; the others
     * together in one pass over the columns. */
    uint32_t has_levels;
    const es_collect *collect; /* NULL: values go to the lanes */
} es_exec;

es_reader es_reader_of(const es_exec *x, uint32_t tensor);
es_writer es_writer_of(const es_exec *x, uint32_t tensor);

/* Whether the pass that is running takes this channel of the source; then the
 * lane is the channel's branch. */
bool es_lane_takes(es_exec *x, uint32_t channel);

/* Give finished values of the source to the lanes that take them. */
void es_emit(es_exec *x, es_tile *tile);
/* The same from inside the lane: values that come out of level `level` - 1,
 * or with 0 out of the source. */
void es_lane_emit(es_exec *x, const es_part *part, uint32_t level);

/* What most steps do with a tile, prepared once for many: a branch that has all
 * channels scales them and stores them channel by channel. */
typedef struct es_finish {
    es_stage stage; /* Requant */
    int8_t *column[ES_TILE_COLUMNS];
} es_finish;

/* false: the values need es_emit. */
bool es_finish_begin(const es_exec *x, const es_tile *tile, es_finish *finish);
void es_finish_tile(const es_finish *finish, es_tile *tile);
void es_requant(const es_stage *stage, const es_part *part);

/* Stages [begin, end) of the lane's branch, all elementwise. */
void es_stages_apply(const es_exec *x, const es_part *part, uint32_t begin,
                     uint32_t end);

/* Sources. Those that work in tiles: compute `count` columns and emit them. */
typedef struct es_mac_source {
    es_mac mac;
    int8_t *patches;  /* [4][K'] int8; NULL: the input is read in place */
    uint32_t patch;   /* K' = kernel_h * kernel_w * in_c */
    uint32_t scratch; /* bytes taken, a multiple of 4 */
} es_mac_source;

/* The patch of a column, [K'] int8, to `to`. */
void es_gather(const es_reader *input, const es_geometry *geometry,
               uint32_t column, int8_t *to);
void es_mac_begin(const es_exec *x, es_mac_source *source);
void es_mac_columns(es_exec *x, const es_mac_source *source,
                    const uint32_t *columns, uint32_t count);
/* One column of a Mac that reads its input in place. */
void es_mac_collect(es_exec *x, const es_mac *mac, uint32_t column,
                    const es_collect *collect);
void es_load_columns(es_exec *x, const uint32_t *columns, uint32_t count);
void es_source_columns(es_exec *x, const es_mac_source *source,
                       const uint32_t *columns, uint32_t count);
/* An Svdf: the column that this run adds to the past; then its one column. */
void es_svdf_push(es_exec *x);
void es_svdf_column(es_exec *x);
/* The whole step. */
void es_copy_run(const es_exec *x);
void es_lstm_run(es_exec *x);

/* int16 numbers of a state, at any address. */
static inline int32_t es_get_i16(const uint8_t *at)
{
    int16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline void es_put_i16(uint8_t *at, int32_t value)
{
    int16_t narrow = (int16_t)value;
    memcpy(at, &narrow, sizeof narrow);
}

/* Stages that need whole columns. The lane gets its levels, with buffers in
 * the scratch; then all columns of its output are computed. */
bool es_branch_has_levels(const es_branch *branch);
void es_levels_find(es_exec *x, uint8_t *scratch);
void es_levels_run(es_exec *x, const es_mac_source *source);
/* Add the columns of a part to the column that `level` is computing. */
void es_level_add(const es_level *level, const es_part *part);

/* A block of fresh columns is complete: its sums, in the buffer, take the place
 * of those of the block that leaves the window, of `leaving` columns; the
 * buffer is empty then. */
void es_running_push(const es_exec *x, const es_level *level, uint32_t leaving);
/* The sums of the window to the buffer. */
void es_running_total(const es_exec *x, const es_level *level);

/* One column in place: [channels] int8. */
void es_softmax(int8_t *column, uint32_t channels, const es_stage *stage);

/* Write the zero point before and after the columns of a tensor. */
void es_halo_fill(const es_writer *tensor);

/* Decode step `index`; then run it: all but the heads of the rings it appends
 * to; then set those. Running gives false, and nothing is done, in a build that
 * was made without the way the step has to go. */
void es_step_begin(es_exec *x, uint8_t *arena, const es_root *root,
                   uint32_t index);
bool es_step_run(es_exec *x);
void es_step_advance(es_exec *x);
/* Between the two: CRC-32 `crc` continued over what the step has written,
 * branch by branch in logical order; unchanged for a Copy. */
uint32_t es_step_trace(es_exec *x, uint32_t crc);

/* A whole run of a session, its time compared with the budget. ES_OK,
 * ES_ERR_RUNNER or ES_ERR_BUILD. */
es_status es_session_run(es_session *session, const es_root *root);

#endif /* ES_EXEC_H */
