/* Instructions that move and compare vectors; lanes from VL on keep what they
 * hold. */
#include "fixedpoint.h"
#include "npu/machine.h"

typedef struct es_npu_shape {
    uint32_t vl, positions, mask_bytes;
    uint32_t all; /* a mask of all lanes below VL */
} es_npu_shape;

static es_npu_shape shape_of(const es_npu *npu)
{
    es_npu_shape shape;
    shape.vl = es_npu_count(&npu->control, ES_NPU_REG_VL);
    shape.positions = es_npu_count(&npu->control, ES_NPU_REG_NPOS);
    shape.mask_bytes = npu->config.lanes / 8;
    shape.all = UINT32_MAX >> (32 - shape.vl);
    return shape;
}

static void take(es_npu *npu, uint64_t cycles)
{
    es_npu_spend(npu, ES_NPU_ENGINE_VEC, &npu->counters.vec_cyc, cycles);
}

/* A mask register, by its number plus 1. */
static uint32_t *mask_of(es_npu *npu, uint32_t field, uint32_t p)
{
    return &npu->mask[field - 1 + p];
}

static void fill(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    memset(npu->scratchpad + insn->i0, (int)insn->i2, insn->i1);
    npu->counters.sram_wr_bytes += insn->i1;
    take(npu, 1 + es_npu_ceil(insn->i1, npu->config.banks * 4));
}

static void load_sums(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    uint32_t values[ES_NPU_LANES];
    uint64_t cycles = 1;
    if (insn->c) {
        for (uint32_t l = 0; l < shape.vl; l++) {
            values[l] = (uint32_t)es_npu_reg(&npu->control, ES_NPU_REG_ACCINIT);
        }
    } else {
        uint8_t room[4 * ES_NPU_LANES];
        es_npu_view view = es_npu_use(npu, insn->b, 4 * shape.vl);
        memcpy(values, es_npu_bytes(&view, 0, 4 * shape.vl, room),
               4 * shape.vl);
        npu->counters.sram_rd_bytes += 4 * shape.vl;
        cycles += es_npu_ceil(4 * shape.vl, npu->config.banks * 4);
    }
    for (uint32_t p = 0; p < shape.positions; p++) {
        memcpy(npu->acc[insn->a + p], values, 4 * shape.vl);
    }
    take(npu, cycles);
}

static void load(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    uint8_t room[ES_NPU_LANES];
    for (uint32_t p = 0; p < shape.positions; p++) {
        es_npu_view view = es_npu_use(npu, insn->b, shape.vl);
        memcpy(npu->vec[insn->a + p], es_npu_bytes(&view, 0, shape.vl, room),
               shape.vl);
    }
    npu->counters.sram_rd_bytes += shape.vl * shape.positions;
    take(npu, shape.positions);
}

/* The lanes of a mask; returns how many bytes. */
static uint32_t store_lanes(const es_npu_view *view, const int8_t *vec,
                            uint32_t mask, uint32_t vl)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < vl; l++) {
        if (mask >> l & 1) {
            *es_npu_at(view, l) = (uint8_t)vec[l];
            count++;
        }
    }
    return count;
}

static void store(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    uint64_t cycles = 0;
    for (uint32_t p = 0; p < shape.positions; p++) {
        es_npu_view view = es_npu_use(npu, insn->b, shape.vl);
        uint32_t mask = shape.all;
        if (insn->c) {
            mask &= *mask_of(npu, insn->c, p);
        }
        uint32_t stored =
            store_lanes(&view, npu->vec[insn->a + p], mask, shape.vl);
        if (stored == 0 && !npu->knobs.bound) {
            npu->counters.vec_store_skipped++;
            continue;
        }
        npu->counters.sram_wr_bytes += npu->knobs.bound ? shape.vl : stored;
        cycles++;
    }
    take(npu, cycles);
}

/* L / 8 bytes of mask, then the bytes of its lanes. */
static void store_packed(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    for (uint32_t p = 0; p < shape.positions; p++) {
        es_npu_view view =
            es_npu_use(npu, insn->b, shape.mask_bytes + shape.vl);
        uint32_t mask = *mask_of(npu, insn->c, p) & shape.all;
        uint32_t at = shape.mask_bytes;
        for (uint32_t i = 0; i < shape.mask_bytes; i++) {
            *es_npu_at(&view, i) = (uint8_t)(mask >> 8 * i);
        }
        for (uint32_t l = 0; l < shape.vl; l++) {
            if (mask >> l & 1) {
                *es_npu_at(&view, at++) = (uint8_t)npu->vec[insn->a + p][l];
            }
        }
        npu->counters.sram_wr_bytes +=
            npu->knobs.bound ? shape.mask_bytes + shape.vl : at;
    }
    take(npu, shape.positions);
}

static void load_packed(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    int8_t zero = (int8_t)es_npu_reg(&npu->control, ES_NPU_REG_INZP);
    for (uint32_t p = 0; p < shape.positions; p++) {
        es_npu_view view =
            es_npu_use(npu, insn->b, shape.mask_bytes + shape.vl);
        uint32_t mask = 0, at = shape.mask_bytes;
        for (uint32_t i = 0; i < shape.mask_bytes; i++) {
            mask |= (uint32_t)*es_npu_at(&view, i) << 8 * i;
        }
        for (uint32_t l = 0; l < shape.vl; l++) {
            npu->vec[insn->a + p][l] =
                mask >> l & 1 ? (int8_t)*es_npu_at(&view, at++) : zero;
        }
        npu->counters.sram_rd_bytes +=
            npu->knobs.bound ? shape.mask_bytes + shape.vl : at;
    }
    take(npu, 2 * shape.positions);
}

static int8_t larger(int32_t a, int32_t b)
{
    return (int8_t)(a > b ? a : b);
}

static int8_t clamped(const es_npu *npu, int32_t v)
{
    return (int8_t)es_clamp(v, es_npu_reg(&npu->control, ES_NPU_REG_QMIN),
                            es_npu_reg(&npu->control, ES_NPU_REG_QMAX));
}

static void lanes_alone(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    for (uint32_t p = 0; p < shape.positions; p++) {
        uint32_t *sums = npu->acc[(insn->a + p) % ES_NPU_ACCUMULATORS];
        for (uint32_t l = 0; l < shape.vl; l++) {
            int32_t x = npu->vec[insn->b + p][l];
            switch (insn->op) {
            case ES_NPU_VMAX:
                npu->vec[insn->a + p][l] = larger(x, npu->vec[insn->c + p][l]);
                break;
            case ES_NPU_VCLAMP:
                npu->vec[insn->a + p][l] = clamped(npu, x);
                break;
            default: /* ACCV */
                sums[l] = sums[l] + (uint32_t)x;
                break;
            }
        }
    }
    take(npu, shape.positions);
}

static void make_masks(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_shape shape = shape_of(npu);
    int8_t zero = (int8_t)es_npu_reg(&npu->control, ES_NPU_REG_INZP);
    for (uint32_t p = 0; p < shape.positions; p++) {
        uint32_t mask = 0;
        for (uint32_t l = 0; l < shape.vl; l++) {
            mask |= (uint32_t)(npu->vec[insn->b + p][l] != zero) << l;
        }
        *mask_of(npu, insn->a, p) = mask;
    }
    take(npu, shape.positions);
}

static void join_masks(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    uint32_t positions = es_npu_count(&npu->control, ES_NPU_REG_NPOS);
    for (uint32_t p = 0; p < positions; p++) {
        *mask_of(npu, insn->a, p) =
            *mask_of(npu, insn->b, p) & *mask_of(npu, insn->c, p);
    }
    take(npu, positions);
}

/* GATH and SCAT. */
static es_npu_trap scattered(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    uint32_t vl = es_npu_count(&npu->control, ES_NPU_REG_VL);
    uint32_t cols = es_npu_count(&npu->control, ES_NPU_REG_COLS);
    es_npu_view x = es_npu_use(npu, insn->b, cols);
    es_npu_view index = es_npu_use(npu, insn->c, 2 * vl);
    int64_t offset[ES_NPU_LANES];
    for (uint32_t l = 0; l < vl; l++) {
        uint32_t low = *es_npu_at(&index, 2 * l);
        offset[l] = low | (uint32_t)*es_npu_at(&index, 2 * l + 1) << 8;
        if (offset[l] >= (int64_t)cols) {
            return es_npu_stop(npu, ES_NPU_TRAP_FMT, (uint32_t)offset[l]);
        }
    }
    for (uint32_t l = 0; l < vl; l++) {
        uint8_t *at = es_npu_at(&x, offset[l]);
        if (insn->op == ES_NPU_GATH) {
            npu->vec[insn->a][l] = (int8_t)*at;
        } else {
            *at = (uint8_t)npu->vec[insn->a][l];
        }
    }
    npu->counters.idx_bytes += 2 * vl;
    npu->counters.sram_rd_bytes += 2 * vl;
    *(insn->op == ES_NPU_GATH ? &npu->counters.sram_rd_bytes
                              : &npu->counters.sram_wr_bytes) += vl;
    take(npu, 1 + es_npu_fullest_bank(npu, &x, offset, vl));
    return ES_NPU_TRAP_OK;
}

es_npu_trap es_npu_vector(es_npu *npu)
{
    switch (npu->control.insn.op) {
    case ES_NPU_FILL:
        fill(npu);
        break;
    case ES_NPU_VLDA:
        load_sums(npu);
        break;
    case ES_NPU_VLD:
        load(npu);
        break;
    case ES_NPU_VST:
        store(npu);
        break;
    case ES_NPU_VSTC:
        store_packed(npu);
        break;
    case ES_NPU_VLDC:
        load_packed(npu);
        break;
    case ES_NPU_MSK:
        make_masks(npu);
        break;
    case ES_NPU_MAND:
        join_masks(npu);
        break;
    case ES_NPU_GATH:
    case ES_NPU_SCAT:
        return scattered(npu);
    default:
        lanes_alone(npu);
        break;
    }
    return ES_NPU_TRAP_OK;
}
