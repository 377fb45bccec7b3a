/* Plan bytes as C types. Nothing here checks anything: es_plan_open has.
 *
 * Structs of plan.fbs have a fixed layout in the file and are used in place;
 * tables are decoded into small views on the stack of whoever needs them. */
#ifndef ES_PLAN_VIEW_H
#define ES_PLAN_VIEW_H

#include <stdbool.h>
#include "edgesparse/edgesparse.h"

/* ---- structs of plan.fbs, byte for byte ---- */
typedef struct es_place {
    uint32_t offset, pitch, columns, channels;
    uint16_t halo;
    int16_t ring;
    uint16_t ring_lag;
    uint8_t ring_role, layout, phases, dtype;
    int8_t zero_point;
    uint8_t reserved;
} es_place;

typedef struct es_ring {
    uint32_t offset, columns, channels;
    int8_t zero_point;
    uint8_t use;
    uint16_t reserved;
} es_ring;

typedef struct es_geometry {
    uint16_t in_h, in_w, in_c, groups, out_h, out_w, rows, kernel_h, kernel_w,
        stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, reserved;
} es_geometry;

typedef struct es_window {
    uint16_t in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w,
        pad_top, pad_left;
} es_window;

typedef struct es_scaled {
    int16_t zero_point, shift;
    int32_t multiplier;
} es_scaled;

enum {
    ES_LAYOUT_NWC,
    ES_LAYOUT_PLANAR,
    ES_LAYOUT_C4,
    ES_LAYOUT_POLYPHASE,
    ES_LAYOUTS
};
enum { ES_RING_NONE, ES_RING_APPEND, ES_RING_VIEW };
enum { ES_RING_OF_COLUMNS, ES_RING_OF_SUMS };
enum { ES_ROUND_DOUBLE, ES_ROUND_SINGLE };
enum { ES_BIAS_FOLDED, ES_BIAS_PLAIN };
enum {
    ES_DENSE,
    ES_BITMASK,
    ES_BSR,
    ES_NM,
    ES_DELTA_CSR,
    ES_LANES,
    ES_ENCODINGS
};
enum {
    ES_SOURCE_MAC = 1,
    ES_SOURCE_LOAD,
    ES_SOURCE_COPY,
    ES_SOURCE_LSTM,
    ES_SOURCE_SVDF
};
enum {
    ES_STAGE_REQUANT = 1,
    ES_STAGE_CLAMP,
    ES_STAGE_LUT,
    ES_STAGE_ADD,
    ES_STAGE_MUL,
    ES_STAGE_ADD_SINGLE_REQUANT,
    ES_STAGE_MAX_POOL,
    ES_STAGE_AVG_POOL,
    ES_STAGE_MEAN,
    ES_STAGE_SOFTMAX
};

#include "plan/built.h"

/* ---- vectors ---- */
typedef struct es_bytes {
    const uint8_t *data;
    uint32_t count;
} es_bytes;
typedef struct es_i8s {
    const int8_t *data;
    uint32_t count;
} es_i8s;
typedef struct es_i16s {
    const int16_t *data;
    uint32_t count;
} es_i16s;
typedef struct es_u16s {
    const uint16_t *data;
    uint32_t count;
} es_u16s;
typedef struct es_i32s {
    const int32_t *data;
    uint32_t count;
} es_i32s;
typedef struct es_u32s {
    const uint32_t *data;
    uint32_t count;
} es_u32s;
typedef struct es_tables {
    const uint8_t *data;
    uint32_t count;
} es_tables;

/* ---- tables ---- */
typedef struct es_tensor {
    const es_place *place;
    es_u32s shape;
    es_bytes data; /* data.data NULL: not a constant */
} es_tensor;

typedef struct es_row_group {
    uint32_t first_row, row_count, nnz;
    uint8_t encoding, packing, block_rows, block_cols, n, m, index_bits;
    es_i8s values;
    es_bytes index; /* absent: no bytes, but not NULL */
} es_row_group;

typedef struct es_weights {
    uint32_t rows, cols;
    es_u16s row_order; /* data NULL: stored row = output channel */
    es_tables groups;
} es_weights;

typedef struct es_mac {
    const es_geometry *geometry;
    es_weights weights;
    es_i32s bias;
    uint8_t bias_form;
} es_mac;

typedef struct es_copy {
    es_u32s dims;
    int32_t in_offset, out_offset;
    es_i32s in_strides, out_strides;
    bool fill;
    int8_t fill_value;
} es_copy;

typedef struct es_lstm {
    es_mac input, recurrent;
    const es_scaled *scales; /* four of input, four of recurrent */
    uint32_t scale_count;
    const es_scaled *hidden;
    uint8_t cell_bits;
    bool anew;
    int16_t cell_clip;
    uint16_t hidden_ring, cell_ring;
} es_lstm;

typedef struct es_svdf {
    es_mac feature;
    const es_scaled *scale;
    es_i16s time;
    es_i32s bias;
    uint16_t ring;
} es_svdf;
/* Absent: there is false, the rest 0. */
typedef struct es_running {
    bool there, each;
    uint16_t ring;
    uint32_t fresh, columns;
} es_running;

/* One stage; which fields mean something depends on kind, named as in
 * plan.fbs. Of a kind that has none, operand, window and running are 0. */
typedef struct es_stage {
    uint8_t kind; /* ES_STAGE_... */
    int8_t qmin, qmax;
    uint8_t rounding;
    int8_t zero_point;       /* Requant, AddSingleRequant */
    int8_t value_zero_point; /* Mul */
    int8_t other_zero_point; /* Mul, AddSingleRequant */
    int8_t in_zero_point;    /* Mean */
    uint16_t operand;        /* tensor: Add, Mul, AddSingleRequant */
    uint8_t left_shift;      /* Add */
    bool negate_value, negate_other;
    es_i32s multiplier;                   /* Requant, AddSingleRequant */
    es_i32s other_multiplier;             /* AddSingleRequant */
    es_i8s shift;                         /* Requant, AddSingleRequant */
    es_bytes table;                       /* Lut: 256 entries, int8 */
    const es_scaled *value, *other, *out; /* Add; out: Mul, Mean (`scaled`) */
    const es_window *window;              /* MaxPool, AvgPool */
    es_running running;                   /* AvgPool, Mean */
    int32_t softmax_multiplier, softmax_diff_min;
    int8_t softmax_shift;
} es_stage;

typedef struct es_branch {
    uint32_t first_channel, channels;
    uint16_t output;
    es_tables stages;
} es_branch;

typedef struct es_step {
    uint16_t input;
    uint8_t source_kind;   /* ES_SOURCE_... */
    const uint8_t *source; /* its table */
    es_tables branches;
    uint32_t scratch_offset, scratch_bytes;
} es_step;

typedef struct es_root {
    uint16_t format;
    uint32_t config, state_bytes, arena_bytes;
    es_tables tensors, steps, inputs, outputs;
    const es_ring *rings;
    uint32_t ring_count;
    bool has_golden;
    uint32_t golden_seed, golden_trace_crc;
    es_bytes golden_outputs, source_sha256;
    const uint8_t *stream; /* its table; NULL: none. See stream/stream.h */
    const uint8_t *npu;    /* the same. See plan/program.h */
} es_root;

void es_root_view(const es_plan *plan, es_root *view);
void es_tensor_view(const es_root *root, uint32_t index, es_tensor *view);
/* Of a tensor, its place alone, and where its data stand, if that is asked. */
const es_place *es_tensor_place(const es_root *root, uint32_t index,
                                const uint8_t **data);
void es_step_view(const es_root *root, uint32_t index, es_step *view);
void es_mac_view(const uint8_t *table, es_mac *view);
void es_copy_view(const es_step *step, es_copy *view);
void es_lstm_view(const es_step *step, es_lstm *view);
void es_svdf_view(const es_step *step, es_svdf *view);
void es_branch_view(const es_step *step, uint32_t index, es_branch *view);
void es_stage_view(const es_branch *branch, uint32_t index, es_stage *view);
void es_row_group_view(const es_weights *weights, uint32_t index,
                       es_row_group *view);
/* What a kernel looks at in the only group there is: not first_row, nnz,
 * packing, n and m, which it leaves as they are. */
void es_only_group_view(const es_weights *weights, es_row_group *view);
/* Tensor of input (output) `index` of the plan. */
uint16_t es_io_tensor(es_tables ios, uint32_t index);

/* Whether a stage of this kind maps several columns to one. */
bool es_stage_pools(uint8_t kind);
/* Of the columns of a run, those of its last block; 0: it has only one. */
static inline uint32_t es_running_tail(const es_running *running)
{
    return running->each ? 0 : running->columns % running->fresh;
}
/* Blocks of a window, and bytes of the sum of one in its ring. */
static inline uint32_t es_running_entries(const es_running *running)
{
    uint32_t runs =
        running->each ? running->columns : running->columns / running->fresh;
    return es_running_tail(running) ? 2 * runs + 1 : runs;
}
static inline uint32_t es_running_entry_bytes(const es_running *running)
{
    return running->each ? 1 : running->fresh <= 256 ? 2 : 4;
}
/* Columns a stage counts of `in` that come in. */
static inline uint32_t es_counted(const es_running *running, uint32_t in)
{
    return running->there ? in - running->fresh + running->columns : in;
}
/* Columns and channels of what the source of a step gives (PLAN_FORMAT.md 3).
 * Load repeats a single column only in a step without a stage that pools. */
void es_step_shape(const es_root *root, const es_step *step, uint32_t *columns,
                   uint32_t *channels);

/* The rings that hold the state of a step's source; returns how many. */
uint32_t es_step_rings(const es_step *step, uint16_t rings[2]);

/* Scratch the portable executor needs for this step (PLAN_FORMAT.md 8);
 * UINT32_MAX when it is more than that. */
uint32_t es_step_scratch(const es_root *root, const es_step *step);
/* Whether the patches of a Mac stand in its input. */
bool es_mac_in_place(const es_place *input, const es_geometry *g);
/* Of the scratch, the part for patches; 0: the Mac reads its input in place. */
uint32_t es_mac_patch_bytes(const es_place *input, const es_geometry *g);

#endif /* ES_PLAN_VIEW_H */
