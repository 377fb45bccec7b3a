/* Transfers: what they touch, and what is pending. */
#include "npu/check.h"
#include "npu/dma.h"

static es_npu_trap external_fits(es_npu_check *check,
                                 const es_npu_transfer *transfer)
{
    const es_npu_program *program = check->control.program;
    es_npu_hull hull = es_npu_range_hull(&transfer->outside);
    uint32_t size = program->dram_bytes, from = 0;
    if (transfer->space == ES_NPU_FLASH_READ) {
        if (transfer->blob >= program->blob_count) {
            return es_npu_refuse(check, ES_NPU_TRAP_BADBLOB, transfer->blob);
        }
        size = program->blobs[transfer->blob].size;
    } else if (transfer->space == ES_NPU_DRAM_WRITE) {
        from = program->state_bytes;
    }
    if (hull.from < (int64_t)from || hull.to > (int64_t)size) {
        return es_npu_refuse(check, ES_NPU_TRAP_OOB,
                             (uint32_t)(hull.to > size ? hull.to : hull.from));
    }
    return ES_NPU_TRAP_OK;
}

static bool known(const es_npu_check *check, const es_npu_transfer *transfer)
{
    const es_npu_insn *insn = &check->control.insn;
    if (transfer->space >= ES_NPU_SPACES || transfer->bytes == 0 ||
        (insn->b & ~ES_NPU_TRANSPOSE) != transfer->space ||
        (transfer->transposed && insn->op != ES_NPU_DMA2)) {
        return false;
    }
    return transfer->space == ES_NPU_FLASH_READ ||
           (transfer->blob == 0 && !check->in_prologue);
}

/* Against the arena's side of what is pending. */
static es_npu_trap outside_free(es_npu_check *check,
                                const es_npu_transfer *transfer)
{
    bool writes = transfer->space == ES_NPU_DRAM_WRITE;
    if (transfer->space == ES_NPU_FLASH_READ) {
        return ES_NPU_TRAP_OK;
    }
    for (uint32_t i = 0; i < check->pending_count; i++) {
        const es_npu_pending *other = &check->pending[i];
        if (other->space != ES_NPU_FLASH_READ &&
            (writes || other->space == ES_NPU_DRAM_WRITE) &&
            es_npu_ranges_meet(&transfer->outside, &other->outside,
                               &check->budget)) {
            return es_npu_refuse(
                check, check->budget ? ES_NPU_TRAP_DMAHAZ : ES_NPU_TRAP_LIMIT,
                check->control.insn.i0);
        }
    }
    return ES_NPU_TRAP_OK;
}

es_npu_trap es_npu_check_dma(es_npu_check *check)
{
    es_npu_transfer transfer = es_npu_transfer_of(&check->control);
    bool writes = transfer.space != ES_NPU_DRAM_WRITE; /* the scratchpad */
    es_npu_trap trap;
    if (!known(check, &transfer)) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADVALUE,
                             check->control.insn.b);
    }
    if ((trap = external_fits(check, &transfer)) ||
        (trap = es_npu_check_range(check, &transfer.inside, writes)) ||
        (trap = outside_free(check, &transfer))) {
        return trap;
    }
    if (check->pending_count == ES_NPU_DMA_PENDING) {
        return es_npu_refuse(check, ES_NPU_TRAP_LIMIT, check->pending_count);
    }
    es_npu_pending *pending = &check->pending[check->pending_count++];
    pending->channel = check->control.insn.a;
    pending->space = (uint8_t)transfer.space;
    pending->inside = transfer.inside;
    pending->outside = transfer.outside;
    check->traffic.bytes[transfer.space] +=
        (uint64_t)transfer.bytes * transfer.rows;
    return ES_NPU_TRAP_OK;
}

void es_npu_check_dwait(es_npu_check *check)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < check->pending_count; i++) {
        if (check->pending[i].channel != check->control.insn.a) {
            check->pending[kept++] = check->pending[i];
        }
    }
    check->pending_count = kept;
}
