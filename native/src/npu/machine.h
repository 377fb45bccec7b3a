/* The machine inside: what verifier and run share, and the parts of a run. */
#ifndef ES_NPU_MACHINE_H
#define ES_NPU_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "edgesparse/npu.h"

/* ---- control: registers, streams, rings, loops (control.c) ---- */

/* Registers as at the start of a run; rings stay. */
void es_npu_control_begin(es_npu_control *control, uint32_t pc);
/* Read the instruction at pc. */
void es_npu_control_read(es_npu_control *control);
/* Do what LOOP, CFG, SET, STRD, RING and RADV do, and move on to the next
 * instruction that runs. */
void es_npu_control_next(es_npu_control *control);

/* Where a use of a stream stands: in a ring, before wrapping. */
typedef struct es_npu_place {
    const es_npu_ring *ring; /* NULL: none */
    int64_t at;
} es_npu_place;

/* The stream's current position; the stream moves on. */
es_npu_place es_npu_stream_use(es_npu_control *control, uint32_t stream);

static inline int32_t es_npu_reg(const es_npu_control *control, int number)
{
    return control->reg[number];
}

/* Registers that are counts: checked to be above 0. */
static inline uint32_t es_npu_count(const es_npu_control *control, int number)
{
    return (uint32_t)control->reg[number];
}

static inline uint64_t es_npu_ceil(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Modulo towards minus infinity. */
static inline uint32_t es_npu_wrap(int64_t at, uint32_t size)
{
    int64_t rest = at % (int64_t)size;
    return (uint32_t)(rest < 0 ? rest + (int64_t)size : rest);
}

/* What a MACB's i1 and the geometry say about its index stream. */
typedef struct es_npu_format {
    uint32_t kind, n, m, bits; /* bits of a position of N_OF_M */
    bool skip;
} es_npu_format;

es_npu_format es_npu_format_of(uint32_t i1);
/* Bytes of the index of `steps` steps over `cols` columns. */
uint32_t es_npu_index_bytes(const es_npu_format *format, uint32_t steps,
                            uint32_t cols);

/* ---- affine ranges of bytes (range.c) ---- */

enum { ES_NPU_RANGE_DIMS = 3 };

/* `bytes` bytes at each of at + sum of index * stride. */
typedef struct es_npu_range {
    int64_t at;
    int64_t bytes;
    struct {
        int64_t stride;
        uint32_t count;
    } dim[ES_NPU_RANGE_DIMS];
} es_npu_range;

typedef struct es_npu_hull {
    int64_t from, to; /* to: the first byte behind */
} es_npu_hull;

es_npu_range es_npu_range_of(int64_t at, int64_t bytes);
es_npu_hull es_npu_range_hull(const es_npu_range *range);
/* Whether they have a byte in common. Takes what it compares from `budget`;
 * true as well when that is spent. */
bool es_npu_ranges_meet(const es_npu_range *a, const es_npu_range *b,
                        uint64_t *budget);

/* The bytes a MAC reads at x: complete rows of columns, and what is left.
 * lanes: steps of XSTRIDE; bytes: at each. Returns how many ranges, 1 or 2. */
uint32_t es_npu_columns(const es_npu_control *control, int64_t x,
                        uint32_t lanes, uint32_t bytes, es_npu_range range[2]);

/* ---- a run ---- */

/* Cycles of an engine, or waiting; `counter` is one of the machine's. */
void es_npu_spend(es_npu *npu, es_npu_engine engine, uint64_t *counter,
                  uint64_t cycles);
/* An event of the trace. */
void es_npu_note(es_npu *npu, es_npu_engine engine, uint64_t start,
                 uint64_t end);
es_npu_trap es_npu_stop(es_npu *npu, es_npu_trap trap, uint32_t info);

/* Bytes of the scratchpad seen from a place; size 0: they do not wrap. */
typedef struct es_npu_view {
    uint8_t *base;
    int64_t at;
    uint32_t size;
} es_npu_view;

/* View of a place of which bytes [from, to) are used. */
es_npu_view es_npu_view_of(const es_npu *npu, es_npu_place place,
                           es_npu_hull used);
/* One use of a stream of `bytes` bytes. */
es_npu_view es_npu_use(es_npu *npu, uint32_t stream, uint32_t bytes);

static inline uint8_t *es_npu_at(const es_npu_view *view, int64_t offset)
{
    int64_t at = view->at + offset;
    return view->base + (view->size ? es_npu_wrap(at, view->size) : at);
}

/* `count` bytes from `offset`, where they stand or, wrapped, in `room`. */
static inline const uint8_t *es_npu_bytes(const es_npu_view *view,
                                          int64_t offset, uint32_t count,
                                          uint8_t *room)
{
    if (view->size == 0) {
        return view->base + view->at + offset;
    }
    for (uint32_t i = 0; i < count; i++) {
        room[i] = *es_npu_at(view, offset + i);
    }
    return room;
}

/* Distinct words in the fullest bank among bytes at offsets[count]. */
uint32_t es_npu_fullest_bank(const es_npu *npu, const es_npu_view *view,
                             const int64_t *offsets, uint32_t count);

void es_npu_dma(es_npu *npu);
void es_npu_dwait(es_npu *npu);
/* FILL, VLDA, VLD, VST, VSTC, VLDC, VMAX, VCLAMP, ACCV, MSK, MAND, GATH, SCAT
 */
es_npu_trap es_npu_vector(es_npu *npu);
/* REQ, LUT, VADDQ, VMULQ, AVGR */
es_npu_trap es_npu_requant(es_npu *npu);
es_npu_trap es_npu_macb(es_npu *npu);
es_npu_trap es_npu_macv(es_npu *npu);
es_npu_trap es_npu_macw(es_npu *npu);
es_npu_trap es_npu_macg(es_npu *npu);

typedef uint32_t es_npu_lane_sums[ES_NPU_LANES];

/* sums[p][l] += w[k][l] * x[k][p] over `steps` steps k, `lanes` lanes and
 * `positions` positions; -255 <= x <= 255. */
void es_npu_lanes(es_npu_lane_sums *sums, const int8_t *w, const int16_t *x,
                  uint32_t steps, uint32_t positions, uint32_t lanes);

#endif /* ES_NPU_MACHINE_H */
