/* The MAC instructions against plain loops, at the edges of their shapes. */
#include "npu_bench.h"

enum { W = 0, X = 4096, INDEX = 6144, ZERO = -3 };

static bench b;

/* A window of two rows: columns 0..3 at x, 4.. at x + 40. */
enum { COLS = 7, ROW = 4, ROW_PITCH = 40, COL_PITCH = 2, X_STRIDE = 5 };

static uint32_t column_at(uint32_t k)
{
    return X + k / ROW * ROW_PITCH + k % ROW * COL_PITCH;
}

static void begin_mac(uint32_t vl, uint32_t positions)
{
    begin(&b);
    set(&b, ES_NPU_REG_VL, (int32_t)vl);
    set(&b, ES_NPU_REG_NPOS, (int32_t)positions);
    set(&b, ES_NPU_REG_INZP, ZERO);
    set(&b, ES_NPU_REG_COLS, COLS);
    set(&b, ES_NPU_REG_ROWLEN, ROW);
    set(&b, ES_NPU_REG_ROWPITCH, ROW_PITCH);
    set(&b, ES_NPU_REG_COLPITCH, COL_PITCH);
    set(&b, ES_NPU_REG_XSTRIDE, X_STRIDE);
    set(&b, ES_NPU_REG_ACCINIT, 1000);
    stream(&b, 0, W);
    stream(&b, 1, X);
    stream(&b, 2, INDEX);
    put(&b, ES_NPU_VLDA, 0, 0, 1, 0, 0, 0);
}

static int32_t x_at(uint32_t address)
{
    return signed_at(&b, address) - ZERO;
}

/* Sums are 1000 and what `term` gives for every (column, step) pair. */
static void check_sums(uint32_t vl, uint32_t positions, uint32_t steps,
                       int32_t (*term)(uint32_t step, uint32_t p, uint32_t l))
{
    for (uint32_t p = 0; p < positions; p++) {
        for (uint32_t l = 0; l < BENCH_LANES; l++) {
            int32_t sum = l < vl ? 1000 : 0;
            for (uint32_t k = 0; k < steps && l < vl; k++) {
                sum += term(k, p, l);
            }
            CHECK((int32_t)b.npu.acc[p][l] == sum);
        }
    }
}

static uint32_t lane_step; /* MACW's VL; 0: lanes of one column */

static const uint8_t some_columns[3] = {1, 4, 6};

static int32_t weight(uint32_t step, uint32_t l)
{
    return signed_at(&b, W + step * BENCH_LANES + l);
}

static int32_t dense(uint32_t k, uint32_t p, uint32_t l)
{
    return weight(k, l) * x_at(column_at(k) + p * X_STRIDE);
}

static int32_t chosen(uint32_t step, uint32_t p, uint32_t l)
{
    return weight(step, l) * x_at(column_at(some_columns[step]) + p * X_STRIDE);
}

static int32_t own(uint32_t k, uint32_t p, uint32_t l)
{
    return weight(k, l) * x_at(column_at(k) + p * X_STRIDE + l);
}

static int32_t spread(uint32_t step, uint32_t p, uint32_t l)
{
    return signed_at(&b, W + step) *
           x_at(column_at(some_columns[step]) + (p * lane_step + l) * X_STRIDE);
}

/* Group g of step k takes column (k + g) % COLS. */
static int32_t gathered(uint32_t step, uint32_t p, uint32_t l)
{
    return weight(step, l) *
           x_at(column_at((step + l / 4) % COLS) + p * X_STRIDE);
}

static void test_macb(uint32_t vl, uint32_t positions)
{
    static const uint32_t formats[] = {
        ES_NPU_INDEX_DENSE, ES_NPU_INDEX_COLUMNS8, ES_NPU_INDEX_COLUMNS16,
        ES_NPU_INDEX_BITMASK};
    for (uint32_t i = 0; i < 2 * sizeof formats / sizeof formats[0]; i++) {
        uint32_t format = formats[i / 2], steps = i / 2 ? 3 : COLS;
        begin_mac(vl, positions);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t wide = format == ES_NPU_INDEX_COLUMNS16;
            b.scratchpad[INDEX + (k << wide)] = some_columns[k];
            b.scratchpad[INDEX + 2 * k + 1] *= (uint8_t)!wide;
        }
        if (format == ES_NPU_INDEX_COLUMNS8) {
            memcpy(b.scratchpad + INDEX, some_columns, 3);
        } else if (format == ES_NPU_INDEX_BITMASK) {
            b.scratchpad[INDEX] = 1 << 1 | 1 << 4 | 1 << 6;
        }
        put(&b, ES_NPU_MACB, 0, 0, 1, steps,
            format | (i % 2 ? (uint32_t)ES_NPU_SKIP : 0), i / 2 ? 2 : 0);
        CHECK(finish(&b) == ES_NPU_TRAP_OK);
        check_sums(vl, positions, steps, i / 2 ? chosen : dense);
        if (i % 2 == 0) {
            CHECK(b.npu.counters.mac_cyc == 4 + steps * positions);
        }
        CHECK(b.npu.counters.mac_issued + b.npu.counters.mac_skip_a +
                  b.npu.counters.mac_skip_w ==
              COLS * vl * positions);
    }
}

static void test_n_of_m(void)
{
    begin_mac(BENCH_LANES, 2);
    set(&b, ES_NPU_REG_COLS, 6);
    /* 1 of 2, twice: columns 1, 2 and 5; a bit each, lowest first */
    b.scratchpad[INDEX] = 1 | 0 << 1 | 1 << 2;
    put(&b, ES_NPU_MACB, 0, 0, 1, 3,
        ES_NPU_INDEX_N_OF_M | 1u << ES_NPU_N_SHIFT | 2u << ES_NPU_M_SHIFT, 2);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t l = 0; l < BENCH_LANES; l++) {
        int32_t sum = weight(0, l) * x_at(column_at(1)) +
                      weight(1, l) * x_at(column_at(2)) +
                      weight(2, l) * x_at(column_at(5));
        CHECK((int32_t)b.npu.acc[0][l] == 1000 + sum);
    }
    CHECK(b.npu.counters.idx_bytes == 1);
}

static void test_macv(uint32_t vl, uint32_t positions)
{
    begin_mac(vl, positions);
    put(&b, ES_NPU_MACV, 0, 0, 1, 0, ES_NPU_SKIP, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    check_sums(vl, positions, COLS, own);
}

static void test_macw(uint32_t vl, uint32_t positions)
{
    static const uint8_t deltas[3] = {1, 2, 1};
    begin_mac(vl, positions);
    lane_step = vl;
    memcpy(b.scratchpad + INDEX, deltas, 3);
    put(&b, ES_NPU_MACW, 0, 0, 1, 3, 0, 2);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    check_sums(vl, positions, 3, spread);
    CHECK(b.npu.counters.mac_cyc ==
          4 + 3 * positions + b.npu.counters.gather_conflict_cyc);
}

static void test_macg(uint32_t vl, uint32_t positions)
{
    begin_mac(vl, positions);
    for (uint32_t i = 0; i < 12; i++) {
        b.scratchpad[INDEX + i] = (uint8_t)((i / 4 + i % 4) % COLS);
    }
    put(&b, ES_NPU_MACG, 0, 0, 1, 3, 4, 2);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    check_sums(vl, positions, 3, gathered);
}

/* -128 * -255 over and over passes 2^31 and comes back. */
static void test_sums_wrap(void)
{
    begin(&b);
    memset(b.scratchpad, 0x80, BENCH_SIZE);
    set(&b, ES_NPU_REG_INZP, 127);
    set(&b, ES_NPU_REG_ACCINIT, INT32_MAX);
    stream(&b, 0, W);
    stream(&b, 1, X);
    put(&b, ES_NPU_VLDA, 0, 0, 1, 0, 0, 0);
    put(&b, ES_NPU_MACB, 0, 0, 1, 1, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    CHECK(b.npu.acc[0][15] == (uint32_t)INT32_MAX + 128u * 255u);
}

int main(void)
{
    static const uint32_t vls[] = {1, 15, 16};
    test_n_of_m();
    test_sums_wrap();
    for (uint32_t i = 0; i < sizeof vls / sizeof vls[0]; i++) {
        for (uint32_t positions = 1; positions <= 8; positions += 7) {
            test_macb(vls[i], positions);
            test_macv(vls[i], positions);
            test_macw(vls[i], positions);
            test_macg(vls[i], positions);
        }
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
