/* Whether this build has what a plan needs. In a build that has everything all
 * of this is constant and drops out.
 *
 * Runs after the structural check and relies on nothing else. */
#include "plan/check.h"
#include "stream/stream.h"

static bool has_weights(const es_mac *mac)
{
    for (uint32_t i = 0; i < mac->weights.groups.count; i++) {
        es_row_group group;
        es_row_group_view(&mac->weights, i, &group);
        if (!es_has_encoding(group.encoding)) {
            return false;
        }
    }
    return ES_HAS_GROUPS || mac->geometry->groups == 1;
}

static bool has_source(const es_root *root, const es_step *step)
{
    es_mac mac;
    es_lstm lstm;
    es_svdf svdf;

    if (!es_has_source(step->source_kind)) {
        return false;
    }
    switch (step->source_kind) {
    case ES_SOURCE_MAC:
        es_mac_view(step->source, &mac);
        return has_weights(&mac) &&
               (ES_HAS_PATCHES || step->input >= root->tensors.count ||
                es_mac_patch_bytes(es_tensor_place(root, step->input, NULL),
                                   mac.geometry) == 0);
    case ES_SOURCE_LSTM:
        if (ES_HAS_LSTM) {
            es_lstm_view(step, &lstm);
            return has_weights(&lstm.input) && has_weights(&lstm.recurrent);
        }
        return true;
    case ES_SOURCE_SVDF:
        if (ES_HAS_SVDF) {
            es_svdf_view(step, &svdf);
            return has_weights(&svdf.feature);
        }
        return true;
    default:
        return true;
    }
}

static bool has_stages(const es_branch *branch)
{
    for (uint32_t i = 0; i < branch->stages.count; i++) {
        es_stage stage;
        es_stage_view(branch, i, &stage);
        if (!es_has_stage(stage.kind) ||
            (!ES_HAS_RUNNING && stage.running.there)) {
            return false;
        }
    }
    return true;
}

static bool has_step(const es_root *root, uint32_t index)
{
    es_step step;
    es_step_view(root, index, &step);
    if (!has_source(root, &step) ||
        (!ES_HAS_BRANCHES && step.branches.count > 1)) {
        return false;
    }
    for (uint32_t b = 0; b < step.branches.count; b++) {
        es_branch branch;
        es_branch_view(&step, b, &branch);
        if (!has_stages(&branch)) {
            return false;
        }
    }
    return true;
}

static bool has_tensor(const es_root *root, uint32_t index)
{
    es_tensor tensor;
    es_tensor_view(root, index, &tensor);
    return (ES_HAS_LAYOUTS || tensor.place->layout == ES_LAYOUT_NWC) &&
           (ES_HAS_HALO || tensor.place->halo == 0);
}

static bool has_stream(const es_root *root)
{
    es_stream_table table;
    if (root->stream == NULL) {
        return true;
    }
    return ES_HAS_STREAM && es_stream_view(root, &table) &&
           (ES_HAS_FRONT_END || !table.has_front_end) &&
           (ES_HAS_BEATS || !table.has_beats) &&
           (ES_HAS_QUALITY || !table.has_quality);
}

static bool refuse(es_check *check, int32_t index)
{
    check->status = ES_ERR_BUILD;
    return es_refuse(check, 0, index);
}

bool es_check_built(es_check *check)
{
    const es_root *root = &check->root;

    if (ES_BUILT_ALL) {
        return true;
    }
    for (uint32_t i = 0; i < root->steps.count; i++) {
        if (!has_step(root, i)) {
            check->fault.step = (int16_t)i;
            return refuse(check, -1);
        }
    }
    for (uint32_t i = 0; i < root->tensors.count; i++) {
        if (!has_tensor(root, i)) {
            return refuse(check, (int32_t)i);
        }
    }
    return (has_stream(root) && (ES_HAS_RINGS || root->ring_count == 0) &&
            (ES_HAS_NPU || root->npu == NULL)) ||
           refuse(check, -1);
}
