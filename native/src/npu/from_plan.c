#include "edgesparse/npu_plan.h"
#include "plan/program.h"

es_status es_npu_program_of(const es_plan *plan, es_npu_blob *blobs,
                            uint32_t capacity, es_npu_program *program)
{
    es_root root;
    es_program view;
    es_bytes bytes;

    if (plan == NULL || plan->bytes == NULL || program == NULL) {
        return ES_ERR_ARG;
    }
    es_root_view(plan, &root);
    if (!es_program_view(&root, &view)) {
        return ES_ERR_NO_NPU;
    }
    if (view.blob_count > capacity || (blobs == NULL && view.blob_count > 0)) {
        return ES_ERR_ARG;
    }
    for (uint32_t i = 0; i < view.blob_count; i++) {
        (void)es_blob_bytes(&root, &view.blobs[i], &bytes); /* I-82 */
        blobs[i].data = bytes.data;
        blobs[i].size = bytes.count;
    }
    program->commands = view.commands.data;
    program->instructions = view.commands.count / ES_INSTRUCTION_BYTES;
    program->prologue = view.prologue;
    program->config = view.config;
    program->blobs = blobs;
    program->blob_count = view.blob_count;
    program->dram_bytes = root.arena_bytes;
    program->state_bytes = root.state_bytes;
    program->steps = root.steps.count;
    return ES_OK;
}
