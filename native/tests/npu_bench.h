/* A machine in memory, and programs put together line by line. */
#ifndef NPU_BENCH_H
#define NPU_BENCH_H

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "edgesparse/npu.h"

enum { BENCH_LANES = 16, BENCH_SIZE = 8192, BENCH_MOST = 64 };

typedef struct bench {
    es_npu npu;
    es_npu_program program;
    uint8_t commands[BENCH_MOST * ES_NPU_INSTRUCTION_BYTES];
    uint8_t scratchpad[BENCH_SIZE];
    uint8_t dram[256];
} bench;

static const es_npu_config bench_config = {1,  BENCH_LANES, 8,  8,  8, 16,
                                           32, BENCH_SIZE,  8,  1,  2, 64,
                                           1,  1,           64, 16, 4, 4};

/* One instruction. */
static void put(bench *b, uint8_t op, uint8_t fa, uint8_t fb, uint8_t fc,
                uint32_t i0, uint32_t i1, uint32_t i2)
{
    uint8_t *at =
        b->commands + b->program.instructions * ES_NPU_INSTRUCTION_BYTES;
    const uint32_t words[3] = {i0, i1, i2};
    at[0] = op;
    at[1] = fa;
    at[2] = fb;
    at[3] = fc;
    memcpy(at + 4, words, sizeof words); /* little-endian hosts */
    b->program.instructions++;
}

static void set(bench *b, uint8_t reg, int32_t value)
{
    put(b, ES_NPU_CFG, reg, 0, 0, (uint32_t)value, 0, 0);
}

static void stream(bench *b, uint8_t number, uint32_t address)
{
    put(b, ES_NPU_SET, number, 0, 0, address, 0, 0);
}

/* A new program, and a scratchpad full of numbers. */
static void begin(bench *b)
{
    uint32_t state = 1;
    memset(b, 0, sizeof *b);
    b->program.commands = b->commands;
    b->program.config = bench_config.id;
    b->program.dram_bytes = sizeof b->dram;
    b->program.steps = 2;
    for (uint32_t i = 0; i < BENCH_SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        b->scratchpad[i] = (uint8_t)(state >> 24);
    }
}

/* What a run counts must add up. */
static void check_counters(const es_npu_counters *c)
{
    CHECK(c->cycles == c->launch_cyc + c->issue + c->mac_cyc + c->req_cyc +
                           c->lut_cyc + c->vec_cyc + c->stall_dma +
                           c->stall_fetch);
    CHECK((c->mac_issued + c->mac_pad) % BENCH_LANES == 0);
}

/* End the program, open it and run it on the scratchpad as it is: no reset.
 * Returns the trap of opening or running. */
static es_npu_trap finish(bench *b)
{
    es_npu_knobs knobs;
    memset(&knobs, 0, sizeof knobs);
    put(b, ES_NPU_END, 0, 0, 0, 0, 0, 0);
    es_npu_trap trap = es_npu_init(&b->npu, &b->program, &bench_config,
                                   b->scratchpad, &b->npu.fault);
    if (trap) {
        return trap;
    }
    trap = es_npu_run(&b->npu, b->dram, &knobs);
    check_counters(&b->npu.counters);
    return trap;
}

static int8_t signed_at(const bench *b, uint32_t address)
{
    return (int8_t)b->scratchpad[address];
}

#endif /* NPU_BENCH_H */
