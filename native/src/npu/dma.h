/* A transfer, as an instruction describes it. */
#ifndef ES_NPU_DMA_H
#define ES_NPU_DMA_H

#include "npu/machine.h"

typedef struct es_npu_transfer {
    uint32_t space, blob, bytes, rows; /* rows of bytes */
    bool transposed;
    es_npu_range inside, outside; /* scratchpad; blob or arena */
} es_npu_transfer;

es_npu_transfer es_npu_transfer_of(const es_npu_control *control);

#endif /* ES_NPU_DMA_H */
