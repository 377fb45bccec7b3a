/* DENSE: rows * K weights, row by row. */
#include "weights/encoding.h"

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    bool right = group->values.count == (uint64_t)group->row_count * cols &&
                 group->index.count == 0;
    return right ? 0 : 53;
}

static void begin_rows(es_weight_iter *it)
{
    it->at_value = it->row * it->cols;
    it->left = 1;
}

static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    (void)max;
    if (it->left == 0) {
        return 0;
    }
    it->left = 0;
    batch->cols = it->cols;
    batch->values = it->group.values.data + it->at_value;
    batch->column[0] = 0;
    return 1;
}

const es_encoding es_encoding_dense = {ES_CHECK(check), begin_rows, next};
