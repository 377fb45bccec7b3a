/* LANES: slices of L rows, stored step by step, L weights each; the packing
 * that the emulated NPU reads. A row block here is what shares a column: a
 * group of lanes, at most ES_MAX_BLOCK_ROWS of them. */
#include "weights/encoding.h"

enum { MOST_LANES = 32 };
enum { NONE, COLUMNS, MASK, N_OF_M, PACKINGS };

static bool parameters_are_right(const es_row_group *group, uint32_t cols)
{
    uint32_t lanes = group->block_rows, share = group->block_cols;
    uint32_t bits = group->index_bits, n = group->n, m = group->m;
    bool columns = group->packing == COLUMNS;

    if ((lanes != 16 && lanes != MOST_LANES) || group->packing >= PACKINGS ||
        (share != lanes && !(columns && (share == 1 || share == 4))) ||
        (columns ? bits != 8 && bits != 16 : bits != 0)) {
        return false;
    }
    if (group->packing != N_OF_M) {
        return n == 0 && m == 0;
    }
    return es_position_bits(m) != 0 && n >= 1 && n < m && cols % m == 0;
}

/* Whether the index begins with the number of steps of every slice. */
static bool is_counted(const es_row_group *group)
{
    return group->packing == COLUMNS || group->packing == MASK;
}

static uint32_t counts_bytes(const es_row_group *group)
{
    uint32_t lanes = group->block_rows;
    return is_counted(group) ? (group->row_count + lanes - 1) / lanes * 2 : 0;
}

static uint32_t steps_of(const es_row_group *group, uint32_t cols,
                         uint32_t slice)
{
    return is_counted(group)          ? es_index_u16(group->index.data, slice)
           : group->packing == N_OF_M ? cols / group->m * group->n
                                      : cols;
}

/* Bytes of a slice's index without and with what makes them even. */
static uint32_t used_bytes(const es_row_group *group, uint32_t cols,
                           uint32_t steps)
{
    switch (group->packing) {
    case COLUMNS:
        return steps * (group->block_rows / group->block_cols) *
               (group->index_bits / 8U);
    case MASK:
        return (cols + 7) / 8;
    case N_OF_M:
        return (steps * es_position_bits(group->m) + 7) / 8;
    default:
        return 0;
    }
}

static uint32_t slice_bytes(const es_row_group *group, uint32_t cols,
                            uint32_t steps)
{
    return (used_bytes(group, cols, steps) + 1) / 2 * 2;
}

static bool all_zero(const int8_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- the check ---- */

/* A slice with its own part of values and index. */
typedef struct es_slice {
    uint32_t steps, cols;
    const int8_t *values;
    const uint8_t *index;
} es_slice;

static uint32_t column_at(const es_row_group *group, const uint8_t *index,
                          uint32_t at)
{
    return group->index_bits == 8 ? index[at] : es_index_u16(index, at);
}

/* One lane group's columns ascend. Where L lanes do not share one, steps with
 * nothing in them stand at the end and name column 0. */
static bool columns_ascend(const es_row_group *group, const es_slice *slice,
                           uint32_t lane_group)
{
    uint32_t lanes = group->block_rows, share = group->block_cols;
    uint32_t least = 0;
    bool padding = false;

    for (uint32_t i = 0; i < slice->steps; i++) {
        const int8_t *values = slice->values + (size_t)i * lanes;
        uint32_t column =
            column_at(group, slice->index, i * (lanes / share) + lane_group);
        bool empty =
            share < lanes && all_zero(values + lane_group * share, share);
        if (empty ? column != 0
                  : padding || column < least || column >= slice->cols) {
            return false;
        }
        padding = empty;
        least = column + 1;
    }
    return true;
}

static bool mask_is_right(const es_slice *slice)
{
    uint32_t stored = 0;
    for (uint32_t i = 0; i < (slice->cols + 7) / 8 * 8; i++) {
        if (slice->index[i / 8] >> i % 8 & 1) {
            stored++;
            if (i >= slice->cols) {
                return false;
            }
        }
    }
    return stored == slice->steps;
}

static bool positions_ascend(const es_row_group *group, const es_slice *slice)
{
    uint32_t bits = es_position_bits(group->m), used = slice->steps * bits;
    for (uint32_t i = 0; i < slice->steps; i++) {
        if (i % group->n != 0 &&
            es_index_position(slice->index, i, bits) <=
                es_index_position(slice->index, i - 1, bits)) {
            return false;
        }
    }
    return used % 8 == 0 || slice->index[used / 8] >> used % 8 == 0;
}

static bool index_is_right(const es_row_group *group, const es_slice *slice)
{
    uint32_t used = used_bytes(group, slice->cols, slice->steps);

    if (used % 2 != 0 && slice->index[used] != 0) {
        return false;
    }
    switch (group->packing) {
    case COLUMNS:
        for (uint32_t g = 0; g < group->block_rows / group->block_cols; g++) {
            if (!columns_ascend(group, slice, g)) {
                return false;
            }
        }
        return true;
    case MASK:
        return mask_is_right(slice);
    case N_OF_M:
        return positions_ascend(group, slice);
    default:
        return true;
    }
}

/* Lanes past the last row hold no weight. */
static bool rest_is_zero(const es_row_group *group, const es_slice *slice,
                         uint32_t rows)
{
    uint32_t lanes = group->block_rows;
    for (uint32_t i = 0; rows < lanes && i < slice->steps; i++) {
        if (!all_zero(slice->values + (size_t)i * lanes + rows, lanes - rows)) {
            return false;
        }
    }
    return true;
}

static bool sizes_are_right(const es_row_group *group, uint32_t cols)
{
    uint32_t lanes = group->block_rows;
    uint64_t index = counts_bytes(group), values = 0;

    if (group->index.count < index) {
        return false;
    }
    for (uint32_t row = 0; row < group->row_count; row += lanes) {
        uint32_t steps = steps_of(group, cols, row / lanes);
        values += (uint64_t)steps * lanes;
        index += slice_bytes(group, cols, steps);
    }
    return group->index.count == index && group->values.count == values;
}

static uint16_t check(const es_row_group *group, uint32_t cols)
{
    if (!parameters_are_right(group, cols) || !sizes_are_right(group, cols)) {
        return 58;
    }
    uint32_t lanes = group->block_rows;
    es_slice slice = {0, cols, group->values.data,
                      group->index.data + counts_bytes(group)};
    for (uint32_t row = 0; row < group->row_count; row += lanes) {
        slice.steps = steps_of(group, cols, row / lanes);
        if (!index_is_right(group, &slice) ||
            !rest_is_zero(group, &slice, group->row_count - row)) {
            return 58;
        }
        slice.values += (size_t)slice.steps * lanes;
        slice.index += slice_bytes(group, cols, slice.steps);
    }
    return 0;
}

/* ---- the iterator ---- */

/* at_value, at_index: where the slice starts; left: steps of the row block to
 * come; col: MASK: the next column to look at. */
static void begin_rows(es_weight_iter *it)
{
    const es_row_group *group = &it->group;
    uint32_t lanes = group->block_rows, slice = it->row / lanes;

    if (it->row == 0) {
        it->at_value = 0;
        it->at_index = counts_bytes(group);
    } else if (it->row % lanes == 0) {
        uint32_t steps = steps_of(group, it->cols, slice - 1);
        it->at_value += steps * lanes;
        it->at_index += slice_bytes(group, it->cols, steps);
    }
    it->left = steps_of(group, it->cols, slice);
    it->col = 0;
}

static void columns_of_mask(es_weight_iter *it, const uint8_t *mask,
                            uint32_t *column, uint32_t count)
{
    uint32_t col = it->col;
    for (uint32_t i = 0; i < count; col++) {
        if (mask[col / 8] >> col % 8 == 0) {
            col |= 7; /* nothing more in this byte */
        } else if (mask[col / 8] >> col % 8 & 1) {
            column[i++] = col;
        }
    }
    it->col = col;
}

/* Columns of `count` steps from `step` on, of the lane group that `lane` is in.
 */
static void read_columns(es_weight_iter *it, uint32_t lane, uint32_t step,
                         uint32_t *column, uint32_t count)
{
    const es_row_group *group = &it->group;
    const uint8_t *index = group->index.data + it->at_index;
    uint32_t groups = group->block_rows / group->block_cols;
    uint32_t first = step * groups + lane / group->block_cols;
    uint32_t bits = es_position_bits(group->m);

    switch (group->packing) {
    case COLUMNS:
        for (uint32_t i = 0; i < count; i++) {
            column[i] = column_at(group, index, first + i * groups);
        }
        break;
    case MASK:
        columns_of_mask(it, index, column, count);
        break;
    case N_OF_M:
        for (uint32_t i = step; i < step + count; i++) {
            column[i - step] =
                i / group->n * group->m + es_index_position(index, i, bits);
        }
        break;
    default:
        for (uint32_t i = 0; i < count; i++) {
            column[i] = step + i;
        }
        break;
    }
}

/* Steps before the padding of a lane group, `count` at most. */
static uint32_t stored_steps(const es_row_group *group, const int8_t *values,
                             uint32_t count)
{
    uint32_t at = 0;
    while (at < count && !all_zero(values + (size_t)at * group->block_rows,
                                   group->block_cols)) {
        at++;
    }
    return at;
}

static uint32_t next(es_weight_iter *it, es_batch *batch, uint32_t max)
{
    const es_row_group *group = &it->group;
    uint32_t lanes = group->block_rows, lane = it->row % lanes;
    uint32_t count = it->left < max ? it->left : max;
    if (count == 0) {
        return 0;
    }
    uint32_t step = steps_of(group, it->cols, it->row / lanes) - it->left;
    batch->values = group->values.data + it->at_value + step * lanes + lane;
    if (group->block_cols < lanes) {
        uint32_t stored = stored_steps(group, batch->values, count);
        if (stored < count) {
            it->left = count = stored;
        }
    }
    read_columns(it, lane, step, batch->column, count);
    batch->rows = it->rows;
    batch->block_stride = lanes;
    it->left -= count;
    return count;
}

const es_encoding es_encoding_lanes = {ES_CHECK(check), begin_rows, next};
