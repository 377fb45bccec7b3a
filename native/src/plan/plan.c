#include "plan/check.h"
#include "plan/crc32.h"
#include "plan/fb.h"
#include "stream/stream.h"

/* I-6. An older core meets a newer plan here, or at the trailer. */
static bool format_is_known(es_check *check)
{
    es_root_view(&check->plan, &check->root);
    if (check->root.format != ES_PLAN_FORMAT) {
        check->status = ES_ERR_VERSION;
        return es_refuse(check, 6, -1);
    }
    return true;
}

static bool is_right(es_check *check)
{
    return es_check_structure(check) && format_is_known(check) &&
           es_check_built(check) && es_check_tensors(check) &&
           es_check_steps(check) && es_check_whole(check) &&
           es_check_stream(check) && es_check_program(check);
}

/* The one plan that was checked when this build was made; ES_ERR_FILE: it has
 * been damaged since. */
static es_status open_trusted(es_plan *plan, const uint8_t *bytes, size_t size)
{
    if ((uintptr_t)bytes % ES_ALIGN != 0) {
        return ES_ERR_ARG;
    }
    if (size != ES_TRUSTED_FILE || es_file_crc(bytes, size) != ES_TRUSTED_CRC) {
        return ES_ERR_BUILD;
    }
    if (es_crc32(0, bytes, ES_TRUSTED_BYTES) != ES_TRUSTED_CRC) {
        return ES_ERR_FILE;
    }
    plan->bytes = bytes;
    plan->size = ES_TRUSTED_BYTES;
    plan->root = es_fb_read_u32(bytes);
    return ES_OK;
}

static es_status open_checked(es_plan *plan, const void *bytes, size_t size,
                              es_fault *fault)
{
    es_check check = {
        .status = ES_ERR_FILE, .fault = {.step = -1, .index = -1}, .looks = 0};

    if (es_check_file(&check, bytes, size) && is_right(&check)) {
        *plan = check.plan;
        return ES_OK;
    }
    *fault = check.fault;
    return check.status;
}

es_status es_plan_open(es_plan *plan, const void *bytes, size_t size,
                       es_fault *fault)
{
    es_fault met = {0, -1, -1};
    es_status status;

    if (plan == NULL || bytes == NULL) {
        return ES_ERR_ARG;
    }
    if (ES_TRUST_PLAN) {
        status = open_trusted(plan, bytes, size);
        met.invariant = status == ES_ERR_FILE ? 3 : 0;
    } else {
        status = open_checked(plan, bytes, size, &met);
    }
    if (status != ES_OK && fault != NULL) {
        *fault = met;
    }
    return status;
}

es_status es_plan_info(const es_plan *plan, es_info *info)
{
    es_root root;
    es_stream_table stream;
    if (plan == NULL || info == NULL) {
        return ES_ERR_ARG;
    }
    es_root_view(plan, &root);
    info->ram_bytes = root.arena_bytes;
    info->state_bytes = root.state_bytes;
    info->flash_bytes = (plan->size + 15) / 16 * 16 + 64;
    info->steps = root.steps.count;
    info->inputs = root.inputs.count;
    info->outputs = root.outputs.count;
    info->config = root.config;
    info->source_sha256 = root.source_sha256.data;
    info->rate_mhz = es_stream_view(&root, &stream) ? stream.rate_mhz : 0;
    return ES_OK;
}
