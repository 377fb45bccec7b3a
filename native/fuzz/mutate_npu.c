/* Random programs through the NPU: mutate_npu [-n N] [-s SEED]
 *
 * A third is noise, the rest is grown to make sense, and half of that is
 * spoilt again. What the verifier accepts runs, three times, with scratchpad,
 * arena and blobs in heap blocks of exactly their size; the sanitizers judge,
 * and so do the identities of docs/NPU.md. The same seed gives the same
 * programs. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_programs.h"

enum { RUN_MOST = 20000, MARKS = 4 };

typedef struct tally {
    unsigned long programs, accepted, ran, stopped, by_mac, skipped;
    unsigned long trap[ES_NPU_TRAPS];
    unsigned long op[ES_NPU_OPS];
} tally;

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "%s\n", what);
        exit(2);
    }
}

static void *allocate(size_t size)
{
    void *block = malloc(size);
    check(block != NULL, "out of memory");
    return block;
}

static uint64_t state;

static void noise(uint8_t *bytes, size_t size)
{
    uint32_t zero = npu_below(&state, 2);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = zero && npu_below(&state, 2) ? 0 : (uint8_t)npu_any(&state);
    }
}

static void host(void *user, uint32_t step)
{
    uint8_t *dram = user;
    check(step < MARKS, "a step that is not there");
    dram[step] ^= 1;
}

/* docs/NPU.md section 7. */
static void check_counters(const es_npu *npu, const es_npu_traffic *traffic,
                           bool complete)
{
    const es_npu_counters *c = &npu->counters;
    check(c->cycles == c->launch_cyc + c->issue + c->mac_cyc + c->req_cyc +
                           c->lut_cyc + c->vec_cyc + c->stall_dma +
                           c->stall_fetch,
          "cycles are not the sum of their parts");
    check((c->mac_issued + c->mac_pad) % npu->config.lanes == 0,
          "products and idle lanes are no whole slots");
    check(c->mac_gated <= c->mac_issued, "more gated than issued");
    if (complete) {
        check(c->insns == traffic->instructions, "instructions");
        check(c->dma_flash_rd_bytes == traffic->bytes[ES_NPU_FLASH_READ] &&
                  c->dma_dram_rd_bytes == traffic->bytes[ES_NPU_DRAM_READ] &&
                  c->dma_dram_wr_bytes == traffic->bytes[ES_NPU_DRAM_WRITE],
              "bytes that the verifier did not declare");
    }
}

typedef struct memory {
    uint8_t *dram, *scratchpad;
    es_npu_counters *marks;
    es_npu_event *events;
} memory;

static es_npu_trap run(es_npu *npu, const memory *m,
                       const es_npu_report *report, es_npu_knobs *knobs)
{
    noise(m->dram, npu->program.dram_bytes);
    es_npu_trap trap = es_npu_run(npu, m->dram, knobs);
    check(trap == ES_NPU_TRAP_OK || trap == ES_NPU_TRAP_FMT ||
              (trap == ES_NPU_TRAP_LIMIT && knobs->max_instructions > 0),
          "a trap that a run cannot meet");
    check_counters(npu, &report->run, trap == ES_NPU_TRAP_OK);
    return trap;
}

/* A run in bound mode on the same bytes takes as long or longer. */
static void compare_bound(es_npu *npu, const memory *m,
                          const es_npu_report *report, es_npu_knobs *knobs)
{
    uint64_t seed = state;
    es_npu_trap trap = run(npu, m, report, knobs);
    es_npu_counters real = npu->counters;
    if (trap || es_npu_reset(npu, NULL)) {
        return;
    }
    state = seed;
    knobs->bound = 1;
    /* The first run left its vectors in the scratchpad; after a reset it is
     * the same again. */
    trap = run(npu, m, report, knobs);
    knobs->bound = 0;
    check(trap == ES_NPU_TRAP_OK, "stopped in bound mode only");
    check(npu->counters.cycles >= real.cycles, "a run above its bound");
    check(npu->counters.mac_issued + npu->counters.mac_skip_w ==
              real.mac_issued + real.mac_skip_w + real.mac_skip_a,
          "dense products");
}

static void execute(npu_case *one, const es_npu_report *report, tally *all)
{
    es_npu npu;
    es_npu_knobs knobs;
    memory m;
    memset(&knobs, 0, sizeof knobs);
    m.dram = allocate(one->program.dram_bytes);
    m.scratchpad = allocate(one->config.scratchpad_bytes);
    m.marks = calloc(MARKS, sizeof(es_npu_counters));
    m.events = allocate(16 * sizeof(es_npu_event));
    check(m.marks != NULL, "out of memory");
    check(es_npu_init(&npu, &one->program, &one->config, m.scratchpad, NULL) ==
              ES_NPU_TRAP_OK,
          "accepted and refused");
    knobs.host = host;
    knobs.user = m.dram;
    knobs.marks = m.marks;
    knobs.events = m.events;
    knobs.event_room = npu_below(&state, 17);
    knobs.fetch = npu_below(&state, 2);
    knobs.launch_cycles = npu_below(&state, 600);
    knobs.scan_width = npu_below(&state, 18);
    if (report->run.instructions > RUN_MOST || npu_below(&state, 30) == 0) {
        knobs.max_instructions = 1 + npu_below(&state, 200);
    }
    if (es_npu_reset(&npu, NULL) == ES_NPU_TRAP_OK) {
        check_counters(&npu, &report->prologue, true);
        compare_bound(&npu, &m, report, &knobs);
        run(&npu, &m, report, &knobs); /* ring heads have moved */
        all->by_mac += npu.counters.mac_cyc > 0;
        all->skipped += npu.counters.mac_skip_a > 0;
    }
    all->stopped += npu.fault.trap != ES_NPU_TRAP_OK;
    all->ran++;
    for (uint32_t i = 0; i < one->program.instructions; i++) {
        all->op[one->commands[i * ES_NPU_INSTRUCTION_BYTES]]++;
    }
    free(m.events);
    free(m.marks);
    free(m.scratchpad);
    free(m.dram);
}

/* Commands and blobs, each in a block of its own size. */
static void try_one(npu_case *one, tally *all)
{
    es_npu_report report;
    es_npu_fault fault = {ES_NPU_TRAP_OK, 0, 0};
    size_t size = (size_t)one->program.instructions * ES_NPU_INSTRUCTION_BYTES;
    uint8_t *commands = allocate(size), *blob[NPU_BLOBS];
    memcpy(commands, one->commands, size);
    one->program.commands = commands;
    for (uint32_t b = 0; b < NPU_BLOBS; b++) {
        blob[b] = allocate(one->blobs[b].size);
        memcpy(blob[b], one->bytes[b], one->blobs[b].size);
        one->blobs[b].data = blob[b];
    }
    es_npu_trap trap =
        es_npu_verify(&one->program, &one->config, &report, &fault);
    all->programs++;
    all->trap[trap]++;
    if (trap == ES_NPU_TRAP_OK) {
        all->accepted++;
        execute(one, &report, all);
    } else {
        check(fault.trap == trap &&
                  fault.instruction <= one->program.instructions,
              "a refusal without a place");
    }
    for (uint32_t b = 0; b < NPU_BLOBS; b++) {
        free(blob[b]);
    }
    free(commands);
}

static void report(const tally *all)
{
    printf("programs %lu\naccepted %lu (%.1f %%)\n", all->programs,
           all->accepted,
           100.0 * (double)all->accepted / (double)all->programs);
    printf("ran %lu\nwith products %lu\nwith skips %lu\nstopped %lu\n",
           all->ran, all->by_mac, all->skipped, all->stopped);
    for (int i = 0; i < ES_NPU_TRAPS; i++) {
        printf("trap %d %lu\n", i, all->trap[i]);
    }
    for (int i = 0; i < ES_NPU_OPS; i++) {
        printf("op %d %lu\n", i, all->op[i]);
    }
}

int main(int argc, char **argv)
{
    static tally all;
    static npu_case one;
    unsigned long count = 100000;
    int i = 1;
    for (; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "-n") == 0) {
            count = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "-s") == 0) {
            state = strtoull(argv[i + 1], NULL, 10);
        } else {
            break;
        }
    }
    if (i != argc || count == 0) {
        fputs("use: mutate_npu [-n PROGRAMS] [-s SEED]\n", stderr);
        return 2;
    }
    while (count-- > 0) {
        npu_case_begin(&one, &state);
        if (npu_below(&state, 3) == 0) {
            npu_case_noise(&one, &state);
        } else {
            npu_case_grow(&one, &state);
            if (npu_below(&state, 2) == 0) {
                npu_case_spoil(&one, &state);
            }
        }
        try_one(&one, &all);
    }
    report(&all);
    return 0;
}
