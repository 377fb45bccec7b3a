/* Operations and kinds of fields, from the one table of instructions. */
#include "npu/check.h"

enum {
#define ES_NPU_KIND(name, value) KIND_##name = (value),
#include "edgesparse/npu_isa.inc"
    KINDS
};

enum { FIELDS = 6 };

static const uint8_t kinds[ES_NPU_OPS][FIELDS] = {
#define ES_NPU_OP(name, value, a, b, c, i0, i1, i2)                            \
    [value] = {KIND_##a, KIND_##b, KIND_##c, KIND_##i0, KIND_##i1, KIND_##i2},
#include "edgesparse/npu_isa.inc"
};

static void fields_of(const es_npu_insn *insn, uint32_t field[FIELDS])
{
    field[0] = insn->a;
    field[1] = insn->b;
    field[2] = insn->c;
    field[3] = insn->i0;
    field[4] = insn->i1;
    field[5] = insn->i2;
}

/* How many numbers a kind has; UINT32_MAX: all of its type. */
static uint32_t limit_of(const es_npu_config *config, uint8_t kind)
{
    switch (kind) {
    case KIND_NONE:
        return 1;
    case KIND_ACC:
        return config->accumulators;
    case KIND_VEC:
    case KIND_ONE_VEC:
        return config->vectors;
    case KIND_MASK:
        return config->masks + 1;
    case KIND_STREAM:
        return config->streams;
    case KIND_RING:
        return config->rings;
    case KIND_RING_OR_NONE:
        return config->rings + 1;
    case KIND_CHANNEL:
        return ES_NPU_DMA_CHANNELS;
    case KIND_CONFIG:
        return ES_NPU_REGS;
    default:
        return UINT32_MAX;
    }
}

static es_npu_trap check_one(es_npu_check *check)
{
    const es_npu_insn *insn = &check->control.insn;
    uint32_t field[FIELDS];
    if (insn->op >= ES_NPU_OPS) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADOP, insn->op);
    }
    fields_of(insn, field);
    for (int i = 0; i < FIELDS; i++) {
        uint8_t kind = kinds[insn->op][i];
        uint32_t limit = limit_of(check->control.config, kind);
        if (limit != UINT32_MAX && field[i] >= limit) {
            return es_npu_refuse(check,
                                 kind == KIND_NONE ? ES_NPU_TRAP_BADVALUE
                                                   : ES_NPU_TRAP_BADREG,
                                 field[i]);
        }
    }
    return ES_NPU_TRAP_OK;
}

es_npu_trap es_npu_check_fields(es_npu_check *check)
{
    es_npu_control *control = &check->control;
    uint32_t count = control->program->instructions;
    for (control->pc = 0; control->pc < count; control->pc++) {
        es_npu_control_read(control);
        es_npu_trap trap = check_one(check);
        if (trap) {
            return trap;
        }
    }
    return ES_NPU_TRAP_OK;
}

/* NPOS registers from the first one on. */
es_npu_trap es_npu_check_registers(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    uint32_t positions = es_npu_count(control, ES_NPU_REG_NPOS);
    uint32_t field[FIELDS];
    fields_of(&control->insn, field);
    for (int i = 0; i < FIELDS; i++) {
        uint8_t kind = kinds[control->insn.op][i];
        if (kind != KIND_ACC && kind != KIND_VEC &&
            (kind != KIND_MASK || field[i] == 0)) {
            continue;
        }
        uint32_t limit = limit_of(control->config, kind);
        if (field[i] + positions > limit) {
            return es_npu_refuse(check, ES_NPU_TRAP_BADREG, field[i]);
        }
    }
    return ES_NPU_TRAP_OK;
}
