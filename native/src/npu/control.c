/* What a program does whatever its data: registers, streams, rings, loops.
 * Nothing here checks; the verifier asks before it calls. */
#include "npu/machine.h"

void es_npu_control_begin(es_npu_control *control, uint32_t pc)
{
    int32_t *reg = control->reg;
    memset(reg, 0, sizeof control->reg);
    memset(control->stream, 0, sizeof control->stream);
    reg[ES_NPU_REG_VL] = (int32_t)control->config->lanes;
    reg[ES_NPU_REG_NPOS] = reg[ES_NPU_REG_COLS] = 1;
    reg[ES_NPU_REG_ROWLEN] = reg[ES_NPU_REG_COLPITCH] = 1;
    reg[ES_NPU_REG_DROWS] = 1;
    reg[ES_NPU_REG_QMIN] = INT8_MIN;
    reg[ES_NPU_REG_QMAX] = INT8_MAX;
    control->depth = 0;
    control->pc = pc;
}

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
           (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

void es_npu_control_read(es_npu_control *control)
{
    const uint8_t *bytes = control->program->commands +
                           (size_t)control->pc * ES_NPU_INSTRUCTION_BYTES;
    es_npu_insn *insn = &control->insn;
    insn->op = bytes[0];
    insn->a = bytes[1];
    insn->b = bytes[2];
    insn->c = bytes[3];
    insn->i0 = word(bytes + 4);
    insn->i1 = word(bytes + 8);
    insn->i2 = word(bytes + 12);
}

static void set(es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_stream *stream = &control->stream[insn->a];
    stream->is_set = 1;
    stream->ring = insn->b;
    stream->dims = 0;
    stream->address = insn->i0;
    stream->sum = 0;
}

static void append(es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_stream *stream = &control->stream[insn->a];
    es_npu_dim dim = {(int32_t)insn->i0, insn->i1, 0};
    stream->dim[stream->dims++] = dim;
}

static void repeat(es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    if (insn->i0 == 0) {
        control->pc += insn->i1;
    } else {
        es_npu_loop loop = {control->pc + 1, control->pc + 1 + insn->i1,
                            insn->i0};
        control->loop[control->depth++] = loop;
    }
}

void es_npu_control_next(es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_ring *ring = &control->ring[insn->a % ES_NPU_RINGS];
    switch (insn->op) {
    case ES_NPU_LOOP:
        repeat(control);
        break;
    case ES_NPU_CFG:
        control->reg[insn->a] = (int32_t)insn->i0;
        break;
    case ES_NPU_SET:
        set(control);
        break;
    case ES_NPU_STRD:
        append(control);
        break;
    case ES_NPU_RING:
        ring->address = insn->i0;
        ring->size = insn->i1;
        ring->head = 0;
        break;
    case ES_NPU_RADV:
        ring->head = (uint32_t)(((uint64_t)ring->head + insn->i0) % ring->size);
        break;
    default:
        break;
    }
    control->pc++;
    while (control->depth > 0) {
        es_npu_loop *loop = &control->loop[control->depth - 1];
        if (control->pc != loop->end) {
            return;
        }
        if (--loop->left > 0) {
            control->pc = loop->begin;
            return;
        }
        control->depth--;
    }
}

es_npu_place es_npu_stream_use(es_npu_control *control, uint32_t number)
{
    es_npu_stream *stream = &control->stream[number];
    es_npu_place place = {NULL, (int64_t)stream->address + stream->sum};
    if (stream->ring) {
        place.ring = &control->ring[stream->ring - 1];
        place.at += place.ring->head;
    }
    /* A sum is that of at most 2^27 moves by less than 2^31. */
    for (uint32_t i = 0; i < stream->dims; i++) {
        es_npu_dim *dim = &stream->dim[i];
        if (++dim->index < dim->count) {
            stream->sum += dim->stride;
            break;
        }
        stream->sum -= dim->stride * (int64_t)(dim->count - 1);
        dim->index = 0;
    }
    return place;
}

es_npu_format es_npu_format_of(uint32_t i1)
{
    es_npu_format format = {i1 & ES_NPU_INDEX_BITS, 0, 0, 0,
                            (i1 & ES_NPU_SKIP) != 0};
    if (format.kind == ES_NPU_INDEX_N_OF_M) {
        format.n = i1 >> ES_NPU_N_SHIFT & 255;
        format.m = i1 >> ES_NPU_M_SHIFT;
        while (1u << format.bits < format.m) {
            format.bits++;
        }
    }
    return format;
}

uint32_t es_npu_index_bytes(const es_npu_format *format, uint32_t steps,
                            uint32_t cols)
{
    switch (format->kind) {
    case ES_NPU_INDEX_COLUMNS8:
        return steps;
    case ES_NPU_INDEX_COLUMNS16:
        return 2 * steps;
    case ES_NPU_INDEX_BITMASK:
        return (cols + 7) / 8;
    case ES_NPU_INDEX_N_OF_M:
        return (steps * format->bits + 7) / 8;
    default:
        return 0;
    }
}
