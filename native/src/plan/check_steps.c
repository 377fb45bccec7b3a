/* I-20 to I-23, and of every step all that the other parts check. */
#include "plan/check.h"

bool es_stage_has_operand(const es_stage *stage)
{
    return (ES_HAS_ADD && stage->kind == ES_STAGE_ADD) ||
           (ES_HAS_MUL && stage->kind == ES_STAGE_MUL) ||
           (ES_HAS_ADD_SINGLE_REQUANT &&
            stage->kind == ES_STAGE_ADD_SINGLE_REQUANT);
}

/* I-20. */
static bool can_be_read(const es_root *root, uint32_t index)
{
    es_tensor tensor;
    if (index >= root->tensors.count) {
        return false;
    }
    es_tensor_view(root, index, &tensor);
    return tensor.place->ring_role != ES_RING_APPEND;
}

static bool can_be_written(const es_root *root, uint32_t index)
{
    es_tensor tensor;
    if (index >= root->tensors.count) {
        return false;
    }
    es_tensor_view(root, index, &tensor);
    return tensor.data.data == NULL && tensor.place->ring_role != ES_RING_VIEW;
}

static bool check_names(es_check *check, const es_step *step)
{
    const es_root *root = &check->root;
    es_branch branch;
    es_stage stage;

    if (!can_be_read(root, step->input)) {
        return es_refuse(check, 20, step->input);
    }
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch_view(step, b, &branch);
        if (!can_be_written(root, branch.output)) {
            return es_refuse(check, 20, branch.output);
        }
        for (uint32_t s = 0; s < branch.stages.count; s++) {
            es_stage_view(&branch, s, &stage);
            if (es_stage_has_operand(&stage) &&
                !can_be_read(root, stage.operand)) {
                return es_refuse(check, 20, stage.operand);
            }
        }
    }
    return true;
}

/* I-21. A branch is no wider than a tensor, so that sums of them fit. */
static bool check_cut(es_check *check, const es_step *step, es_flow *source)
{
    es_branch branch;
    uint32_t next = 0;

    if (step->branches.count < 1) {
        return es_refuse(check, 21, -1);
    }
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch_view(step, b, &branch);
        if (branch.first_channel != next || branch.channels < 1 ||
            branch.channels > ES_MAX_CHANNELS) {
            return es_refuse(check, 21, (int32_t)b);
        }
        next += branch.channels;
    }
    if (next > ES_MAX_CHANNELS) { /* a Load may repeat one channel at will */
        return es_refuse(check, 21, -1);
    }
    es_step_shape(&check->root, step, &source->columns, &source->channels);
    return next == source->channels || es_refuse(check, 21, -1);
}

/* Whether the source's values are int32. */
static bool gives_sums(const es_step *step)
{
    return step->source_kind == ES_SOURCE_MAC ||
           step->source_kind == ES_SOURCE_SVDF;
}

/* I-23: how many stages and branches there are. */
static bool count_fits(const es_step *step, const es_branch *branch)
{
    if (step->source_kind == ES_SOURCE_COPY ||
        step->source_kind == ES_SOURCE_LSTM) {
        return branch->stages.count == 0 && step->branches.count == 1;
    }
    return branch->stages.count > 0 || !gives_sums(step);
}

/* I-23 of one stage. */
static bool is_allowed(const es_step *step, const es_stage *stage, uint32_t at)
{
    bool narrows = stage->kind == ES_STAGE_REQUANT ||
                   stage->kind == ES_STAGE_ADD_SINGLE_REQUANT;
    return narrows == (gives_sums(step) && at == 0);
}

/* I-22 of an operand: as the value it meets, or repeated. */
static bool operand_fits(const es_root *root, uint32_t index,
                         const es_flow *flow)
{
    es_tensor tensor;
    es_tensor_view(root, index, &tensor);
    return (tensor.place->columns == 1 ||
            tensor.place->columns == flow->columns) &&
           (tensor.place->channels == 1 ||
            tensor.place->channels == flow->channels);
}

/* One stage; `flow` goes through it. */
static uint16_t check_stage(es_check *check, const es_stage *stage,
                            es_flow *flow)
{
    uint16_t broken;
    if (es_stage_has_operand(stage) &&
        !operand_fits(&check->root, stage->operand, flow)) {
        return 22;
    }
    if (es_has_windows() && stage->window != NULL) {
        broken = es_check_window(stage->window, flow->columns);
        if (broken != 0) {
            return broken;
        }
    }
    broken = ES_HAS_RUNNING ? es_check_running(check, stage, flow) : 0;
    if (broken == 0) {
        broken = es_check_arithmetic(stage, flow);
    }
    if (broken != 0) {
        return broken;
    }
    if (stage->window != NULL) {
        flow->columns = (uint32_t)stage->window->out_h * stage->window->out_w;
    } else if (stage->kind == ES_STAGE_MEAN) {
        flow->columns = 1;
    }
    return 0;
}

/* I-22, I-23 and what its stages hold, of one branch. */
static bool check_branch(es_check *check, const es_step *step, uint32_t index,
                         uint32_t columns)
{
    es_branch branch;
    es_stage stage;
    es_tensor output;
    es_flow flow;
    uint32_t pools = 0;
    bool runs = false;

    es_branch_view(step, index, &branch);
    if (!count_fits(step, &branch)) {
        return es_refuse(check, 23, (int32_t)index);
    }
    flow.columns = columns;
    flow.channels = branch.channels;
    for (uint32_t s = 0; s < branch.stages.count; s++) {
        uint16_t broken;
        es_stage_view(&branch, s, &stage);
        if (!is_allowed(step, &stage, s)) {
            return es_refuse(check, 23, (int32_t)s);
        }
        pools += es_stage_pools(stage.kind) || stage.kind == ES_STAGE_SOFTMAX;
        if (pools > ES_MAX_POOLS) {
            return es_refuse(check, 7, (int32_t)s);
        }
        broken = check_stage(check, &stage, &flow);
        if (broken != 0) {
            return es_refuse(check, broken, (int32_t)s);
        }
        runs |= stage.running.there;
    }
    if (runs && pools > 1) { /* one above would ask for its column again */
        return es_refuse(check, 47, (int32_t)index);
    }
    es_tensor_view(&check->root, branch.output, &output);
    return (output.place->columns == flow.columns &&
            output.place->channels == flow.channels) ||
           es_refuse(check, 22, (int32_t)index);
}

/* What a kind of source has of its own, before the branches. */
static bool check_source(es_check *check, const es_step *step)
{
    const es_root *root = &check->root;
    es_tensor input, output;
    es_branch branch;
    uint16_t broken = 0;

    es_tensor_view(root, step->input, &input);
    if (ES_HAS_MAC && step->source_kind == ES_SOURCE_MAC) {
        es_mac mac;
        es_mac_view(step->source, &mac);
        broken = es_check_geometry(mac.geometry, input.place);
        return broken == 0 ? es_check_weights(check, &mac)
                           : es_refuse(check, broken, -1);
    }
    if (ES_HAS_LSTM && step->source_kind == ES_SOURCE_LSTM) {
        return es_check_lstm(check, step);
    }
    if (ES_HAS_SVDF && step->source_kind == ES_SOURCE_SVDF) {
        return es_check_svdf(check, step);
    }
    if (ES_HAS_COPY && step->source_kind == ES_SOURCE_COPY) {
        es_copy copy;
        es_copy_view(step, &copy);
        es_branch_view(step, 0, &branch);
        es_tensor_view(root, branch.output, &output);
        broken = es_check_copy(&copy, input.place, output.place);
    }
    return broken == 0 || es_refuse(check, broken, -1);
}

static bool check_step(es_check *check, uint32_t index)
{
    es_step step;
    es_flow source;

    es_step_view(&check->root, index, &step);
    if (!check_names(check, &step) || !check_cut(check, &step, &source) ||
        !check_source(check, &step)) {
        return false;
    }
    for (uint32_t b = 0; b < step.branches.count; b++) {
        if (!check_branch(check, &step, b, source.columns)) {
            return false;
        }
    }
    if (ES_HAS_MAC && step.source_kind == ES_SOURCE_MAC) {
        es_mac mac;
        es_sink sink = {&step, NULL, 0};
        es_mac_view(step.source, &mac);
        if (!es_check_sums(check, &sink, &mac)) {
            return false;
        }
    }
    return es_check_memory(check, &step, index);
}

bool es_check_steps(es_check *check)
{
    for (uint32_t i = 0; i < check->root.steps.count; i++) {
        check->fault.step = (int16_t)i;
        if (!check_step(check, i)) {
            return false;
        }
    }
    check->fault.step = -1;
    return es_check_results(check);
}
