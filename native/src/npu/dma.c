/* Transfers between flash or arena and the scratchpad. They take effect at
 * once; their time passes on a line of its own. */
#include "npu/dma.h"

es_npu_transfer es_npu_transfer_of(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_transfer transfer;
    int64_t inner = es_npu_reg(control, ES_NPU_REG_DSPITCH);
    int64_t outer = es_npu_reg(control, ES_NPU_REG_DEPITCH);
    transfer.space = insn->b & ~(uint32_t)ES_NPU_TRANSPOSE;
    transfer.transposed = (insn->b & ES_NPU_TRANSPOSE) != 0;
    transfer.blob = insn->c + 256 * (insn->i2 >> 24);
    transfer.bytes = insn->i2 & 0xFFFFFF;
    transfer.rows =
        insn->op == ES_NPU_DMA2 ? es_npu_count(control, ES_NPU_REG_DROWS) : 1;
    transfer.inside = es_npu_range_of(insn->i1, transfer.bytes);
    transfer.outside = es_npu_range_of(insn->i0, transfer.bytes);
    transfer.outside.dim[0].stride = outer;
    transfer.inside.dim[0].stride = inner;
    transfer.outside.dim[0].count = transfer.inside.dim[0].count =
        transfer.rows;
    if (transfer.transposed) {
        transfer.inside.bytes = transfer.rows;
        transfer.inside.dim[0].count = transfer.bytes;
    }
    return transfer;
}

static void copy_row(uint8_t *inside, int64_t step, uint8_t *arena,
                     uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        arena[i] = inside[i * step];
    }
}

static void fetch_row(uint8_t *inside, int64_t step, const uint8_t *outside,
                      uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        inside[i * step] = outside[i];
    }
}

static void move(const es_npu *npu, const es_npu_transfer *transfer)
{
    int64_t pitch = transfer->inside.dim[0].stride;
    int64_t step = transfer->transposed ? pitch : 1;
    int64_t row = transfer->transposed ? 1 : pitch;
    for (uint32_t r = 0; r < transfer->rows; r++) {
        uint8_t *inside = npu->scratchpad + transfer->inside.at + row * r;
        int64_t outside =
            transfer->outside.at + transfer->outside.dim[0].stride * r;
        if (transfer->space == ES_NPU_DRAM_WRITE) {
            copy_row(inside, step, npu->dram + outside, transfer->bytes);
        } else if (transfer->space == ES_NPU_DRAM_READ) {
            fetch_row(inside, step, npu->dram + outside, transfer->bytes);
        } else {
            fetch_row(inside, step,
                      npu->program.blobs[transfer->blob].data + outside,
                      transfer->bytes);
        }
    }
}

static uint64_t duration(const es_npu *npu, const es_npu_transfer *transfer)
{
    const es_npu_config *config = &npu->config;
    uint64_t bytes = (uint64_t)transfer->bytes * transfer->rows;
    uint64_t rows = npu->control.insn.op == ES_NPU_DMA2 ? transfer->rows : 0;
    return transfer->space == ES_NPU_FLASH_READ
               ? config->flash_latency + rows +
                     es_npu_ceil(bytes * config->flash_cycles,
                                 config->flash_bytes)
               : config->dram_latency + rows +
                     es_npu_ceil(bytes * config->dram_cycles,
                                 config->dram_bytes);
}

void es_npu_dma(es_npu *npu)
{
    es_npu_transfer transfer = es_npu_transfer_of(&npu->control);
    es_npu_counters *counters = &npu->counters;
    uint64_t bytes = (uint64_t)transfer.bytes * transfer.rows;
    uint64_t start = npu->now > npu->dma_free ? npu->now : npu->dma_free;
    uint64_t time = duration(npu, &transfer);
    move(npu, &transfer);
    npu->dma_free = npu->channel_end[npu->control.insn.a] = start + time;
    es_npu_note(npu, ES_NPU_ENGINE_DMA, start, start + time);
    counters->dma_busy += time;
    counters->dma_transfers++;
    *(transfer.space == ES_NPU_FLASH_READ  ? &counters->dma_flash_rd_bytes
      : transfer.space == ES_NPU_DRAM_READ ? &counters->dma_dram_rd_bytes
                                           : &counters->dma_dram_wr_bytes) +=
        bytes;
}

/* The instruction takes a cycle, what is left beyond it is waiting. */
void es_npu_dwait(es_npu *npu)
{
    uint64_t end = npu->channel_end[npu->control.insn.a];
    if (end > npu->now + 1) {
        es_npu_spend(npu, ES_NPU_ENGINE_STALL_DMA, &npu->counters.stall_dma,
                     end - npu->now - 1);
    }
}
