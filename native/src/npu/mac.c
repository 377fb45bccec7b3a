/* MACB: one activation to all lanes. MACV: every lane its own. */
#include "npu/mac.h"

es_npu_mac es_npu_mac_of(es_npu *npu, uint32_t weight_bytes,
                         uint32_t x_positions, uint32_t x_bytes)
{
    es_npu_control *control = &npu->control;
    const es_npu_insn *insn = &control->insn;
    es_npu_mac mac;
    es_npu_range range[2];
    mac.lanes = npu->config.lanes;
    mac.vl = es_npu_count(control, ES_NPU_REG_VL);
    mac.positions = es_npu_count(control, ES_NPU_REG_NPOS);
    mac.cols = es_npu_count(control, ES_NPU_REG_COLS);
    mac.row = es_npu_count(control, ES_NPU_REG_ROWLEN);
    mac.x_stride = es_npu_reg(control, ES_NPU_REG_XSTRIDE);
    mac.row_pitch = es_npu_reg(control, ES_NPU_REG_ROWPITCH);
    mac.col_pitch = es_npu_reg(control, ES_NPU_REG_COLPITCH);
    mac.zero = es_npu_reg(control, ES_NPU_REG_INZP);
    mac.steps = insn->i0;
    mac.weights = es_npu_use(npu, insn->b, weight_bytes);
    es_npu_place x = es_npu_stream_use(control, insn->c);
    uint32_t count = es_npu_columns(control, x.at, x_positions, x_bytes, range);
    es_npu_hull hull = es_npu_range_hull(&range[0]);
    if (count == 2) {
        es_npu_hull other = es_npu_range_hull(&range[1]);
        hull.from = other.from < hull.from ? other.from : hull.from;
        hull.to = other.to > hull.to ? other.to : hull.to;
    }
    mac.x = es_npu_view_of(npu, x, hull);
    return mac;
}

void es_npu_mac_count(es_npu *npu, uint64_t slots, uint64_t issued)
{
    npu->counters.mac_issued += issued;
    npu->counters.mac_pad += slots * npu->config.lanes - issued;
}

void es_npu_mac_take(es_npu *npu, uint64_t cycles)
{
    es_npu_spend(npu, ES_NPU_ENGINE_MAC, &npu->counters.mac_cyc, cycles);
}

/* Sums of lanes below VL only: idle lanes keep theirs. */
static void add_lanes(es_npu *npu, const es_npu_mac *mac, const int8_t *w,
                      const int16_t *x, uint32_t steps)
{
    es_npu_lane_sums *acc = &npu->acc[npu->control.insn.a];
    if (mac->vl == mac->lanes) {
        es_npu_lanes(acc, w, x, steps, mac->positions, mac->lanes);
        return;
    }
    es_npu_lane_sums sums[ES_NPU_NPOS_MAX];
    memcpy(sums, acc, mac->positions * sizeof sums[0]);
    es_npu_lanes(sums, w, x, steps, mac->positions, mac->lanes);
    for (uint32_t p = 0; p < mac->positions; p++) {
        memcpy(acc[p], sums[p], mac->vl * sizeof sums[p][0]);
    }
}

/* (step, p) pairs that are not skipped, and steps that have one. */
typedef struct es_npu_pairs {
    uint64_t run, steps;
} es_npu_pairs;

/* Activations of a batch, zero point off: x[step][p]. */
static void gather(const es_npu_mac *mac, const uint32_t *column,
                   uint32_t count, int16_t *x, es_npu_pairs *pairs)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t at = es_npu_column(mac, column[i]);
        uint32_t used = 0;
        for (uint32_t p = 0; p < mac->positions; p++) {
            int8_t value = (int8_t)*es_npu_at(&mac->x, at + p * mac->x_stride);
            int16_t factor = (int16_t)(value - mac->zero);
            *x++ = factor;
            used += factor != 0;
        }
        pairs->run += used;
        pairs->steps += used > 0;
    }
}

static void count_broadcast(es_npu *npu, const es_npu_mac *mac,
                            const es_npu_format *format, es_npu_pairs pairs)
{
    es_npu_counters *counters = &npu->counters;
    uint64_t all = (uint64_t)mac->steps * mac->positions;
    uint64_t index = es_npu_index_bytes(format, mac->steps, mac->cols);
    if (!format->skip || npu->knobs.bound) {
        pairs.run = all;
        pairs.steps = mac->steps;
    }
    uint64_t cycles = pairs.run, extra = 0;
    if (format->skip) {
        uint64_t scan = es_npu_ceil(all, npu->knobs.scan_width);
        extra = 1 + (scan > cycles ? scan - cycles : 0);
        counters->scan_extra += extra;
        cycles = scan > cycles ? scan : cycles;
    }
    if (format->kind == ES_NPU_INDEX_BITMASK) {
        uint64_t decode = es_npu_ceil(mac->cols, 32);
        uint64_t more = decode > cycles ? decode - cycles : 0;
        counters->index_cyc += more;
        cycles += more;
    }
    es_npu_mac_count(npu, pairs.run, pairs.run * mac->vl);
    counters->mac_skip_a += (all - pairs.run) * mac->vl;
    counters->mac_skip_w +=
        (uint64_t)(mac->cols - mac->steps) * mac->positions * mac->vl;
    counters->idx_bytes += index;
    counters->w_bytes += pairs.steps * mac->lanes;
    counters->sram_rd_bytes += all + index + pairs.steps * mac->lanes;
    es_npu_mac_take(npu, 4 + cycles + (format->skip ? 1 : 0));
}

es_npu_trap es_npu_macb(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_mac mac =
        es_npu_mac_of(npu, insn->i0 * npu->config.lanes,
                      es_npu_count(&npu->control, ES_NPU_REG_NPOS), 1);
    es_npu_columns_iter iter = {es_npu_format_of(insn->i1), mac.x, mac.cols, 0,
                                0};
    es_npu_pairs pairs = {0, 0};
    if (iter.format.kind != ES_NPU_INDEX_DENSE) {
        iter.index =
            es_npu_use(npu, insn->i2,
                       es_npu_index_bytes(&iter.format, mac.steps, mac.cols));
    }
    if (!es_npu_columns_begin(&iter, mac.steps)) {
        return es_npu_stop(npu, ES_NPU_TRAP_FMT, mac.steps);
    }
    for (uint32_t step = 0; step < mac.steps; step += ES_NPU_BATCH) {
        uint32_t left = mac.steps - step, column[ES_NPU_BATCH];
        uint32_t count = left < ES_NPU_BATCH ? left : ES_NPU_BATCH;
        uint8_t room[ES_NPU_BATCH * ES_NPU_LANES];
        int16_t x[ES_NPU_BATCH * ES_NPU_NPOS_MAX];
        es_npu_columns_next(&iter, count, column);
        for (uint32_t i = 0; i < count; i++) {
            if (column[i] >= mac.cols) {
                return es_npu_stop(npu, ES_NPU_TRAP_FMT, column[i]);
            }
        }
        gather(&mac, column, count, x, &pairs);
        add_lanes(npu, &mac,
                  (const int8_t *)es_npu_bytes(&mac.weights,
                                               (int64_t)step * mac.lanes,
                                               count * mac.lanes, room),
                  x, count);
    }
    count_broadcast(npu, &mac, &iter.format, pairs);
    return ES_NPU_TRAP_OK;
}

/* One (tap, p) pair; returns how many lanes are not the zero point. */
static uint32_t add_own(uint32_t *acc, const int8_t *w, const uint8_t *x,
                        int32_t zero, uint32_t vl)
{
    uint32_t used = 0;
    for (uint32_t l = 0; l < vl; l++) {
        int32_t factor = (int8_t)x[l] - zero;
        acc[l] += (uint32_t)(w[l] * factor);
        used += factor != 0;
    }
    return used;
}

es_npu_trap es_npu_macv(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    es_npu_counters *counters = &npu->counters;
    uint32_t cols = es_npu_count(&npu->control, ES_NPU_REG_COLS);
    bool skip = (insn->i1 & ES_NPU_SKIP) != 0;
    es_npu_mac mac = es_npu_mac_of(npu, cols * npu->config.lanes,
                                   es_npu_count(&npu->control, ES_NPU_REG_NPOS),
                                   es_npu_count(&npu->control, ES_NPU_REG_VL));
    es_npu_pairs pairs = {0, 0};
    uint8_t w_room[ES_NPU_LANES], x_room[ES_NPU_LANES];
    for (uint32_t k = 0; k < cols; k++) {
        const int8_t *w = (const int8_t *)es_npu_bytes(
            &mac.weights, (int64_t)k * mac.lanes, mac.lanes, w_room);
        int64_t at = es_npu_column(&mac, k);
        uint64_t before = pairs.run;
        for (uint32_t p = 0; p < mac.positions; p++) {
            const uint8_t *x =
                es_npu_bytes(&mac.x, at + p * mac.x_stride, mac.vl, x_room);
            uint32_t used =
                add_own(npu->acc[insn->a + p], w, x, mac.zero, mac.vl);
            if (!skip || npu->knobs.bound) {
                used = mac.vl;
            }
            pairs.run += used > 0;
            counters->mac_gated += used > 0 ? mac.vl - used : 0;
        }
        pairs.steps += pairs.run > before;
    }
    uint64_t all = (uint64_t)cols * mac.positions;
    es_npu_mac_count(npu, pairs.run, pairs.run * mac.vl);
    counters->mac_skip_a += (all - pairs.run) * mac.vl;
    counters->w_bytes += pairs.steps * mac.lanes;
    counters->sram_rd_bytes += all * mac.vl + pairs.steps * mac.lanes;
    es_npu_mac_take(npu, 4 + pairs.run);
    return ES_NPU_TRAP_OK;
}
