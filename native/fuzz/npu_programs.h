/* Random programs for the NPU: pure noise, and programs grown instruction by
 * instruction so that most are accepted. */
#ifndef NPU_PROGRAMS_H
#define NPU_PROGRAMS_H

#include "edgesparse/npu.h"

enum {
    NPU_MOST = 96,
    NPU_BLOBS = 3,
    NPU_BLOB_BYTES = 512,
    NPU_DRAM = 1024,
    NPU_SCRATCHPAD = 8192
};

typedef struct npu_case {
    es_npu_config config;
    es_npu_program program;
    es_npu_blob blobs[NPU_BLOBS];
    uint8_t commands[NPU_MOST * ES_NPU_INSTRUCTION_BYTES];
    uint8_t bytes[NPU_BLOBS][NPU_BLOB_BYTES];
    es_npu trial; /* what growing runs on */
    uint8_t scratchpad[NPU_SCRATCHPAD], dram[NPU_DRAM];
} npu_case;

/* splitmix64; the state is the caller's. */
uint64_t npu_any(uint64_t *state);
uint32_t npu_below(uint64_t *state, uint32_t limit);

/* A configuration, blobs, sizes; no instructions yet. */
void npu_case_begin(npu_case *one, uint64_t *state);
/* Instructions of random bytes, most with an operation that exists. */
void npu_case_noise(npu_case *one, uint64_t *state);
/* Instructions that make sense one after the other. */
void npu_case_grow(npu_case *one, uint64_t *state);
/* Spoil a field or two. */
void npu_case_spoil(npu_case *one, uint64_t *state);

#endif /* NPU_PROGRAMS_H */
