/* The other instructions of the NPU against plain loops, and its arguments. */
#include "npu_bench.h"

#include "elementwise.h"

enum { A = 1024, B = 2048, C = 3072, VL = 13, P = 3 };

static bench b;

/* VL lanes and P positions; vectors 0..2 from A, 3..5 from B. */
static void begin_vectors(void)
{
    begin(&b);
    set(&b, ES_NPU_REG_VL, VL);
    set(&b, ES_NPU_REG_NPOS, P);
    stream(&b, 0, A);
    put(&b, ES_NPU_STRD, 0, 0, 0, VL, P, 0);
    stream(&b, 1, B);
    put(&b, ES_NPU_STRD, 1, 0, 0, VL, P, 0);
    stream(&b, 2, C);
    put(&b, ES_NPU_STRD, 2, 0, 0, 32, P, 0);
    put(&b, ES_NPU_VLD, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_VLD, 3, 1, 0, 0, 0, 0);
}

static int8_t a_of(uint32_t p, uint32_t l)
{
    return signed_at(&b, A + p * VL + l);
}

static int8_t b_of(uint32_t p, uint32_t l)
{
    return signed_at(&b, B + p * VL + l);
}

static int8_t vec(uint32_t first, uint32_t p, uint32_t l)
{
    return b.npu.vec[first + p][l];
}

static void test_lanes(void)
{
    begin_vectors();
    b.scratchpad[A] = b.scratchpad[A + VL + 1] = 0;
    set(&b, ES_NPU_REG_QMIN, -20);
    set(&b, ES_NPU_REG_QMAX, 30);
    put(&b, ES_NPU_MSK, 1, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_MSK, 4, 3, 0, 0, 0, 0);
    put(&b, ES_NPU_MAND, 1, 1, 4, 0, 0, 0);
    put(&b, ES_NPU_ACCV, 1, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_ACCV, 1, 3, 0, 0, 0, 0);
    put(&b, ES_NPU_VMAX, 3, 0, 3, 0, 0, 0);
    put(&b, ES_NPU_AVGR, 5, 1, 0, 7, 0, 0);
    put(&b, ES_NPU_VCLAMP, 0, 0, 0, 0, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t p = 0; p < P; p++) {
        for (uint32_t l = 0; l < VL; l++) {
            int32_t x = a_of(p, l), y = b_of(p, l), sum = x + y;
            bool both = x != 0 && y != 0;
            CHECK((b.npu.mask[p] >> l & 1) == both);
            CHECK((int32_t)b.npu.acc[1 + p][l] == sum);
            CHECK(vec(0, p, l) == es_clamp(x, -20, 30));
            CHECK(p == 2 || vec(3, p, l) == (x > y ? x : y));
            CHECK(vec(5, p, l) == es_clamp(es_average(sum, 7), -20, 30));
        }
        CHECK(b.npu.mask[p] >> VL == 0);
    }
    CHECK(b.npu.counters.vec_cyc == 9 * P);
    CHECK(b.npu.counters.req_cyc == 1 + P * 4);
}

static void test_requantizing(void)
{
    begin_vectors();
    for (uint32_t l = 0; l < VL; l++) {
        const int32_t factor = 1 << 30 | (int32_t)(l * 1234567);
        memcpy(b.scratchpad + 4 * l, &factor, 4);
        b.scratchpad[512 + l] = (uint8_t) - (int32_t)(l % 3 + 20);
    }
    stream(&b, 3, 0);
    stream(&b, 4, 512);
    stream(&b, 5, 5000);
    set(&b, ES_NPU_REG_OUTZP, 4);
    put(&b, ES_NPU_VLDA, 0, 5, 0, 0, 0, 0);
    put(&b, ES_NPU_REQ, 0, 0, 1, 3, 4, 0);
    put(&b, ES_NPU_LUT, 3, 0, 0, 6000, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t l = 0; l < VL; l++) {
        int32_t sum, factor;
        memcpy(&sum, b.scratchpad + 5000 + 4 * l, 4);
        memcpy(&factor, b.scratchpad + 4 * l, 4);
        int32_t scaled =
            es_mbqm_double(sum, factor, (int8_t)b.scratchpad[512 + l]);
        int32_t v = es_clamp(4 + scaled, -128, 127);
        for (uint32_t p = 0; p < P; p++) {
            CHECK(vec(0, p, l) == v);
            CHECK((b.npu.mask[p] >> l & 1) == (v != 4));
            CHECK(vec(3, p, l) == signed_at(&b, (uint32_t)(6000 + 128 + v)));
        }
    }
    CHECK(b.npu.counters.req_cyc == 1 + P * 4);
    CHECK(b.npu.counters.lut_cyc == 1 + P * 4);
}

static void test_two_operands(void)
{
    static const struct {
        uint8_t number;
        int32_t value;
    } registers[] = {
        {ES_NPU_REG_A_ZP, 3},         {ES_NPU_REG_A_MULT, -(1 << 30)},
        {ES_NPU_REG_A_SHIFT, -1},     {ES_NPU_REG_B_ZP, -9},
        {ES_NPU_REG_B_MULT, 1 << 30}, {ES_NPU_REG_B_SHIFT, -2},
        {ES_NPU_REG_O_ZP, 5},         {ES_NPU_REG_O_MULT, 1 << 30},
        {ES_NPU_REG_O_SHIFT, -4},     {ES_NPU_REG_LSHIFT, 10}};
    begin_vectors();
    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        set(&b, registers[i].number, registers[i].value);
    }
    put(&b, ES_NPU_VMULQ, 5, 0, 3, 0, 0, 0);
    put(&b, ES_NPU_VADDQ, 0, 0, 3, 0, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t l = 0; l < VL; l++) {
        int32_t x = a_of(0, l) - 3, y = b_of(0, l) + 9;
        int32_t sum = -es_mbqm_double(x * 1024, 1 << 30, -1) +
                      es_mbqm_double(y * 1024, 1 << 30, -2);
        int32_t added = 5 + es_mbqm_double(sum, 1 << 30, -4);
        int32_t product = 5 + es_mbqm_double(x * y, 1 << 30, -4);
        CHECK(vec(0, 0, l) == es_clamp(added, -128, 127));
        CHECK(vec(5, 0, l) == es_clamp(product, -128, 127));
    }
    CHECK(b.npu.counters.req_cyc == 2 * (1 + 3 * P * 4));
}

static void test_stores(void)
{
    begin_vectors();
    memset(b.scratchpad + A + VL, 0, VL); /* position 1 is all zero */
    put(&b, ES_NPU_MSK, 1, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_FILL, 0, 0, 0, C, 96, 0x55);
    put(&b, ES_NPU_VST, 0, 2, 1, 0, 0, 0);
    stream(&b, 3, 4096);
    put(&b, ES_NPU_STRD, 3, 0, 0, 15, P, 0);
    put(&b, ES_NPU_VSTC, 0, 3, 1, 0, 0, 0);
    put(&b, ES_NPU_VLDC, 3, 3, 0, 0, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t p = 0; p < P; p++) {
        for (uint32_t l = 0; l < VL; l++) {
            int8_t v = a_of(p, l);
            CHECK(signed_at(&b, C + 32 * p + l) == (v ? v : 0x55));
            CHECK(vec(3, p, l) == v);
        }
    }
    CHECK(b.npu.counters.vec_store_skipped == 1);
    CHECK(b.scratchpad[4096 + 15] == 0 && b.scratchpad[4096 + 16] == 0);
}

static void test_gather(void)
{
    begin_vectors();
    for (uint32_t l = 0; l < VL; l++) {
        const uint16_t index = (uint16_t)(7 * l % 50);
        memcpy(b.scratchpad + 2 * l, &index, 2);
    }
    set(&b, ES_NPU_REG_COLS, 50);
    stream(&b, 3, 0);
    stream(&b, 4, 5000);
    put(&b, ES_NPU_STRD, 3, 0, 0, 0, 2, 0);
    put(&b, ES_NPU_STRD, 4, 0, 0, 1000, 2, 0);
    put(&b, ES_NPU_GATH, 7, 4, 3, 0, 0, 0);
    put(&b, ES_NPU_SCAT, 7, 4, 3, 0, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OK);
    for (uint32_t l = 0; l < VL; l++) {
        CHECK(vec(7, 0, l) == signed_at(&b, 5000 + 7 * l % 50));
        CHECK(vec(7, 0, l) == signed_at(&b, 6000 + 7 * l % 50));
    }
}

static void test_control(void)
{
    static es_npu_counters marks[2];
    es_npu_knobs knobs;
    memset(&knobs, 0, sizeof knobs);
    memset(marks, 0, sizeof marks);
    knobs.marks = marks;
    knobs.launch_cycles = 9;
    begin(&b);
    put(&b, ES_NPU_RING, 0, 0, 0, 64, 64, 0);
    put(&b, ES_NPU_END, 0, 0, 0, 0, 0, 0);
    b.program.prologue = 2;
    put(&b, ES_NPU_DMA, 0, ES_NPU_DRAM_READ, 0, 0, 0, 16);
    put(&b, ES_NPU_DWAIT, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_RADV, 0, 0, 0, 32, 0, 0);
    put(&b, ES_NPU_SET, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_SET, 1, 1, 0, 56, 0, 0); /* wraps after 8 bytes */
    put(&b, ES_NPU_LOOP, 0, 0, 0, 2, 3, 0);
    put(&b, ES_NPU_VLD, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_VST, 0, 1, 0, 0, 0, 0);
    put(&b, ES_NPU_NOP, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_MARK, 0, 0, 0, 1, 0, 0);
    put(&b, ES_NPU_DMA2, 0, ES_NPU_DRAM_WRITE, 0, 64, 64, 16);
    put(&b, ES_NPU_DWAIT, 0, 0, 0, 0, 0, 0);
    put(&b, ES_NPU_END, 0, 0, 0, 0, 0, 0);
    for (uint32_t i = 0; i < 16; i++) {
        b.dram[i] = (uint8_t)(i + 1);
    }
    CHECK(es_npu_init(&b.npu, &b.program, &bench_config, b.scratchpad, NULL) ==
          ES_NPU_TRAP_OK);
    CHECK(es_npu_reset(&b.npu, NULL) == ES_NPU_TRAP_OK);
    CHECK(b.npu.counters.insns == 2 && b.scratchpad[64] == 0);
    CHECK(es_npu_run(&b.npu, b.dram, &knobs) == ES_NPU_TRAP_OK);
    check_counters(&b.npu.counters);
    for (uint32_t i = 0; i < 16; i++) { /* head 32 + 56 = 24 modulo 64 */
        CHECK(b.scratchpad[64 + 24 + i] == i + 1);
        CHECK(b.dram[64 + i] == b.scratchpad[64 + i]);
    }
    CHECK(b.npu.counters.dma_busy == 80 + 80 + 1);
    CHECK(marks[1].launch_cyc == 9 && marks[1].dma_transfers == 1);
    CHECK(marks[1].vec_cyc == 4 && marks[0].cycles == 0);
    CHECK(b.npu.counters.stall_dma == 78 + 79);
}

static void count(void *user, uint32_t step)
{
    *(uint32_t *)user += step;
}

static void test_host_and_faults(void)
{
    uint32_t steps = 0;
    es_npu_knobs knobs;
    memset(&knobs, 0, sizeof knobs);
    begin(&b);
    put(&b, ES_NPU_HOST, 0, 0, 0, 1, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_BADOP);
    CHECK(b.npu.fault.instruction == 0);
    knobs.host = count;
    knobs.user = &steps;
    CHECK(es_npu_run(&b.npu, b.dram, &knobs) == ES_NPU_TRAP_OK && steps == 1);
    begin(&b);
    put(&b, ES_NPU_LUT, 0, 0, 0, BENCH_SIZE - 255, 0, 0);
    CHECK(finish(&b) == ES_NPU_TRAP_OOB);
    CHECK(b.npu.fault.trap == ES_NPU_TRAP_OOB && b.npu.fault.instruction == 0);
    begin(&b);
    b.program.config = 2;
    CHECK(finish(&b) == ES_NPU_TRAP_BADCFG);
    CHECK(strcmp(es_npu_counter_name(0), "cycles") == 0);
    CHECK(es_npu_counter_name(1000) == NULL);
}

int main(void)
{
    test_lanes();
    test_requantizing();
    test_two_operands();
    test_stores();
    test_gather();
    test_control();
    test_host_and_faults();
    printf("%d failures\n", failures);
    return failures != 0;
}
