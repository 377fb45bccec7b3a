/* The iterator over every encoding, and the checks they have in common. */
#include "weights/encoding.h"

static const es_encoding *const encodings[ES_ENCODINGS] = {
    ES_HAS_DENSE ? &es_encoding_dense : NULL,
    ES_HAS_BITMASK ? &es_encoding_bitmask : NULL,
    ES_HAS_BSR ? &es_encoding_bsr : NULL,
    ES_HAS_NM ? &es_encoding_nm : NULL,
    ES_HAS_DELTA_CSR ? &es_encoding_delta_csr : NULL,
    ES_HAS_LANES ? &es_encoding_lanes : NULL,
};

void es_weights_begin(es_weight_iter *it, const es_row_group *group,
                      uint32_t cols)
{
    it->group = *group;
    it->cols = cols;
    it->row = 0;
    it->rows = 0;
    it->at_value = 0;
    it->at_index = 0;
    it->left = 0;
    it->col = cols; /* nothing is left of the row block before the first */
}

static bool next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    batch->rows = 1;
    batch->cols = 1;
    batch->row_stride = 1;
    batch->block_stride = 1;
    batch->count = encodings[it->group.encoding]->next(it, batch, max);
    return batch->count != 0;
}

/* Rows of a row block but the last one of a group. */
static uint32_t block_height(const es_row_group *group)
{
    if (!ES_HAS_LANES || group->encoding != ES_LANES) {
        return group->block_rows;
    }
    uint32_t share = group->block_cols;
    return share < ES_MAX_BLOCK_ROWS ? share : ES_MAX_BLOCK_ROWS;
}

bool es_weights_next_rows(es_weight_iter *it)
{
    es_batch skipped;
    while (next(it, &skipped, ES_MAX_BATCH)) {
    }
    it->row += it->rows;
    if (it->row >= it->group.row_count) {
        it->rows = 0;
        return false;
    }
    uint32_t rest = it->group.row_count - it->row;
    uint32_t height = block_height(&it->group);
    it->rows = rest < height ? rest : height;
    encodings[it->group.encoding]->begin_rows(it);
    return true;
}

bool es_weights_next_batch(es_weight_iter *it, es_batch *batch)
{
    return next(it, batch, ES_MAX_BATCH);
}

bool es_weights_next(es_weight_iter *it, es_block *block)
{
    es_batch one;
    if (!next(it, &one, 1)) {
        return false;
    }
    block->rows = one.rows;
    block->col = one.column[0];
    block->cols = one.cols;
    block->stride = one.row_stride;
    block->values = one.values;
    return true;
}

/* I-52: an encoding's own fields are anything here, the others' default. */
static bool defaults(const es_row_group *group)
{
    bool lanes = group->encoding == ES_LANES;
    bool blocks = lanes || group->encoding == ES_BSR;
    bool n_of_m = lanes || group->encoding == ES_NM;
    bool bits = blocks || group->encoding == ES_DELTA_CSR;
    return (lanes || group->packing == 0) &&
           (blocks || (group->block_rows == 1 && group->block_cols == 1)) &&
           (n_of_m || (group->n == 0 && group->m == 0)) &&
           (bits || group->index_bits == 0);
}

uint16_t es_weights_check(const es_row_group *group, uint32_t cols)
{
    if (group->encoding >= ES_ENCODINGS || !defaults(group)) {
        return 52;
    }
    uint16_t broken = encodings[group->encoding]->check(group, cols);
    if (broken) {
        return broken;
    }
    /* Whatever a value stands for, it is stored once. */
    uint32_t nnz = 0;
    for (uint32_t i = 0; i < group->values.count; i++) {
        nnz += group->values.data[i] != 0;
    }
    return nnz == group->nnz ? 0 : 57;
}
