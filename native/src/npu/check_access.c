/* Every byte of the scratchpad an instruction may touch. Streams move on as
 * they do in a run: each access here is one use, in the order of a run. */
#include "npu/check.h"

/* A ring's bytes as one range: where its head is differs from run to run. */
static es_npu_range whole_ring(const es_npu_ring *ring)
{
    return es_npu_range_of(ring->address, ring->size);
}

es_npu_trap es_npu_check_range(es_npu_check *check, const es_npu_range *range,
                               bool writes)
{
    es_npu_hull hull = es_npu_range_hull(range);
    if (hull.from < 0 ||
        hull.to > (int64_t)check->control.config->scratchpad_bytes) {
        return es_npu_refuse(check, ES_NPU_TRAP_OOB,
                             (uint32_t)(hull.from < 0 ? hull.from : hull.to));
    }
    for (uint32_t i = 0; i < check->pending_count; i++) {
        const es_npu_pending *pending = &check->pending[i];
        if ((writes || pending->space != ES_NPU_DRAM_WRITE) &&
            es_npu_ranges_meet(range, &pending->inside, &check->budget)) {
            return es_npu_refuse(
                check, check->budget ? ES_NPU_TRAP_DMAHAZ : ES_NPU_TRAP_LIMIT,
                (uint32_t)hull.from);
        }
    }
    return ES_NPU_TRAP_OK;
}

/* The stream's place of this use, for items of `unit` bytes. */
static es_npu_trap place_of(es_npu_check *check, uint32_t stream, uint32_t unit,
                            es_npu_place *place)
{
    es_npu_control *control = &check->control;
    if (stream >= control->config->streams) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADREG, stream);
    }
    if (!control->stream[stream].is_set) {
        return es_npu_refuse(check, ES_NPU_TRAP_STREAM, stream);
    }
    *place = es_npu_stream_use(control, stream);
    if (place->at % (int64_t)unit != 0) {
        return es_npu_refuse(check, ES_NPU_TRAP_ALIGN, (uint32_t)place->at);
    }
    return ES_NPU_TRAP_OK;
}

/* One use of a stream. */
typedef struct es_npu_access {
    uint32_t stream, bytes, unit;
    bool writes;
} es_npu_access;

static es_npu_trap use(es_npu_check *check, es_npu_access one)
{
    es_npu_place place;
    es_npu_trap trap = place_of(check, one.stream, one.unit, &place);
    if (trap || one.bytes == 0) {
        return trap;
    }
    es_npu_range range = place.ring ? whole_ring(place.ring)
                                    : es_npu_range_of(place.at, one.bytes);
    return es_npu_check_range(check, &range, one.writes);
}

static es_npu_trap reads(es_npu_check *check, uint32_t stream, uint32_t bytes,
                         uint32_t unit)
{
    es_npu_access one = {stream, bytes, unit, false};
    return use(check, one);
}

/* NPOS uses. */
static es_npu_trap each(es_npu_check *check, uint32_t bytes, bool writes)
{
    uint32_t positions = es_npu_count(&check->control, ES_NPU_REG_NPOS);
    es_npu_access one = {check->control.insn.b, bytes, 1, writes};
    es_npu_trap trap = ES_NPU_TRAP_OK;
    for (uint32_t p = 0; p < positions && !trap; p++) {
        trap = use(check, one);
    }
    return trap;
}

/* The columns of all positions, from one use of stream c. */
static es_npu_trap columns(es_npu_check *check, uint32_t lanes, uint32_t bytes)
{
    es_npu_range range[2];
    es_npu_place place;
    es_npu_trap trap = place_of(check, check->control.insn.c, 1, &place);
    if (trap) {
        return trap;
    }
    if (place.ring) {
        range[0] = whole_ring(place.ring);
        return es_npu_check_range(check, &range[0], false);
    }
    uint32_t count =
        es_npu_columns(&check->control, place.at, lanes, bytes, range);
    for (uint32_t i = 0; i < count && !trap; i++) {
        trap = es_npu_check_range(check, &range[i], false);
    }
    return trap;
}

static es_npu_trap mac(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    const es_npu_insn *insn = &control->insn;
    const es_npu_config *config = control->config;
    uint32_t vl = es_npu_count(control, ES_NPU_REG_VL);
    uint32_t cols = es_npu_count(control, ES_NPU_REG_COLS);
    uint32_t lanes = es_npu_count(control, ES_NPU_REG_NPOS), bytes = 1;
    uint32_t weights = insn->i0 * config->lanes, index = insn->i0, unit = 1;
    es_npu_format format = es_npu_format_of(insn->i1);
    es_npu_trap trap;

    switch (insn->op) {
    case ES_NPU_MACB:
        index = es_npu_index_bytes(&format, insn->i0, cols);
        unit = format.kind == ES_NPU_INDEX_COLUMNS16 ? 2 : 1;
        break;
    case ES_NPU_MACV:
        weights = cols * config->lanes;
        bytes = vl;
        break;
    case ES_NPU_MACW:
        weights = insn->i0;
        lanes *= vl;
        break;
    default: /* MACG */
        unit = insn->i1 & ES_NPU_WIDE_COLUMNS ? 2 : 1;
        index = insn->i0 * (config->lanes / (insn->i1 & ES_NPU_GROUP_BITS));
        index *= unit;
        break;
    }
    trap = reads(check, insn->b, weights, 1);
    if (!trap) {
        trap = columns(check, lanes, bytes);
    }
    if (!trap && insn->op != ES_NPU_MACV &&
        (insn->op != ES_NPU_MACB || format.kind != ES_NPU_INDEX_DENSE)) {
        trap = reads(check, insn->i2, index, unit);
    }
    return trap;
}

static es_npu_trap requant(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    uint32_t vl = es_npu_count(control, ES_NPU_REG_VL);
    if (es_npu_reg(control, ES_NPU_REG_REQMODE) & ES_NPU_PER_TENSOR) {
        return ES_NPU_TRAP_OK;
    }
    es_npu_trap trap = reads(check, control->insn.i0, 4 * vl, 4);
    return trap ? trap : reads(check, control->insn.i1, vl, 1);
}

/* VL bytes below x + COLS, at u16 numbers. */
static es_npu_trap scattered(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    const es_npu_insn *insn = &control->insn;
    es_npu_access one = {insn->b, es_npu_count(control, ES_NPU_REG_COLS), 1,
                         insn->op == ES_NPU_SCAT};
    es_npu_trap trap = use(check, one);
    return trap ? trap
                : reads(check, insn->c,
                        2 * es_npu_count(control, ES_NPU_REG_VL), 2);
}

static es_npu_trap fixed(es_npu_check *check, uint32_t bytes, bool writes)
{
    es_npu_range range = es_npu_range_of(check->control.insn.i0, bytes);
    return es_npu_check_range(check, &range, writes);
}

es_npu_trap es_npu_check_access(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    const es_npu_insn *insn = &control->insn;
    uint32_t vl = es_npu_count(control, ES_NPU_REG_VL);
    uint32_t mask_bytes = control->config->lanes / 8;
    switch (insn->op) {
    case ES_NPU_RING:
        return fixed(check, insn->i1, false);
    case ES_NPU_FILL:
        return fixed(check, insn->i1, true);
    case ES_NPU_LUT:
        return fixed(check, 256, false);
    case ES_NPU_VLDA:
        return insn->c ? ES_NPU_TRAP_OK : reads(check, insn->b, 4 * vl, 4);
    case ES_NPU_VLD:
        return each(check, vl, false);
    case ES_NPU_VST:
        return each(check, vl, true);
    case ES_NPU_VSTC:
        return each(check, mask_bytes + vl, true);
    case ES_NPU_VLDC:
        return each(check, mask_bytes + vl, false);
    case ES_NPU_MACB:
    case ES_NPU_MACV:
    case ES_NPU_MACW:
    case ES_NPU_MACG:
        return mac(check);
    case ES_NPU_REQ:
        return requant(check);
    case ES_NPU_GATH:
    case ES_NPU_SCAT:
        return scattered(check);
    default:
        return ES_NPU_TRAP_OK;
    }
}
