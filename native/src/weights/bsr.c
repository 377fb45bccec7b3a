/* BSR: blocks of block_rows x block_cols; counts, then block columns. */
#include "weights/encoding.h"

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

/* Block column number `at` of the group, which has `block_rows` counts. */
static uint32_t block_column(const es_row_group *group, uint32_t block_rows,
                             uint32_t at)
{
    const uint8_t *columns = group->index.data + 2 * (size_t)block_rows;
    return group->index_bits == 8 ? columns[at] : es_index_u16(columns, at);
}

/* Weights of a block past the last row or column of the matrix are 0. */
static bool outside_is_zero(const es_row_group *group, uint32_t at,
                            uint32_t rows, uint32_t cols)
{
    uint32_t block_cols = group->block_cols;
    const int8_t *values = group->values.data;
    values += (size_t)at * group->block_rows * block_cols;
    for (uint32_t r = 0; r < group->block_rows; r++) {
        for (uint32_t c = r < rows ? cols : 0; c < block_cols; c++) {
            if (values[r * block_cols + c] != 0) {
                return false;
            }
        }
    }
    return true;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    uint32_t height = group->block_rows, width = group->block_cols;
    if (height < 1 || height > ES_MAX_BLOCK_ROWS || width < 1 || width > 16 ||
        (group->index_bits != 8 && group->index_bits != 16)) {
        return 54;
    }
    uint32_t block_rows = ceil_div(group->row_count, height);
    uint32_t block_cols = ceil_div(cols, width);
    if (group->index.count < 2 * (uint64_t)block_rows) {
        return 54;
    }
    uint64_t blocks = 0;
    for (uint32_t row = 0; row < block_rows; row++) {
        blocks += es_index_u16(group->index.data, row);
    }
    if (group->index.count !=
            2 * (uint64_t)block_rows + blocks * (group->index_bits / 8) ||
        group->values.count != blocks * height * width) {
        return 54;
    }
    uint32_t at = 0;
    for (uint32_t row = 0; row < block_rows; row++) {
        uint32_t count = es_index_u16(group->index.data, row), least = 0;
        uint32_t rows = min_u32(height, group->row_count - row * height);
        for (uint32_t i = 0; i < count; i++, at++) {
            uint32_t column = block_column(group, block_rows, at);
            if (column < least || column >= block_cols) {
                return 54;
            }
            least = column + 1;
            if (!outside_is_zero(group, at, rows,
                                 min_u32(width, cols - column * width))) {
                return 54;
            }
        }
    }
    return 0;
}

/* at_index: blocks read so far; left: blocks of the row block to come. */
static void begin_rows(es_weight_iter *it)
{
    uint32_t block_row = it->row / it->group.block_rows;
    it->left = es_index_u16(it->group.index.data, block_row);
}

/* Block column numbers from `from` on, times the width of a block. */
static void read_columns(const es_row_group *group, const uint8_t *from,
                         uint32_t *column, uint32_t count)
{
    uint32_t width = group->block_cols;
    if (group->index_bits == 8) {
        for (uint32_t i = 0; i < count; i++) {
            column[i] = from[i] * width;
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            column[i] = es_index_u16(from, i) * width;
        }
    }
}

static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    const es_row_group *group = &it->group;
    uint32_t width = group->block_cols, count = min_u32(max, it->left);
    if (count == 0) {
        return 0;
    }
    uint32_t block_rows = ceil_div(group->row_count, group->block_rows);
    uint32_t bytes = group->index_bits / 8;
    read_columns(group,
                 group->index.data + 2 * (size_t)block_rows +
                     (size_t)it->at_index * bytes,
                 batch->column, count);
    batch->rows = it->rows;
    batch->cols = width;
    batch->row_stride = width;
    batch->block_stride = width * group->block_rows;
    batch->values = group->values.data + it->at_value;
    uint32_t rest = it->cols - batch->column[count - 1];
    if (rest < width) { /* the last one reaches past K: a batch of its own */
        if (count > 1) {
            count--;
        } else {
            batch->cols = rest;
        }
    }
    it->left -= count;
    it->at_index += count;
    it->at_value += count * batch->block_stride;
    return count;
}

const es_encoding es_encoding_bsr = {ES_CHECK(check), begin_rows, next};
