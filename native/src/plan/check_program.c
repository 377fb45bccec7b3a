/* I-80 to I-82: the frame of the NPU's program. What its instructions do is
 * proved where they run, by es_npu_verify. */
#include "plan/check.h"
#include "plan/program.h"

bool es_check_program(es_check *check)
{
    es_program npu;
    es_bytes bytes;

    if (!ES_HAS_NPU || !es_program_view(&check->root, &npu)) {
        return true;
    }
    if (npu.config == 0 || npu.config != check->root.config) {
        return es_refuse(check, 80, -1);
    }
    if (npu.commands.count % ES_INSTRUCTION_BYTES != 0 ||
        npu.prologue >= npu.commands.count / ES_INSTRUCTION_BYTES) {
        return es_refuse(check, 81, -1);
    }
    for (uint32_t i = 0; i < npu.blob_count; i++) {
        if (!es_blob_bytes(&check->root, &npu.blobs[i], &bytes)) {
            return es_refuse(check, 82, (int32_t)i);
        }
    }
    return true;
}
