/* MACW: one weight for lanes along time. MACG: every group of lanes its own
 * column. */
#include "npu/mac.h"

/* ---- MACW ---- */

/* Words of `count` lanes in the fullest bank. Lanes that stand side by side
 * take consecutive words, so all banks in turn. */
static uint32_t lanes_conflict(const es_npu *npu, const es_npu_mac *mac,
                               int64_t first)
{
    int64_t offset[ES_NPU_LANES];
    if (mac->x_stride == 1 && mac->x.size == 0) {
        int64_t at = es_npu_at(&mac->x, first) - npu->scratchpad;
        int64_t words = (at + mac->vl - 1) / 4 - at / 4 + 1;
        return (uint32_t)es_npu_ceil((uint64_t)words, npu->config.banks);
    }
    for (uint32_t l = 0; l < mac->vl; l++) {
        offset[l] = first + l * mac->x_stride;
    }
    return es_npu_fullest_bank(npu, &mac->x, offset, mac->vl);
}

/* Slots that conflicts add to one of each step and position. */
static uint64_t add_weight(es_npu *npu, const es_npu_mac *mac, uint32_t column,
                           int32_t weight)
{
    uint64_t conflicts = 0;
    int64_t at = es_npu_column(mac, column);
    for (uint32_t p = 0; p < mac->positions; p++) {
        uint32_t *acc = npu->acc[npu->control.insn.a + p];
        int64_t first = at + (int64_t)p * mac->vl * mac->x_stride;
        for (uint32_t l = 0; l < mac->vl; l++) {
            int8_t x = (int8_t)*es_npu_at(&mac->x, first + l * mac->x_stride);
            acc[l] += (uint32_t)(weight * (x - mac->zero));
        }
        conflicts += lanes_conflict(npu, mac, first) - 1;
    }
    return conflicts;
}

/* absent: products of the lanes below VL whose weight is not stored. */
static void count_sparse(es_npu *npu, const es_npu_mac *mac, uint64_t issued,
                         uint64_t absent, uint64_t conflicts)
{
    uint64_t slots = (uint64_t)mac->steps * mac->positions;
    es_npu_mac_count(npu, slots, issued);
    npu->counters.mac_skip_w += absent;
    npu->counters.gather_conflict_cyc += conflicts;
    es_npu_mac_take(npu, 4 + slots + conflicts);
}

static void count_bytes(es_npu *npu, uint64_t weights, uint64_t index,
                        uint64_t x)
{
    npu->counters.w_bytes += weights;
    npu->counters.idx_bytes += index;
    npu->counters.sram_rd_bytes += weights + index + x;
}

es_npu_trap es_npu_macw(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    uint32_t lanes = es_npu_count(&npu->control, ES_NPU_REG_NPOS) *
                     es_npu_count(&npu->control, ES_NPU_REG_VL);
    es_npu_mac mac = es_npu_mac_of(npu, insn->i0, lanes, 1);
    es_npu_view index = es_npu_use(npu, insn->i2, mac.steps);
    uint64_t issued = 0, conflicts = 0;
    uint32_t column = 0; /* of the next step, if its delta is 0 */
    uint32_t absent = mac.cols;
    for (uint32_t step = 0; step < mac.steps; step++) {
        int32_t weight = (int8_t)*es_npu_at(&mac.weights, step);
        column += *es_npu_at(&index, step);
        if (column >= mac.cols) {
            return es_npu_stop(npu, ES_NPU_TRAP_FMT, column);
        }
        if (weight != 0) {
            conflicts += add_weight(npu, &mac, column, weight);
            issued += lanes;
            absent--;
        }
        column++;
    }
    count_sparse(npu, &mac, issued, (uint64_t)absent * lanes, conflicts);
    count_bytes(npu, mac.steps, mac.steps, issued);
    return ES_NPU_TRAP_OK;
}

/* ---- MACG ---- */

/* The groups of one step that are not padding. */
typedef struct es_npu_groups {
    uint32_t size, count;         /* lanes of one; how many used */
    uint32_t lane[ES_NPU_LANES];  /* first lane of each */
    int64_t offset[ES_NPU_LANES]; /* of its column */
    uint32_t stored;              /* columns so far, over all lanes below VL */
} es_npu_groups;

static bool any_weight(const int8_t *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (w[i] != 0) {
            return true;
        }
    }
    return false;
}

/* false: a column that is not there, which is left in *column. */
static bool find_groups(const es_npu_mac *mac, const int8_t *w,
                        const uint32_t *column, es_npu_groups *groups,
                        uint32_t *wrong)
{
    groups->count = 0;
    for (uint32_t g = 0; g < mac->lanes / groups->size; g++) {
        uint32_t lane = g * groups->size;
        if (column[g] >= mac->cols) {
            *wrong = column[g];
            return false;
        }
        if (lane < mac->vl && any_weight(w + lane, groups->size)) {
            uint32_t end = lane + groups->size;
            groups->lane[groups->count] = lane;
            groups->offset[groups->count++] = es_npu_column(mac, column[g]);
            groups->stored += (end < mac->vl ? end : mac->vl) - lane;
        }
    }
    return true;
}

/* One step at position p; returns its conflicts, adds its products up. */
static uint64_t add_groups(es_npu *npu, const es_npu_mac *mac, const int8_t *w,
                           const es_npu_groups *groups, uint32_t p,
                           uint64_t *issued)
{
    uint32_t *acc = npu->acc[npu->control.insn.a + p];
    int64_t offset[ES_NPU_LANES];
    for (uint32_t g = 0; g < groups->count; g++) {
        offset[g] = groups->offset[g] + p * mac->x_stride;
        int32_t x = (int8_t)*es_npu_at(&mac->x, offset[g]) - mac->zero;
        uint32_t first = groups->lane[g], end = first + groups->size;
        for (uint32_t l = first; l < end && l < mac->vl; l++) {
            acc[l] += (uint32_t)(w[l] * x);
            (*issued)++;
        }
    }
    uint32_t slots = es_npu_fullest_bank(npu, &mac->x, offset, groups->count);
    return slots > 1 ? slots - 1 : 0;
}

static void read_columns(const es_npu_view *index, int64_t first,
                         uint32_t count, bool wide, uint32_t *column)
{
    for (uint32_t g = 0; g < count; g++) {
        int64_t at = wide ? 2 * (first + g) : first + g;
        column[g] = *es_npu_at(index, at);
        if (wide) {
            column[g] |= (uint32_t)*es_npu_at(index, at + 1) << 8;
        }
    }
}

es_npu_trap es_npu_macg(es_npu *npu)
{
    const es_npu_insn *insn = &npu->control.insn;
    bool wide = (insn->i1 & ES_NPU_WIDE_COLUMNS) != 0;
    es_npu_mac mac =
        es_npu_mac_of(npu, insn->i0 * npu->config.lanes,
                      es_npu_count(&npu->control, ES_NPU_REG_NPOS), 1);
    es_npu_groups groups;
    groups.size = insn->i1 & ES_NPU_GROUP_BITS;
    groups.stored = 0;
    uint32_t per_step = mac.lanes / groups.size, wrong;
    uint32_t index_bytes = mac.steps * per_step * (wide ? 2 : 1);
    es_npu_view index = es_npu_use(npu, insn->i2, index_bytes);
    uint64_t issued = 0, conflicts = 0, x_bytes = 0;
    for (uint32_t step = 0; step < mac.steps; step++) {
        uint8_t room[ES_NPU_LANES];
        uint32_t column[ES_NPU_LANES];
        const int8_t *w = (const int8_t *)es_npu_bytes(
            &mac.weights, (int64_t)step * mac.lanes, mac.lanes, room);
        read_columns(&index, (int64_t)step * per_step, per_step, wide, column);
        if (!find_groups(&mac, w, column, &groups, &wrong)) {
            return es_npu_stop(npu, ES_NPU_TRAP_FMT, wrong);
        }
        for (uint32_t p = 0; p < mac.positions; p++) {
            conflicts += add_groups(npu, &mac, w, &groups, p, &issued);
        }
        x_bytes += (uint64_t)groups.count * mac.positions;
    }
    uint64_t absent = (uint64_t)mac.cols * mac.vl - groups.stored;
    count_sparse(npu, &mac, issued, absent * mac.positions, conflicts);
    count_bytes(npu, (uint64_t)mac.steps * mac.lanes, index_bytes, x_bytes);
    return ES_NPU_TRAP_OK;
}
