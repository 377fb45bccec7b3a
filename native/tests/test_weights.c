/* Every encoding of PLAN_FORMAT.md section 7, from bytes written by hand. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "weights/weights.h"

enum { MOST = 4096 };

static es_row_group group_of(uint8_t encoding, uint32_t rows,
                             const int8_t *values, uint32_t value_count,
                             const uint8_t *index, uint32_t index_count)
{
    es_row_group group;
    memset(&group, 0, sizeof group);
    group.encoding = encoding;
    group.row_count = rows;
    group.block_rows = 1;
    group.block_cols = 1;
    group.values.data = values;
    group.values.count = value_count;
    group.index.data = index;
    group.index.count = index_count;
    for (uint32_t i = 0; i < value_count; i++) {
        group.nnz += values[i] != 0;
    }
    return group;
}

#define GROUP(encoding, rows, values, index)                                   \
    group_of(encoding, rows, values, sizeof values, index, sizeof index)

/* The matrix that the iterator gives; odd row blocks are not asked for when
 * `skip`, and stay 0. */
static void decode(const es_row_group *group, uint32_t cols, bool skip,
                   int8_t *w)
{
    es_weight_iter it;
    es_block block;
    uint32_t number = 0;
    memset(w, 0, MOST);
    es_weights_begin(&it, group, cols);
    for (; es_weights_next_rows(&it); number++) {
        uint32_t least = 0;
        while (!(skip && number % 2) && es_weights_next(&it, &block)) {
            CHECK(block.col >= least && block.col + block.cols <= cols);
            CHECK(it.row + block.rows <= group->row_count);
            least = block.col + block.cols;
            for (uint32_t r = 0; r < block.rows; r++) {
                memcpy(w + (it.row + r) * cols + block.col,
                       block.values + r * block.stride, block.cols);
            }
            if (skip) { /* and of the others, only the first block */
                break;
            }
        }
    }
}

static void decode_batches(const es_row_group *group, uint32_t cols, int8_t *w)
{
    es_weight_iter it;
    es_batch batch;
    memset(w, 0, MOST);
    es_weights_begin(&it, group, cols);
    while (es_weights_next_rows(&it)) {
        while (es_weights_next_batch(&it, &batch)) {
            CHECK(batch.count > 0 && batch.count <= ES_MAX_BATCH);
            for (uint32_t i = 0; i < batch.count; i++) {
                for (uint32_t r = 0; r < batch.rows; r++) {
                    memcpy(w + (it.row + r) * cols + batch.column[i],
                           batch.values + i * batch.block_stride +
                               r * batch.row_stride,
                           batch.cols);
                }
            }
        }
    }
}

/* The group passes the check and means `expected`. */
static void expect(const es_row_group *group, uint32_t cols,
                   const int8_t *expected)
{
    static int8_t w[MOST];
    size_t size = (size_t)group->row_count * cols;
    CHECK(es_weights_check(group, cols) == 0);
    decode(group, cols, false, w);
    CHECK(memcmp(w, expected, size) == 0);
    decode_batches(group, cols, w);
    CHECK(memcmp(w, expected, size) == 0);
    /* Skipping leaves the place of what follows right. */
    decode(group, cols, true, w);
    for (size_t i = 0; i < size; i++) {
        CHECK(w[i] == 0 || w[i] == expected[i]);
    }
}

/* One byte of the index changed breaks `invariant`. */
static void refuse_index(es_row_group group, uint32_t cols, size_t at,
                         uint8_t byte, uint16_t invariant)
{
    static uint8_t changed[256];
    memcpy(changed, group.index.data, group.index.count);
    changed[at] = byte;
    group.index.data = changed;
    CHECK(es_weights_check(&group, cols) == invariant);
}

/* Sizes one off, in both directions. */
static void refuse_sizes(es_row_group group, uint32_t cols, uint16_t invariant)
{
    es_row_group other = group;
    other.values.count--;
    CHECK(es_weights_check(&other, cols) == invariant);
    other = group;
    other.index.count++;
    CHECK(es_weights_check(&other, cols) == invariant);
    other = group;
    other.nnz++;
    CHECK(es_weights_check(&other, cols) == 57);
}

static void test_dense(void)
{
    static const int8_t values[] = {1, 0, -3, 4, 5, -128};
    es_row_group group = group_of(ES_DENSE, 2, values, 6, NULL, 0);
    CHECK(group.nnz == 5);
    expect(&group, 3, values);
    CHECK(es_weights_check(&group, 4) == 53);
    group.nnz = 6;
    CHECK(es_weights_check(&group, 3) == 57);
}

static void test_bitmask(void)
{
    static const int8_t expected[3 * 10] = {0, 7, 0, 0, 0, 0, 0, -1, 0, 3, /* */
                                            0, 0, 0, 0, 0, 0, 0, 0,  0, 0, /* */
                                            1, 2, 3, 4, 5, 6, 0, 8,  9, 0};
    static const int8_t values[] = {7, -1, 3, 1, 2, 3, 4, 5, 6, 0, 8, 9};
    static const uint8_t index[] = {0x82, 0x02, 0, 0, 0xff, 0x01};
    es_row_group group = GROUP(ES_BITMASK, 3, values, index);
    expect(&group, 10, expected); /* a zero may be stored */
    refuse_sizes(group, 10, 53);
    refuse_index(group, 10, 0, 0x83, 53); /* one bit more than values */
    refuse_index(group, 10, 1, 0x06, 53); /* a bit past K */
}

/* More than a word of bits and more than a batch of weights. */
static void test_long_rows(void)
{
    enum { COLS = 79, STORED = 2 * 53 };
    static int8_t expected[2 * COLS], values[STORED];
    static uint8_t mask[2 * 10], deltas[4 + STORED];
    uint32_t stored = 0;
    for (uint32_t i = 0; i < 2 * COLS; i++) {
        uint32_t row = i / COLS, col = i % COLS;
        if (col % 3 != 1) {
            expected[i] = (int8_t)(1 + i % 100);
            values[stored] = expected[i];
            deltas[4 + stored] = col % 3 == 2;
            mask[row * 10 + col / 8] |= (uint8_t)(1 << col % 8);
            deltas[2 * row]++;
            stored++;
        }
    }
    CHECK(stored == STORED);
    es_row_group group = GROUP(ES_BITMASK, 2, values, mask);
    expect(&group, COLS, expected);
    group = GROUP(ES_DELTA_CSR, 2, values, deltas);
    group.index_bits = 8;
    expect(&group, COLS, expected);
}

static void test_bsr_4x1(void)
{
    /* 5 rows: the second block row has one row that exists. */
    static const int8_t expected[5 * 3] = {1, 0, 5, 2, 0, 6, 3, 0,
                                           7, 0, 0, 8, 0, 9, 0};
    static const int8_t values[] = {1, 2, 3, 0, 5, 6, 7, 8, 9, 0, 0, 0};
    static const uint8_t index[] = {2, 0, 1, 0, 0, 2, 1};
    es_row_group group = GROUP(ES_BSR, 5, values, index);
    group.block_rows = 4;
    group.index_bits = 8;
    expect(&group, 3, expected);
    refuse_sizes(group, 3, 54);
    refuse_index(group, 3, 5, 0, 54); /* not ascending */
    refuse_index(group, 3, 6, 3, 54); /* outside */
    refuse_index(group, 3, 0, 3, 54); /* more blocks than there are */
    group.index_bits = 4;
    CHECK(es_weights_check(&group, 3) == 54);
    group.index_bits = 8;
    group.block_rows = 17;
    CHECK(es_weights_check(&group, 3) == 54);
}

static void test_bsr_2x3_past_the_edges(void)
{
    /* 3 rows, 4 columns; blocks reach past both edges. */
    static const int8_t expected[3 * 4] = {1, 2, 3, 7, 4, 5, 6, 8, 0, 0, 0, 9};
    static const int8_t values[] = {1, 2, 3, 4, 5, 6, 7, 0, 0,
                                    8, 0, 0, 9, 0, 0, 0, 0, 0};
    static const uint8_t index[] = {2, 0, 1, 0, 0, 0, 1, 0, 1, 0};
    es_row_group group = GROUP(ES_BSR, 3, values, index);
    group.block_rows = 2;
    group.block_cols = 3;
    group.index_bits = 16;
    expect(&group, 4, expected);
    static const size_t outside[] = {7, 8, 10, 13, 15, 17};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        static int8_t changed[sizeof values];
        memcpy(changed, values, sizeof values);
        changed[outside[i]] = 1;
        es_row_group other = group;
        other.values.data = changed;
        other.nnz++;
        CHECK(es_weights_check(&other, 4) == 54);
    }
}

static void test_nm_2_of_4(void)
{
    static const int8_t expected[2 * 8] = {0, 1, 0, 2, 3, 0, 0, 0,
                                           0, 0, 4, 5, 6, 7, 0, 0};
    static const int8_t values[] = {1, 2, 3, 0, 4, 5, 6, 7};
    static const uint8_t index[] = {1 | 3 << 2 | 0 << 4 | 2 << 6,
                                    2 | 3 << 2 | 0 << 4 | 1 << 6};
    es_row_group group = GROUP(ES_NM, 2, values, index);
    group.n = 2;
    group.m = 4;
    expect(&group, 8, expected);
    refuse_sizes(group, 8, 55);
    refuse_index(group, 8, 0, 3 | 1 << 2 | 0 << 4 | 2 << 6, 55);
    refuse_index(group, 8, 1, 2 | 2 << 2 | 0 << 4 | 1 << 6, 55);
    CHECK(es_weights_check(&group, 6) == 55);
    group.n = 4;
    CHECK(es_weights_check(&group, 8) == 55);
}

static void test_nm_3_of_8(void)
{
    /* Positions of 3 bits cross bytes; 9 bits and 7 unused ones a row. */
    static const int8_t expected[2 * 8] = {0, 0, 1, 0, 0, 2, 0, 3,
                                           4, 5, 0, 0, 0, 0, 0, 6};
    static const int8_t values[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t index[] = {0xea, 0x01, 0xc8, 0x01};
    es_row_group group = GROUP(ES_NM, 2, values, index);
    group.n = 3;
    group.m = 8;
    expect(&group, 8, expected);
    refuse_index(group, 8, 1, 0x03, 55); /* an unused bit */
}

static void test_nm_1_of_2_and_16(void)
{
    static const int8_t expected_2[4] = {0, 1, 2, 0};
    static const int8_t values_2[] = {1, 2};
    static const uint8_t index_2[] = {0x01};
    es_row_group group = GROUP(ES_NM, 1, values_2, index_2);
    group.n = 1;
    group.m = 2;
    expect(&group, 4, expected_2);
    static const int8_t expected_16[16] = {0, 0, 0, 0, 0, 0, 0, 0,
                                           0, 1, 0, 0, 0, 0, 0, 2};
    static const int8_t values_16[] = {1, 2};
    static const uint8_t index_16[] = {0xf9};
    group = GROUP(ES_NM, 1, values_16, index_16);
    group.n = 2;
    group.m = 16;
    expect(&group, 16, expected_16);
}

static void test_delta_csr(void)
{
    /* 3 rows of 20: a gap of 17 is bridged by a stored zero; an empty row; an
     * odd number of deltas, so that the last row starts on a new byte. */
    static const int8_t expected[3 * 20] = {
        [2] = 1, [19] = 2, [40] = 3, [41] = 4};
    static const int8_t values[] = {1, 0, 2, 3, 4};
    static const uint8_t index[] = {3, 0, 0, 0, 2, 0, 0xf2, 0x00, 0x00};
    es_row_group group = GROUP(ES_DELTA_CSR, 3, values, index);
    group.index_bits = 4;
    CHECK(group.nnz == 4);
    expect(&group, 20, expected);
    refuse_sizes(group, 20, 56);
    refuse_index(group, 20, 7, 0x01, 56); /* column 20 */
    refuse_index(group, 20, 7, 0x10, 56); /* the unused half byte */
    refuse_index(group, 20, 2, 1, 56);    /* one weight more */
    CHECK(es_weights_check(&group, 19) == 56);
    group.index_bits = 16;
    CHECK(es_weights_check(&group, 20) == 56);
}

/* 17 rows of 3: a full slice, and one with a single row. Row r holds r + 1 in
 * the columns of `mask`. */
static void fill_rows(int8_t *expected, uint32_t mask)
{
    for (uint32_t i = 0; i < 17 * 3; i++) {
        expected[i] = mask >> i % 3 & 1 ? (int8_t)(i / 3 + 1) : 0;
    }
}

/* A step of each slice with weights r + 1 in every lane that is a row. */
static void fill_step(int8_t *values, uint32_t slice)
{
    for (uint32_t l = 0; l < 16; l++) {
        uint32_t row = slice * 16 + l;
        values[l] = row < 17 ? (int8_t)(row + 1) : 0;
    }
}

static es_row_group lanes_of(uint8_t packing, const int8_t *values,
                             uint32_t value_count, const uint8_t *index,
                             uint32_t index_count)
{
    es_row_group group =
        group_of(ES_LANES, 17, values, value_count, index, index_count);
    group.block_rows = 16;
    group.block_cols = 16;
    group.packing = packing;
    return group;
}

static void test_lanes_that_share_a_column(void)
{
    static int8_t expected[17 * 3], values[6 * 16];
    static const uint8_t columns[] = {2, 0, 2, 0, 0, 2, 0, 2};
    static const uint8_t mask[] = {2, 0, 2, 0, 5, 0, 5, 0};
    es_row_group group;
    for (uint32_t i = 0; i < 6; i++) {
        fill_step(values + i * 16, i / 3);
    }
    fill_rows(expected, 7);
    group = lanes_of(0, values, sizeof values, NULL, 0);
    expect(&group, 3, expected);
    CHECK(es_weights_check(&group, 4) == 58);
    for (uint32_t i = 0; i < 4; i++) {
        fill_step(values + i * 16, i / 2);
    }
    fill_rows(expected, 5);
    group = lanes_of(1, values, 4 * 16, columns, sizeof columns);
    group.index_bits = 8;
    expect(&group, 3, expected);
    refuse_sizes(group, 3, 58);
    refuse_index(group, 3, 5, 3, 58); /* outside */
    refuse_index(group, 3, 7, 0, 58); /* not ascending */
    group = lanes_of(2, values, 4 * 16, mask, sizeof mask);
    expect(&group, 3, expected);
    refuse_sizes(group, 3, 58);
    refuse_index(group, 3, 4, 0xC, 58); /* past K */
    refuse_index(group, 3, 5, 1, 58);   /* the filler */
}

static void test_lanes_of_one_and_two(void)
{
    /* 2 rows of 5; the second one has one step less. */
    static const int8_t expected[2 * 5] = {0, 1, 0, 0, 2, 0, 0, 0, 3, 0};
    static int8_t values[2 * 16] = {[0] = 1, [1] = 3, [16] = 2};
    static uint8_t index[2 + 2 * 16] = {2, 0, [2] = 1, [3] = 3, [18] = 4};
    es_row_group group = GROUP(ES_LANES, 2, values, index);
    group.block_rows = 16;
    group.packing = 1;
    group.index_bits = 8;
    expect(&group, 5, expected);
    refuse_sizes(group, 5, 58);
    refuse_index(group, 5, 18, 1, 58); /* not ascending */
    refuse_index(group, 5, 19, 1, 58); /* the padding of row 1 */
    refuse_index(group, 5, 4, 1, 58);  /* a lane that is no row */
    values[17] = 1;
    group.nnz++;
    CHECK(es_weights_check(&group, 5) == 58); /* column 0 after column 3 */
}

static void test_lanes_n_of_m(void)
{
    /* 32 lanes, 3 rows of 8; 1 of 4: positions 3 and 1. */
    static const int8_t expected[3 * 8] = {0, 0, 0, 1, 0, 4, 0, 0, /* */
                                           0, 0, 0, 2, 0, 5, 0, 0, /* */
                                           0, 0, 0, 3, 0, 6, 0, 0};
    static const int8_t values[2 * 32] = {1, 2, 3, [32] = 4, [33] = 5, 6};
    static const uint8_t index[] = {3 | 1 << 2, 0};
    es_row_group group = GROUP(ES_LANES, 3, values, index);
    group.block_rows = 32;
    group.block_cols = 32;
    group.packing = 3;
    group.n = 1;
    group.m = 4;
    expect(&group, 8, expected);
    refuse_sizes(group, 8, 58);
    refuse_index(group, 8, 0, 0x17, 58); /* an unused bit */
    refuse_index(group, 8, 1, 1, 58);    /* the filler */
    group.block_cols = 16;
    CHECK(es_weights_check(&group, 8) == 58);
}

static void test_fields_that_are_not_used(void)
{
    static const int8_t values[] = {1, 2};
    es_row_group good = group_of(ES_DENSE, 1, values, 2, NULL, 0), group;
    CHECK(es_weights_check(&good, 2) == 0);
    group = good, group.encoding = ES_ENCODINGS;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.packing = 1;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.block_rows = 2;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.block_cols = 0;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.n = 1;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.m = 4;
    CHECK(es_weights_check(&group, 2) == 52);
    group = good, group.index_bits = 8;
    CHECK(es_weights_check(&group, 2) == 52);
}

int main(void)
{
    test_dense();
    test_bitmask();
    test_long_rows();
    test_bsr_4x1();
    test_bsr_2x3_past_the_edges();
    test_nm_2_of_4();
    test_nm_3_of_8();
    test_nm_1_of_2_and_16();
    test_delta_csr();
    test_lanes_that_share_a_column();
    test_lanes_of_one_and_two();
    test_lanes_n_of_m();
    test_fields_that_are_not_used();
    printf("%d failures\n", failures);
    return failures != 0;
}
