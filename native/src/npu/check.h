/* The verifier inside. A check returns the trap it met and fills the fault. */
#ifndef ES_NPU_CHECK_H
#define ES_NPU_CHECK_H

#include "npu/machine.h"

/* A transfer nobody has waited for yet. */
typedef struct es_npu_pending {
    uint8_t channel, space;
    es_npu_range inside, outside; /* scratchpad; blob or arena */
} es_npu_pending;

typedef struct es_npu_check {
    es_npu_control control;
    bool in_prologue;
    uint32_t end; /* of this part of the program */
    es_npu_traffic traffic;
    uint64_t budget; /* comparisons of ranges that are left */
    es_npu_pending pending[ES_NPU_DMA_PENDING];
    uint32_t pending_count;
    es_npu_fault fault;
} es_npu_check;

es_npu_trap es_npu_refuse(es_npu_check *check, es_npu_trap trap, uint32_t info);

/* Every instruction, run or not (check_fields.c): operation, kinds of fields.
 */
es_npu_trap es_npu_check_fields(es_npu_check *check);
/* The instruction that is next, in the state it will find. */
es_npu_trap es_npu_check_registers(es_npu_check *check);
es_npu_trap es_npu_check_values(es_npu_check *check); /* check_values.c */
es_npu_trap es_npu_check_access(es_npu_check *check); /* check_access.c */
es_npu_trap es_npu_check_dma(es_npu_check *check);    /* check_dma.c */
void es_npu_check_dwait(es_npu_check *check);

/* A range of the scratchpad is read or written by an instruction. */
es_npu_trap es_npu_check_range(es_npu_check *check, const es_npu_range *range,
                               bool writes);

#endif /* ES_NPU_CHECK_H */
