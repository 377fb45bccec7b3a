/* The requantizer and the table unit, with the arithmetic of plans. */
#include "elementwise.h"
#include "npu/machine.h"

static int32_t reg(const es_npu *npu, int number)
{
    return es_npu_reg(&npu->control, number);
}

static uint8_t rounding(const es_npu *npu)
{
    return reg(npu, ES_NPU_REG_REQMODE) & ES_NPU_SINGLE_ROUNDING
               ? ES_ROUND_SINGLE
               : ES_ROUND_DOUBLE;
}

static int8_t clamped(const es_npu *npu, int32_t v)
{
    return (int8_t)es_clamp(v, reg(npu, ES_NPU_REG_QMIN),
                            reg(npu, ES_NPU_REG_QMAX));
}

/* Cycles: so many for ceil(VL / rate) elements of every position. */
static void take(es_npu *npu, uint32_t rate, uint32_t times)
{
    uint64_t cycles = es_npu_ceil((uint32_t)reg(npu, ES_NPU_REG_VL), rate);
    bool table = npu->control.insn.op == ES_NPU_LUT;
    cycles = 1 + cycles * times * (uint32_t)reg(npu, ES_NPU_REG_NPOS);
    es_npu_spend(npu, table ? ES_NPU_ENGINE_LUT : ES_NPU_ENGINE_REQ,
                 table ? &npu->counters.lut_cyc : &npu->counters.req_cyc,
                 cycles);
}

typedef struct es_npu_factors {
    int32_t multiplier[ES_NPU_LANES];
    int8_t shift[ES_NPU_LANES];
} es_npu_factors;

/* FMT for a factor that no plan has. */
static es_npu_trap load_factors(es_npu *npu, uint32_t vl,
                                es_npu_factors *factors)
{
    const es_npu_insn *insn = &npu->control.insn;
    uint8_t room[4 * ES_NPU_LANES];
    es_npu_view multipliers = es_npu_use(npu, insn->i0, 4 * vl);
    es_npu_view shifts = es_npu_use(npu, insn->i1, vl);
    memcpy(factors->multiplier, es_npu_bytes(&multipliers, 0, 4 * vl, room),
           4 * vl);
    memcpy(factors->shift, es_npu_bytes(&shifts, 0, vl, room), vl);
    npu->counters.sram_rd_bytes += 5 * vl;
    for (uint32_t l = 0; l < vl; l++) {
        if (factors->multiplier[l] < 0 || factors->shift[l] < -31 ||
            factors->shift[l] > 30) {
            return es_npu_stop(npu, ES_NPU_TRAP_FMT, l);
        }
    }
    return ES_NPU_TRAP_OK;
}

static es_npu_trap requantize(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    uint32_t vl = (uint32_t)reg(npu, ES_NPU_REG_VL);
    int32_t zero = reg(npu, ES_NPU_REG_OUTZP);
    es_npu_factors factors;
    if (reg(npu, ES_NPU_REG_REQMODE) & ES_NPU_PER_TENSOR) {
        for (uint32_t l = 0; l < vl; l++) {
            factors.multiplier[l] = reg(npu, ES_NPU_REG_QMULT);
            factors.shift[l] = (int8_t)reg(npu, ES_NPU_REG_QSHIFT);
        }
    } else {
        es_npu_trap trap = load_factors(npu, vl, &factors);
        if (trap) {
            return trap;
        }
    }
    for (uint32_t p = 0; p < (uint32_t)reg(npu, ES_NPU_REG_NPOS); p++) {
        uint32_t mask = 0;
        for (uint32_t l = 0; l < vl; l++) {
            int32_t scaled =
                es_mbqm((int32_t)npu->acc[insn->b + p][l],
                        factors.multiplier[l], factors.shift[l], rounding(npu));
            int8_t v = clamped(npu, es_wrapping_sum(zero, scaled));
            npu->vec[insn->a + p][l] = v;
            mask |= (uint32_t)(v != zero) << l;
        }
        if (insn->c) {
            npu->mask[insn->c - 1 + p] = mask;
        }
    }
    take(npu, npu->config.requant_rate, 1);
    return ES_NPU_TRAP_OK;
}

static void look_up(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    const uint8_t *table = npu->scratchpad + insn->i0;
    uint32_t vl = (uint32_t)reg(npu, ES_NPU_REG_VL);
    uint32_t positions = (uint32_t)reg(npu, ES_NPU_REG_NPOS);
    for (uint32_t p = 0; p < positions; p++) {
        for (uint32_t l = 0; l < vl; l++) {
            npu->vec[insn->a + p][l] =
                (int8_t)table[npu->vec[insn->b + p][l] + 128];
        }
    }
    npu->counters.sram_rd_bytes += vl * positions;
    take(npu, npu->config.table_rate, 1);
}

static es_scaled scaled(const es_npu *npu, int zero_point, int multiplier,
                        int shift)
{
    int32_t m = reg(npu, multiplier);
    es_scaled result = {(int16_t)reg(npu, zero_point), (int16_t)reg(npu, shift),
                        m < 0 ? -m : m};
    return result;
}

/* VADDQ and VMULQ: stages Add and Mul of a plan. */
static void two_operands(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_scaled value =
        scaled(npu, ES_NPU_REG_A_ZP, ES_NPU_REG_A_MULT, ES_NPU_REG_A_SHIFT);
    es_scaled other =
        scaled(npu, ES_NPU_REG_B_ZP, ES_NPU_REG_B_MULT, ES_NPU_REG_B_SHIFT);
    es_scaled out =
        scaled(npu, ES_NPU_REG_O_ZP, ES_NPU_REG_O_MULT, ES_NPU_REG_O_SHIFT);
    es_stage stage;
    memset(&stage, 0, sizeof stage);
    stage.value = &value;
    stage.other = &other;
    stage.out = &out;
    stage.rounding = rounding(npu);
    stage.left_shift = (uint8_t)reg(npu, ES_NPU_REG_LSHIFT);
    stage.negate_value = reg(npu, ES_NPU_REG_A_MULT) < 0;
    stage.negate_other = reg(npu, ES_NPU_REG_B_MULT) < 0;
    stage.value_zero_point = (int8_t)value.zero_point;
    stage.other_zero_point = (int8_t)other.zero_point;
    for (uint32_t p = 0; p < (uint32_t)reg(npu, ES_NPU_REG_NPOS); p++) {
        for (uint32_t l = 0; l < (uint32_t)reg(npu, ES_NPU_REG_VL); l++) {
            int32_t v = npu->vec[insn->b + p][l], o = npu->vec[insn->c + p][l];
            int32_t result = insn->op == ES_NPU_VADDQ
                                 ? es_stage_add(&stage, v, o)
                                 : es_stage_mul(&stage, v, o);
            npu->vec[insn->a + p][l] = clamped(npu, result);
        }
    }
    take(npu, npu->config.requant_rate, 3);
}

static void average(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    for (uint32_t p = 0; p < (uint32_t)reg(npu, ES_NPU_REG_NPOS); p++) {
        for (uint32_t l = 0; l < (uint32_t)reg(npu, ES_NPU_REG_VL); l++) {
            npu->vec[insn->a + p][l] =
                clamped(npu, es_average((int32_t)npu->acc[insn->b + p][l],
                                        (int32_t)insn->i0));
        }
    }
    take(npu, npu->config.requant_rate, 1);
}

es_npu_trap es_npu_requant(es_npu *npu)
{
    switch (npu->control.insn.op) {
    case ES_NPU_REQ:
        return requantize(npu);
    case ES_NPU_LUT:
        look_up(npu);
        break;
    case ES_NPU_AVGR:
        average(npu);
        break;
    default:
        two_operands(npu);
        break;
    }
    return ES_NPU_TRAP_OK;
}
