/* Regular Mac steps: who is one, and the kernels that take it whole. */
#include "exec/kernels.h"

static bool is_nwc(const es_map *map)
{
    return map->place->layout == ES_LAYOUT_NWC;
}

/* Requant, and nothing or an Add. */
static bool stages_are_regular(const es_exec *x, const es_branch *branch,
                               es_regular *view)
{
    uint32_t count = branch->stages.count;
    if (count < 1 || count > 2) {
        return false;
    }
    es_stage_view(branch, 0, &view->requant);
    view->add.kind = 0;
    if (view->requant.kind != ES_STAGE_REQUANT ||
        view->requant.rounding != ES_ROUND_DOUBLE) {
        return false;
    }
    if (count == 1) {
        return true;
    }
    es_stage_view(branch, 1, &view->add);
    if (!ES_HAS_ADD || view->add.kind != ES_STAGE_ADD) {
        return false;
    }
    view->operand = es_reader_of(x, view->add.operand);
    const es_place *operand = view->operand.map.place;
    const es_place *output = view->output.map.place;
    return is_nwc(&view->operand.map) && operand->columns == output->columns &&
           operand->channels == output->channels;
}

bool es_regular_view(const es_exec *x, es_regular *view)
{
    if (!ES_HAS_MAC || x->step.source_kind != ES_SOURCE_MAC ||
        x->step.branches.count != 1 || !is_nwc(&x->input.map) ||
        !is_nwc(&x->lane.output.map)) {
        return false;
    }
    es_mac mac;
    es_mac_view(x->step.source, &mac);
    if (mac.bias_form != ES_BIAS_FOLDED || mac.weights.row_order.data ||
        mac.weights.groups.count != 1) {
        return false;
    }
    const es_geometry *g = mac.geometry;
    es_only_group_view(&mac.weights, &view->group);
    view->geometry = g;
    view->bias = mac.bias.data;
    view->patch = (uint32_t)g->kernel_h * g->kernel_w * g->in_c;
    view->in_place = es_mac_in_place(x->input.map.place, g);
    view->output = x->lane.output;
    view->input = x->input;
    view->columns = view->output.map.place->columns;
    view->scratch = x->arena + x->step.scratch_offset;
    view->scratch_bytes = x->step.scratch_bytes;
    return stages_are_regular(x, &x->lane.branch, view);
}

const int8_t *es_regular_patch(const es_regular *step, uint32_t column,
                               int8_t *to)
{
    const es_geometry *g = step->geometry;
    if (ES_HAS_PATCHES && !step->in_place) {
        es_gather(&step->input, g, column, to);
        return to;
    }
    uint32_t row = column / g->out_w * g->stride_h;
    uint32_t at = column % g->out_w * g->stride_w + row * g->in_w;
    return step->input.base + es_nwc_column_at(&step->input.map, (int32_t)at);
}

/* One more for every kernel in the list: without one, nobody is asked. */
enum {
    KERNELS = 0
#define ES_REGULAR_KERNEL(name) +1
#include "exec/exec_kernels.inc"
};

bool es_regular_run(const es_exec *x)
{
    es_regular step;
    if (KERNELS == 0 || !es_regular_view(x, &step)) {
        return false;
    }
#define ES_REGULAR_KERNEL(name)                                                \
    if (name(&step)) {                                                         \
        return true;                                                           \
    }
#include "exec/exec_kernels.inc"
    return false;
}
