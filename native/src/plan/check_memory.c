/* I-16 of a step's scratch, I-24 to I-26: who may stand on whose bytes. */
#include "plan/check.h"
#include "plan/fb.h"

static es_extent scratch_extent(const es_step *step)
{
    es_extent extent = {step->scratch_offset,
                        (int64_t)step->scratch_offset + step->scratch_bytes};
    return extent;
}

/* I-16. Scratch holds int32 sums, so it is aligned to them. */
static bool scratch_fits(const es_root *root, const es_step *step)
{
    es_extent extent = scratch_extent(step);
    if (step->scratch_bytes < es_step_scratch(root, step)) {
        return false;
    }
    if (step->scratch_bytes == 0) {
        return step->scratch_offset == 0;
    }
    return step->scratch_offset % 4 == 0 && extent.first >= root->state_bytes &&
           extent.end <= root->arena_bytes;
}

/* Whether each element of the branch is finished before the next one is
 * looked at, so that it may take the place of what it came from. */
static bool is_elementwise(const es_branch *branch)
{
    es_stage stage;
    for (uint32_t s = 0; s < branch->stages.count; s++) {
        es_stage_view(branch, s, &stage);
        if (es_stage_pools(stage.kind) || stage.kind == ES_STAGE_SOFTMAX) {
            return false;
        }
    }
    return true;
}

/* Whether each element of both stands at the same byte of the arena. Neither
 * is a constant: those have no bytes there and overlap nothing. */
static bool same_place(const es_root *root, uint32_t a, uint32_t b)
{
    es_tensor x, y;
    es_tensor_view(root, a, &x);
    es_tensor_view(root, b, &y);
    return x.place->ring < 0 && y.place->ring < 0 &&
           x.place->offset == y.place->offset &&
           x.place->pitch == y.place->pitch &&
           x.place->columns == y.place->columns &&
           x.place->channels == y.place->channels &&
           x.place->layout == y.place->layout &&
           x.place->phases == y.place->phases;
}

/* Whether the output of branch `b` stands on an operand of branch `k`, other
 * than element on element in its own branch. */
static bool hits_operands(const es_root *root, const es_step *step, uint32_t b,
                          uint32_t k)
{
    es_branch writer, reader;
    es_stage stage;

    es_branch_view(step, b, &writer);
    es_branch_view(step, k, &reader);
    for (uint32_t s = 0; s < reader.stages.count; s++) {
        es_stage_view(&reader, s, &stage);
        if (es_stage_has_operand(&stage) &&
            es_tensors_overlap(root, writer.output, stage.operand) &&
            !(b == k && is_elementwise(&writer) &&
              same_place(root, writer.output, stage.operand))) {
            return true;
        }
    }
    return false;
}

/* I-24: whether a tensor stands in a ring of the step's source. No operand
 * does: an Lstm has no stages, and an Svdf fewer channels than its ring. */
static bool is_state(const es_root *root, const es_step *step, uint32_t tensor)
{
    uint16_t rings[2];
    es_tensor view;
    es_tensor_view(root, tensor, &view);
    for (uint32_t i = es_step_rings(step, rings); i-- > 0;) {
        if (view.place->ring == rings[i]) {
            return true;
        }
    }
    return false;
}

/* I-24 for the output of branch `b`. */
static bool output_is_apart(const es_root *root, const es_step *step,
                            uint32_t b)
{
    es_branch branch, other;

    es_branch_view(step, b, &branch);
    if (is_state(root, step, branch.output) ||
        es_extents_overlap(es_tensor_extent(root, branch.output),
                           scratch_extent(step))) {
        return false;
    }
    /* Another branch would read what this one has overwritten: a Load may
     * repeat its only channel for all of them. */
    if (es_tensors_overlap(root, branch.output, step->input) &&
        !(step->source_kind == ES_SOURCE_LOAD && step->branches.count == 1 &&
          is_elementwise(&branch) &&
          same_place(root, branch.output, step->input))) {
        return false;
    }
    for (uint32_t k = 0; k < step->branches.count; k++) {
        if (hits_operands(root, step, b, k)) {
            return false;
        }
        es_branch_view(step, k, &other);
        if (k != b && es_tensors_overlap(root, branch.output, other.output)) {
            return false;
        }
    }
    return true;
}

/* Take from either end of what is missing what a written tensor covers. */
static bool take(es_extent *missing, es_extent written)
{
    bool taken = false;
    if (written.first <= missing->first && written.end > missing->first) {
        missing->first = written.end;
        taken = true;
    }
    if (written.end >= missing->end && written.first < missing->end) {
        missing->end = written.first;
        taken = true;
    }
    return taken;
}

/* One round of I-26 over the writers before step `steps`, the last one first;
 * whether it found something. */
static bool take_round(es_check *check, uint32_t steps, es_extent *missing)
{
    const es_root *root = &check->root;
    bool taken = false;

    for (uint32_t s = steps; s-- > 0 && missing->first < missing->end;) {
        const uint8_t *step = es_fb_element(root->steps, s);
        es_tables branches = es_fb_tables(step, ES_SLOT(Step, branches));
        for (uint32_t b = 0; b < branches.count; b++) {
            const uint8_t *branch = es_fb_element(branches, b);
            uint16_t output = es_fb_u16(branch, ES_SLOT(Branch, output));
            taken |= take(missing, es_tensor_extent(root, output));
        }
        check->looks += branches.count;
    }
    for (uint32_t i = 0; i < root->inputs.count; i++) {
        uint16_t input = es_io_tensor(root->inputs, i);
        taken |= take(missing, es_tensor_extent(root, input));
    }
    check->looks += root->inputs.count;
    return taken;
}

/* I-26 for one tensor read by step `steps` (or after the last one). */
static bool is_written(es_check *check, uint32_t steps, uint32_t tensor)
{
    es_tensor view;
    es_extent missing;

    es_tensor_view(&check->root, tensor, &view);
    if (view.data.data != NULL || view.place->ring >= 0) {
        return true;
    }
    missing = es_tensor_extent(&check->root, tensor);
    while (missing.first < missing.end && check->looks < ES_MAX_LOOKS) {
        if (!take_round(check, steps, &missing)) {
            break;
        }
    }
    return missing.first >= missing.end;
}

bool es_check_memory(es_check *check, const es_step *step, uint32_t index)
{
    const es_root *root = &check->root;
    es_extent scratch = scratch_extent(step);
    es_branch branch;
    es_stage stage;

    if (!scratch_fits(root, step)) {
        return es_refuse(check, 16, -1);
    }
    for (uint32_t b = 0; b < step->branches.count; b++) {
        if (!output_is_apart(root, step, b)) {
            return es_refuse(check, 24, (int32_t)b);
        }
    }
    if (is_state(root, step, step->input)) {
        return es_refuse(check, 24, step->input);
    }
    if (es_extents_overlap(scratch, es_tensor_extent(root, step->input))) {
        return es_refuse(check, 25, step->input);
    }
    if (!is_written(check, index, step->input)) {
        return es_refuse(check, 26, step->input);
    }
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch_view(step, b, &branch);
        for (uint32_t s = 0; s < branch.stages.count; s++) {
            es_stage_view(&branch, s, &stage);
            if (!es_stage_has_operand(&stage)) {
                continue;
            }
            if (es_extents_overlap(scratch,
                                   es_tensor_extent(root, stage.operand))) {
                return es_refuse(check, 25, stage.operand);
            }
            if (!is_written(check, index, stage.operand)) {
                return es_refuse(check, 26, stage.operand);
            }
        }
    }
    return true;
}

bool es_check_results(es_check *check)
{
    const es_root *root = &check->root;
    for (uint32_t i = 0; i < root->outputs.count; i++) {
        uint16_t tensor = es_io_tensor(root->outputs, i);
        if (!is_written(check, root->steps.count, tensor)) {
            return es_refuse(check, 26, tensor);
        }
    }
    return true;
}
