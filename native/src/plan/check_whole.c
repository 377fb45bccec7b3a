/* I-60 to I-62: the self test, the source's digest, names. */
#include "plan/check.h"
#include "plan/fb.h"

static bool golden_fits(const es_root *root)
{
    uint64_t bytes = 0;
    es_tensor tensor;

    for (uint32_t i = 0; i < root->outputs.count; i++) {
        es_tensor_view(root, es_io_tensor(root->outputs, i), &tensor);
        bytes += (uint64_t)tensor.place->columns * tensor.place->channels;
    }
    return root->golden_seed != 0 && root->golden_outputs.count == bytes;
}

/* I-62: absent or one string each. */
static bool one_each(const uint8_t *names, uint32_t slot, uint32_t count)
{
    es_tables strings = es_fb_tables(names, slot);
    return strings.data == NULL || strings.count == count;
}

bool es_check_whole(es_check *check)
{
    const es_root *root = &check->root;
    const uint8_t *plan = check->plan.bytes + check->plan.root;
    const uint8_t *names = es_fb_table(plan, ES_SLOT(Plan, names));

    if (root->has_golden && !golden_fits(root)) {
        return es_refuse(check, 60, -1);
    }
    if (root->source_sha256.data != NULL && root->source_sha256.count != 32) {
        return es_refuse(check, 61, -1);
    }
    if (names != NULL &&
        (!one_each(names, ES_SLOT(Names, tensors), root->tensors.count) ||
         !one_each(names, ES_SLOT(Names, steps), root->steps.count) ||
         !one_each(names, ES_SLOT(Names, inputs), root->inputs.count) ||
         !one_each(names, ES_SLOT(Names, outputs), root->outputs.count))) {
        return es_refuse(check, 62, -1);
    }
    return true;
}
