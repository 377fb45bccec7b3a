/* The emulated NPU: docs/NPU.md is its law. Host only; no allocation, no I/O,
 * no global state.
 *
 * Give es_npu_init a program, a configuration and a scratchpad: it checks the
 * program completely. Reset, then run as often as you like. A program's bytes
 * are used where they stand and are never written. */
#ifndef EDGESPARSE_NPU_H
#define EDGESPARSE_NPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
#define ES_NPU_CONSTANT(name, value) ES_NPU_##name = (value),
#include "edgesparse/npu_isa.inc"
    /* The most a configuration may have. */
    ES_NPU_LANES = 32,
    ES_NPU_ACCUMULATORS = 8,
    ES_NPU_VECTORS = 16,
    ES_NPU_MASKS = 8,
    ES_NPU_STREAMS = 16,
    ES_NPU_RINGS = 32,
    ES_NPU_BANKS = 64,
    ES_NPU_SCRATCHPAD = 1 << 24
};

/* Operations, configuration registers, transfer directions. */
typedef enum es_npu_op {
#define ES_NPU_OP(name, value, ...) ES_NPU_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_OPS
} es_npu_op;
enum {
#define ES_NPU_REG(name, value) ES_NPU_REG_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_REGS
};
enum {
#define ES_NPU_SPACE(name, value) ES_NPU_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_SPACES
};
enum {
#define ES_NPU_INDEX(name, value) ES_NPU_INDEX_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_INDEXES
};

/* Why a program is refused, or a run has stopped; 0: it is not. */
typedef enum es_npu_trap {
#define ES_NPU_TRAP(name, value) ES_NPU_TRAP_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_TRAPS
} es_npu_trap;

typedef struct es_npu_fault {
    es_npu_trap trap;
    uint32_t instruction; /* its number */
    uint32_t info;        /* the value, address or register at fault */
} es_npu_fault;

/* A machine; section 1 of the law. */
typedef struct es_npu_config {
    uint32_t id;           /* programs carry it */
    uint32_t lanes;        /* a multiple of 8 up to ES_NPU_LANES */
    uint32_t accumulators; /* registers of each kind */
    uint32_t vectors;
    uint32_t masks;
    uint32_t streams;
    uint32_t rings;
    uint32_t scratchpad_bytes; /* a multiple of banks * 4 */
    uint32_t banks;            /* of 4 bytes; a power of two */
    uint32_t flash_bytes;      /* so many bytes in so many cycles */
    uint32_t flash_cycles;
    uint32_t flash_latency; /* cycles before the first byte */
    uint32_t dram_bytes;
    uint32_t dram_cycles;
    uint32_t dram_latency;
    uint32_t scan_width;   /* activations looked at in a cycle */
    uint32_t requant_rate; /* elements in a cycle */
    uint32_t table_rate;
} es_npu_config;

/* A part of flash that transfers may read. */
typedef struct es_npu_blob {
    const uint8_t *data; /* [size] */
    uint32_t size;
} es_npu_blob;

typedef struct es_npu_program {
    const uint8_t *commands; /* [instructions][ES_NPU_INSTRUCTION_BYTES] */
    uint32_t instructions;
    uint32_t prologue;        /* so many of them run once, at reset */
    uint32_t config;          /* id of the configuration it is for */
    const es_npu_blob *blobs; /* [blob_count] */
    uint32_t blob_count;
    uint32_t dram_bytes;  /* size of the arena */
    uint32_t state_bytes; /* the part of it that is not written */
    uint32_t steps;       /* HOST and MARK name those below */
} es_npu_program;

/* What is known of every run of a program, without running it. */
typedef struct es_npu_traffic {
    uint64_t instructions;         /* executed */
    uint64_t bytes[ES_NPU_SPACES]; /* moved by transfers, per direction */
} es_npu_traffic;
typedef struct es_npu_report {
    es_npu_traffic prologue, run;
} es_npu_report;

/* Check every instruction a run will execute, as section 6 says.
 *
 * report  NULL, or filled when the program is accepted
 * fault   NULL, or filled when it is refused
 * Returns ES_NPU_TRAP_OK or why it is refused. */
es_npu_trap es_npu_verify(const es_npu_program *program,
                          const es_npu_config *config, es_npu_report *report,
                          es_npu_fault *fault);

/* Section 7, in the order of es_npu_counter_name. */
typedef struct es_npu_counters {
#define ES_NPU_COUNTER(name) uint64_t name;
#include "edgesparse/npu_isa.inc"
} es_npu_counters;

/* Name of counter `index`; NULL: there is no such counter. */
const char *es_npu_counter_name(uint32_t index);

typedef enum es_npu_engine {
#define ES_NPU_ENGINE(name, value) ES_NPU_ENGINE_##name = (value),
#include "edgesparse/npu_isa.inc"
    ES_NPU_ENGINES
} es_npu_engine;

/* An engine was busy, or the machine waited, from cycle start to end. */
typedef struct es_npu_event {
    uint64_t start, end;
    uint32_t instruction;
    uint32_t step; /* of the next MARK; UINT32_MAX: none came */
    uint32_t engine;
} es_npu_event;

/* How to run; not a part of any program. */
typedef struct es_npu_knobs {
    uint32_t launch_cycles;
    uint32_t fetch;            /* 0: instructions are there at once */
    uint32_t scan_width;       /* 0: the configuration's */
    uint32_t bound;            /* section 8: no activation is taken for zero */
    uint64_t max_instructions; /* 0: as many as it takes */
    /* The CPU's steps; NULL: a run of a program with HOST is refused. */
    void (*host)(void *user, uint32_t step);
    void *user;
    es_npu_counters *marks; /* [steps] or NULL: a step's counters are added */
    es_npu_event *events;   /* [event_room]: the first so many events */
    uint32_t event_room;
} es_npu_knobs;

/* ---- a machine: content private, size public ---- */

typedef struct es_npu_insn {
    uint8_t op, a, b, c;
    uint32_t i0, i1, i2;
} es_npu_insn;

typedef struct es_npu_dim {
    int64_t stride;
    uint32_t count, index;
} es_npu_dim;

typedef struct es_npu_stream {
    uint8_t is_set, ring, dims; /* ring: plus 1 */
    uint32_t address;
    int64_t sum; /* of the dimensions' positions */
    es_npu_dim dim[ES_NPU_STREAM_DIMS];
} es_npu_stream;

typedef struct es_npu_ring {
    uint32_t address, size, head;
} es_npu_ring;

typedef struct es_npu_loop {
    uint32_t begin, end, left;
} es_npu_loop;

/* What does not depend on data; the verifier walks with the same. */
typedef struct es_npu_control {
    const es_npu_program *program;
    const es_npu_config *config;
    uint32_t pc;
    es_npu_insn insn;
    int32_t reg[ES_NPU_REGS];
    es_npu_stream stream[ES_NPU_STREAMS];
    es_npu_ring ring[ES_NPU_RINGS];
    es_npu_loop loop[ES_NPU_LOOP_DEPTH];
    uint32_t depth;
} es_npu_control;

typedef struct es_npu {
    es_npu_program program;
    es_npu_config config;
    uint8_t *scratchpad;
    uint8_t *dram;
    es_npu_control control;
    uint32_t acc[ES_NPU_ACCUMULATORS][ES_NPU_LANES];
    int8_t vec[ES_NPU_VECTORS][ES_NPU_LANES];
    uint32_t mask[ES_NPU_MASKS];
    es_npu_knobs knobs;
    es_npu_counters counters, marked;
    uint64_t now;
    uint64_t dma_free, channel_end[ES_NPU_DMA_CHANNELS];
    uint64_t fetched;                 /* when the newest instruction had come */
    uint64_t began[ES_NPU_LOOP_BODY]; /* ring: first runs of the last ones */
    uint32_t reached;                 /* instructions fetched and begun */
    uint32_t first;                   /* of them, the first */
    uint32_t events, events_marked;
    es_npu_fault fault;
} es_npu;

/* Check a program and bind a machine to it and to a scratchpad. All that
 * `program` and `config` point to must outlive the machine; they themselves
 * are copied.
 *
 * scratchpad  [config->scratchpad_bytes] uint8, owned by the machine
 * fault       NULL, or filled when the program is refused
 * Returns what es_npu_verify does. */
es_npu_trap es_npu_init(es_npu *npu, const es_npu_program *program,
                        const es_npu_config *config, uint8_t *scratchpad,
                        es_npu_fault *fault);

/* Clear scratchpad and ring heads and run the prologue; always before the
 * first run. knobs: NULL: no launch, no fetch. Its marks are not used.
 * Returns ES_NPU_TRAP_OK or why it stopped; es_npu.counters counts it. */
es_npu_trap es_npu_reset(es_npu *npu, const es_npu_knobs *knobs);

/* Run once.
 *
 * dram   [program.dram_bytes] uint8, the arena
 * Returns ES_NPU_TRAP_OK, or FMT or LIMIT with es_npu.fault filled, or BADOP
 * when a step of the CPU has no knobs->host. es_npu.counters counts as far as
 * it came; es_npu.events is how many events there were, kept or not. */
es_npu_trap es_npu_run(es_npu *npu, uint8_t *dram, const es_npu_knobs *knobs);

#ifdef __cplusplus
}
#endif
#endif /* EDGESPARSE_NPU_H */
