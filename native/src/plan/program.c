#include "plan/program.h"

#include "plan/fb.h"

bool es_program_view(const es_root *root, es_program *view)
{
    const uint8_t *t = root->npu;
    es_bytes blobs;

    if (t == NULL) {
        return false;
    }
    blobs = es_fb_bytes(t, ES_SLOT(Npu, blobs));
    view->config = es_fb_u32(t, ES_SLOT(Npu, config));
    view->scratchpad_bytes = es_fb_u32(t, ES_SLOT(Npu, scratchpad_bytes));
    view->prologue = es_fb_u32(t, ES_SLOT(Npu, prologue));
    view->commands = es_fb_bytes(t, ES_SLOT(Npu, commands));
    view->blobs = (const es_blob *)(const void *)blobs.data;
    view->blob_count = blobs.count;
    return true;
}

static bool rest_is_zero(const es_blob *blob)
{
    uint8_t part = blob->part;
    bool uses_branch = part == ES_BLOB_MULTIPLIER || part == ES_BLOB_SHIFT ||
                       part == ES_BLOB_TABLE;
    bool uses_index = part == ES_BLOB_VALUES || part == ES_BLOB_INDEX ||
                      part == ES_BLOB_TABLE || part == ES_BLOB_TENSOR;
    return blob->reserved == 0 && (uses_branch || blob->branch == 0) &&
           (uses_index || blob->index == 0) &&
           (part != ES_BLOB_TENSOR || blob->step == 0);
}

static void of_mac(const es_step *step, const es_blob *blob, es_bytes *bytes)
{
    es_mac mac;
    es_row_group group;

    if (step->source_kind != ES_SOURCE_MAC) {
        return;
    }
    es_mac_view(step->source, &mac);
    if (blob->part == ES_BLOB_BIAS) {
        bytes->data = (const uint8_t *)mac.bias.data;
        bytes->count = mac.bias.count * 4;
    } else if (blob->index < mac.weights.groups.count) {
        es_row_group_view(&mac.weights, blob->index, &group);
        if (blob->part == ES_BLOB_INDEX) {
            *bytes = group.index;
        } else {
            bytes->data = (const uint8_t *)group.values.data;
            bytes->count = group.values.count;
        }
    }
}

static void of_branch(const es_step *step, const es_blob *blob, es_bytes *bytes)
{
    es_branch branch;
    es_stage stage;

    if (blob->branch >= step->branches.count) {
        return;
    }
    es_branch_view(step, blob->branch, &branch);
    if (blob->index >= branch.stages.count) {
        return;
    }
    es_stage_view(&branch, blob->index, &stage);
    if (blob->part == ES_BLOB_TABLE) {
        if (stage.kind == ES_STAGE_LUT) {
            *bytes = stage.table;
        }
    } else if (stage.kind == ES_STAGE_REQUANT) {
        bool shift = blob->part == ES_BLOB_SHIFT;
        bytes->data = shift ? (const uint8_t *)stage.shift.data
                            : (const uint8_t *)stage.multiplier.data;
        bytes->count = shift ? stage.shift.count : stage.multiplier.count * 4;
    }
}

bool es_blob_bytes(const es_root *root, const es_blob *blob, es_bytes *bytes)
{
    es_bytes found = {NULL, 0};
    es_step step;

    if (blob->part > ES_BLOB_TENSOR || !rest_is_zero(blob)) {
        return false;
    }
    if (blob->part == ES_BLOB_TENSOR) {
        if (blob->index < root->tensors.count) {
            es_tensor tensor;
            es_tensor_view(root, blob->index, &tensor);
            found = tensor.data;
        }
    } else if (blob->step < root->steps.count) {
        es_step_view(root, blob->step, &step);
        if (blob->part <= ES_BLOB_BIAS) {
            of_mac(&step, blob, &found);
        } else {
            of_branch(&step, blob, &found);
        }
    }
    if (found.count == 0) {
        return false;
    }
    *bytes = found;
    return true;
}
