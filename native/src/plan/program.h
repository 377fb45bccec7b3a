/* The plan's program for the emulated NPU. Every core opens plans that have
 * one; only the host's can run it. */
#ifndef ES_PLAN_PROGRAM_H
#define ES_PLAN_PROGRAM_H

#include "plan/view.h"

enum { ES_INSTRUCTION_BYTES = 16 };

enum {
    ES_BLOB_VALUES,
    ES_BLOB_INDEX,
    ES_BLOB_BIAS,
    ES_BLOB_MULTIPLIER,
    ES_BLOB_SHIFT,
    ES_BLOB_TABLE,
    ES_BLOB_TENSOR
};

/* struct NpuBlob of plan.fbs, byte for byte. */
typedef struct es_blob {
    uint16_t step, index;
    uint8_t part, branch;
    uint16_t reserved;
} es_blob;

typedef struct es_program {
    uint32_t config, scratchpad_bytes, prologue;
    es_bytes commands;
    const es_blob *blobs;
    uint32_t blob_count;
} es_program;

/* False: the plan has no program. */
bool es_program_view(const es_root *root, es_program *view);

/* The vector a blob names, its elements counted as bytes; false: there is no
 * such vector, it is empty, or a field that its part does not use is not 0. */
bool es_blob_bytes(const es_root *root, const es_blob *blob, es_bytes *bytes);

#endif /* ES_PLAN_PROGRAM_H */
