#include "npu_programs.h"

#include <stdbool.h>
#include <string.h>

uint64_t npu_any(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t npu_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(npu_any(state) % limit);
}

static bool chance(uint64_t *state, uint32_t one_in)
{
    return npu_below(state, one_in) == 0;
}

static uint32_t between(uint64_t *state, uint32_t least, uint32_t most)
{
    return least + npu_below(state, most - least + 1);
}

void npu_case_begin(npu_case *one, uint64_t *state)
{
    static const uint32_t lanes[] = {16, 32, 8, 24};
    static const uint32_t banks[] = {8, 16, 1, 4};
    es_npu_config c = {7, 0, 8,  8, 8, 16, 32, 0, 0,
                       1, 2, 64, 1, 1, 64, 16, 4, 4};
    memset(one, 0, sizeof *one);
    c.lanes =
        lanes[chance(state, 8) ? npu_below(state, 4) : npu_below(state, 2)];
    c.banks = banks[npu_below(state, 4)];
    c.scratchpad_bytes = 256 * between(state, 1, NPU_SCRATCHPAD / 256);
    c.vectors = chance(state, 2) ? 16 : 8;
    c.scan_width = between(state, 1, 16);
    one->config = c;
    for (uint32_t b = 0; b < NPU_BLOBS; b++) {
        /* Few zeros, many small numbers: column numbers that exist. */
        uint32_t most = chance(state, 4) ? 255 : between(state, 1, 3);
        for (uint32_t i = 0; i < NPU_BLOB_BYTES; i++) {
            one->bytes[b][i] = (uint8_t)between(state, 0, most);
        }
    }
    one->program.prologue = 0;
    one->program.config = chance(state, 50) ? 1 : 7;
    one->program.blob_count = NPU_BLOBS;
    one->program.dram_bytes = NPU_DRAM;
    one->program.state_bytes = chance(state, 2) ? 0 : NPU_DRAM / 4;
    one->program.steps = 4;
    one->program.commands = one->commands;
    one->program.blobs = one->blobs;
    for (uint32_t b = 0; b < NPU_BLOBS; b++) {
        one->blobs[b].data = one->bytes[b];
        one->blobs[b].size = between(state, 1, NPU_BLOB_BYTES);
    }
}

static void put(npu_case *one, uint32_t at, es_npu_insn insn)
{
    uint8_t *bytes = one->commands + (size_t)at * ES_NPU_INSTRUCTION_BYTES;
    const uint32_t words[3] = {insn.i0, insn.i1, insn.i2};
    bytes[0] = insn.op;
    bytes[1] = insn.a;
    bytes[2] = insn.b;
    bytes[3] = insn.c;
    memcpy(bytes + 4, words, sizeof words); /* little-endian hosts */
}

void npu_case_noise(npu_case *one, uint64_t *state)
{
    uint32_t count = between(state, 1, 12);
    for (uint32_t i = 0; i < count * ES_NPU_INSTRUCTION_BYTES; i++) {
        uint32_t most = chance(state, 3) ? 255 : 3;
        one->commands[i] = (uint8_t)between(state, 0, most);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!chance(state, 20)) {
            one->commands[i * ES_NPU_INSTRUCTION_BYTES] =
                (uint8_t)npu_below(state, ES_NPU_OPS);
        }
    }
    one->commands[(count - 1) * ES_NPU_INSTRUCTION_BYTES] = ES_NPU_END;
    one->program.instructions = count;
    one->program.prologue = npu_below(state, count);
}

/* ---- growing ---- */

static uint8_t reg(uint64_t *state)
{
    return (uint8_t)npu_below(state, chance(state, 4) ? 8 : 3);
}

static uint8_t stream(uint64_t *state)
{
    return (uint8_t)npu_below(state, chance(state, 10) ? 16 : 4);
}

static uint32_t address(const npu_case *one, uint64_t *state)
{
    uint32_t at = npu_below(state, one->config.scratchpad_bytes);
    return chance(state, 4) ? at : at / 4 * 4;
}

static uint32_t setting(const npu_case *one, uint64_t *state, uint8_t number)
{
    switch (number) {
    case ES_NPU_REG_VL:
        return between(state, 1, one->config.lanes);
    case ES_NPU_REG_NPOS:
        return between(state, 1, 4);
    case ES_NPU_REG_INZP:
        return chance(state, 2) ? 0 : npu_below(state, 128);
    case ES_NPU_REG_QMIN:
        return (uint32_t) - (int32_t)npu_below(state, 129);
    case ES_NPU_REG_REQMODE:
        return npu_below(state, 4);
    case ES_NPU_REG_COLS:
        return between(state, 1, chance(state, 4) ? 130 : 12);
    case ES_NPU_REG_ROWLEN:
    case ES_NPU_REG_DROWS:
        return between(state, 1, 6);
    case ES_NPU_REG_A_SHIFT:
    case ES_NPU_REG_B_SHIFT:
    case ES_NPU_REG_O_SHIFT:
    case ES_NPU_REG_QSHIFT:
        return (uint32_t) - (int32_t)npu_below(state, 32);
    case ES_NPU_REG_A_MULT:
    case ES_NPU_REG_QMULT:
    case ES_NPU_REG_O_MULT:
    case ES_NPU_REG_ACCINIT:
        return (uint32_t)npu_any(state) / 2;
    case ES_NPU_REG_XSTRIDE:
    case ES_NPU_REG_ROWPITCH:
    case ES_NPU_REG_COLPITCH:
    case ES_NPU_REG_DSPITCH:
    case ES_NPU_REG_DEPITCH:
        return npu_below(state, 24) - (chance(state, 4) ? 12 : 0);
    default:
        return npu_below(state, 20);
    }
}

static void transfer(const npu_case *one, uint64_t *state, es_npu_insn *insn)
{
    bool flash = chance(state, 2);
    insn->a = reg(state);
    insn->b = flash ? ES_NPU_FLASH_READ : (uint8_t)between(state, 1, 2);
    if (insn->op == ES_NPU_DMA2 && chance(state, 2)) {
        insn->b |= ES_NPU_TRANSPOSE;
    }
    insn->c = flash ? (uint8_t)npu_below(state, NPU_BLOBS) : 0;
    insn->i0 = npu_below(state, flash ? 64 : NPU_DRAM);
    insn->i1 = address(one, state);
    insn->i2 = between(state, 1, 100);
}

static void mac(uint64_t *state, es_npu_insn *insn, uint32_t cols)
{
    uint32_t m = 2u << npu_below(state, 4);
    uint32_t n = between(state, 1, m - 1);
    insn->a = reg(state);
    insn->b = stream(state);
    insn->c = stream(state);
    insn->i0 = npu_below(state, cols + 1);
    insn->i2 = stream(state);
    if (insn->op == ES_NPU_MACV) {
        insn->i0 = insn->i2 = 0;
        insn->i1 = chance(state, 2) ? ES_NPU_SKIP : 0;
    } else if (insn->op == ES_NPU_MACG) {
        insn->i1 = (chance(state, 2) ? 1u : 4u) |
                   (chance(state, 4) ? (uint32_t)ES_NPU_WIDE_COLUMNS : 0);
    } else if (insn->op == ES_NPU_MACB) {
        insn->i1 = npu_below(state, ES_NPU_INDEXES);
        if (insn->i1 == ES_NPU_INDEX_DENSE) {
            insn->i0 = cols;
            insn->i2 = 0;
        } else if (insn->i1 == ES_NPU_INDEX_N_OF_M) {
            insn->i0 = cols / m * n;
            insn->i1 |= n << ES_NPU_N_SHIFT | m << ES_NPU_M_SHIFT;
        }
        insn->i1 |= chance(state, 2) ? (uint32_t)ES_NPU_SKIP : 0;
    }
}

/* What comes next, `left` instructions before the end. */
static es_npu_insn candidate(const npu_case *one, uint64_t *state,
                             const es_npu_control *now, uint32_t left)
{
    es_npu_insn insn = {
        (uint8_t)npu_below(state, ES_NPU_OPS), 0, 0, 0, 0, 0, 0};
    uint32_t cols = (uint32_t)now->reg[ES_NPU_REG_COLS];
    if (chance(state, 2)) { /* what others need, and what is refused often */
        static const uint8_t often[] = {
            ES_NPU_CFG,  ES_NPU_SET,  ES_NPU_STRD, ES_NPU_DMA,  ES_NPU_DWAIT,
            ES_NPU_MACB, ES_NPU_MACV, ES_NPU_MACW, ES_NPU_MACG, ES_NPU_VLD,
            ES_NPU_VST,  ES_NPU_REQ,  ES_NPU_MACB};
        insn.op = often[npu_below(state, sizeof often)];
    }
    switch (insn.op) {
    case ES_NPU_LOOP:
        insn.i0 = npu_below(state, 5);
        insn.i1 = between(state, 1, left ? left : 1);
        break;
    case ES_NPU_CFG:
        insn.a = (uint8_t)npu_below(state, ES_NPU_REGS);
        insn.i0 = setting(one, state, insn.a);
        break;
    case ES_NPU_SET:
        insn.a = stream(state);
        insn.b = chance(state, 4) ? (uint8_t)between(state, 1, 3) : 0;
        insn.i0 = address(one, state);
        break;
    case ES_NPU_STRD:
        insn.a = stream(state);
        insn.i0 = npu_below(state, 40) - (chance(state, 4) ? 20 : 0);
        insn.i1 = between(state, 1, 5);
        break;
    case ES_NPU_RING:
    case ES_NPU_RADV:
        insn.a = (uint8_t)npu_below(state, 3);
        insn.i0 = address(one, state) / (4 * one->config.banks) *
                  (4 * one->config.banks);
        insn.i1 = insn.op == ES_NPU_RING
                      ? between(state, 1, 4) * 4 * one->config.banks
                      : 0;
        break;
    case ES_NPU_DMA:
    case ES_NPU_DMA2:
        transfer(one, state, &insn);
        break;
    case ES_NPU_DWAIT:
        insn.a = reg(state);
        break;
    case ES_NPU_FILL:
        insn.i0 = address(one, state);
        insn.i1 = between(state, 1, 300);
        insn.i2 = npu_below(state, 256);
        break;
    case ES_NPU_MACB:
    case ES_NPU_MACV:
    case ES_NPU_MACW:
    case ES_NPU_MACG:
        mac(state, &insn, cols);
        break;
    case ES_NPU_VLDA:
        insn.a = reg(state);
        insn.c = (uint8_t)npu_below(state, 2);
        insn.b = insn.c ? 0 : stream(state);
        break;
    case ES_NPU_REQ:
        insn.a = reg(state);
        insn.b = reg(state);
        insn.c = reg(state);
        if ((now->reg[ES_NPU_REG_REQMODE] & ES_NPU_PER_TENSOR) == 0) {
            insn.i0 = stream(state);
            insn.i1 = stream(state);
        }
        break;
    case ES_NPU_LUT:
        insn.i0 = address(one, state);
        /* fall through */
    case ES_NPU_VCLAMP:
    case ES_NPU_ACCV:
    case ES_NPU_VLD:
    case ES_NPU_VLDC:
        insn.a = reg(state);
        insn.b = reg(state);
        break;
    case ES_NPU_MSK:
        insn.a = (uint8_t)(1 + reg(state) % 4);
        insn.b = reg(state);
        break;
    case ES_NPU_AVGR:
        insn.a = reg(state);
        insn.b = reg(state);
        insn.i0 = between(state, 1, 100);
        break;
    case ES_NPU_HOST:
    case ES_NPU_MARK:
        insn.i0 = npu_below(state, 4);
        break;
    case ES_NPU_END:
    case ES_NPU_NOP:
        insn.op = ES_NPU_NOP;
        break;
    default: /* VST, VSTC, VADDQ ... SCAT */
        insn.a = (uint8_t)(1 + reg(state) % 7);
        insn.b = (uint8_t)(1 + reg(state) % 7);
        insn.c = (uint8_t)(1 + reg(state) % 7);
        break;
    }
    return insn;
}

/* Whether the program is accepted with END behind its last instruction and a
 * wait for every channel; how the registers stand is not known inside loops,
 * so they are those that CFG set last. */
static bool accepted(npu_case *one, uint32_t count)
{
    es_npu_insn wait = {ES_NPU_DWAIT, 0, 0, 0, 0, 0, 0};
    es_npu_insn end = {ES_NPU_END, 0, 0, 0, 0, 0, 0};
    uint32_t config = one->program.config;
    for (uint8_t channel = 0; channel < ES_NPU_DMA_CHANNELS; channel++) {
        wait.a = channel;
        put(one, count++, wait);
    }
    put(one, count++, end);
    one->program.instructions = count;
    one->program.config = one->config.id;
    bool fine = es_npu_init(&one->trial, &one->program, &one->config,
                            one->scratchpad, NULL) == ES_NPU_TRAP_OK;
    one->program.config = config;
    return fine;
}

static void ignore(void *user, uint32_t step)
{
    (void)user;
    (void)step;
}

/* Whether the program that was accepted runs to its end. */
static bool runs(npu_case *one)
{
    es_npu_knobs knobs;
    memset(&knobs, 0, sizeof knobs);
    knobs.host = ignore;
    knobs.max_instructions = 10000;
    memset(one->dram, 0, sizeof one->dram);
    return es_npu_reset(&one->trial, NULL) == ES_NPU_TRAP_OK &&
           es_npu_run(&one->trial, one->dram, &knobs) == ES_NPU_TRAP_OK;
}

/* A part of the program, from `first` on; returns where the next may start. */
static uint32_t grow(npu_case *one, uint64_t *state, uint32_t first,
                     uint32_t most)
{
    es_npu_control now;
    uint32_t count = first, open = 0; /* of the body of the newest loop */
    memset(&now, 0, sizeof now);
    now.reg[ES_NPU_REG_COLS] = 1;
    for (uint32_t tries = 0; tries < 3 * most && count < first + most;
         tries++) {
        es_npu_insn insn = candidate(one, state, &now, open ? open - 1 : 4);
        /* A loop takes the waits and NOPs that stand behind it. */
        if (insn.op == ES_NPU_LOOP && insn.i1 > 6) {
            insn.i1 = 6;
        }
        put(one, count, insn);
        /* One in eight may trap on its data. */
        if (!accepted(one, count + 1) || (!chance(state, 8) && !runs(one))) {
            continue;
        }
        count++;
        open = insn.op == ES_NPU_LOOP ? insn.i1 : open ? open - 1 : 0;
        if (insn.op == ES_NPU_CFG) {
            now.reg[insn.a] = (int32_t)insn.i0;
        }
    }
    accepted(one, count);
    return one->program.instructions;
}

/* Data in the scratchpad, and streams to use: most instructions need some.
 * Returns where the next instruction stands. */
static uint32_t prepare(npu_case *one, uint64_t *state, uint32_t at)
{
    uint32_t half = one->config.scratchpad_bytes / 2;
    uint32_t size = one->blobs[0].size < half ? one->blobs[0].size : half;
    uint32_t bytes = NPU_DRAM < half ? NPU_DRAM : half;
    es_npu_insn flash = {ES_NPU_DMA, 0, ES_NPU_FLASH_READ, 0, 0, 0, size};
    es_npu_insn dram = {ES_NPU_DMA, 1, ES_NPU_DRAM_READ, 0, 0, half, bytes};
    es_npu_insn wait = {ES_NPU_DWAIT, 0, 0, 0, 0, 0, 0};
    es_npu_insn set = {ES_NPU_SET, 0, 0, 0, 0, 0, 0};
    put(one, at++, flash);
    put(one, at++, dram);
    put(one, at++, wait);
    wait.a = 1;
    put(one, at++, wait);
    for (uint8_t i = 0; i < 4; i++) {
        set.a = i;
        set.i0 =
            npu_below(state, i < 3 ? size : half) / 4 * 4 + (i < 3 ? 0 : half);
        put(one, at++, set);
    }
    return at;
}

void npu_case_grow(npu_case *one, uint64_t *state)
{
    if (chance(state, 2)) {
        /* The prologue is grown as one, and needs something behind it. */
        es_npu_insn ring = {ES_NPU_RING, 0, 0, 0, 0, 0, 0};
        es_npu_insn end = {ES_NPU_END, 0, 0, 0, 0, 0, 0};
        for (uint8_t r = 0; r < 2; r++) {
            ring.a = r;
            ring.i1 = between(state, 1, 2) * 4 * one->config.banks;
            put(one, r, ring);
        }
        es_npu_insn load = {ES_NPU_DMA, 0, ES_NPU_FLASH_READ, 0, 0, 0, 1};
        load.c = (uint8_t)npu_below(state, NPU_BLOBS);
        load.i2 = one->blobs[load.c].size;
        load.i2 = load.i2 < one->config.scratchpad_bytes
                      ? load.i2
                      : one->config.scratchpad_bytes;
        put(one, 2, load);
        es_npu_insn wait = {ES_NPU_DWAIT, 0, 0, 0, 0, 0, 0};
        put(one, 3, wait);
        put(one, 4, end);
        one->program.prologue = 5;
    }
    uint32_t first = one->program.prologue;
    if (!chance(state, 4)) {
        first = prepare(one, state, first);
    }
    grow(one, state, first, between(state, 4, 40));
}

void npu_case_spoil(npu_case *one, uint64_t *state)
{
    static const uint32_t edges[] = {
        0,      1,       2,          7,          8,   15,      16,  31,
        32,     63,      64,         65,         127, 128,     255, 256,
        0x8000, 0x10000, 0x7FFFFFFF, 0x80000000, ~0u, 0xFFFFFF};
    for (uint32_t changes = between(state, 1, 2); changes > 0; changes--) {
        uint32_t at = npu_below(state, one->program.instructions);
        uint8_t *bytes = one->commands + at * ES_NPU_INSTRUCTION_BYTES;
        uint32_t word = npu_below(state, 3);
        bool loop = bytes[0] == ES_NPU_LOOP && word == 0;
        if (chance(state, 3)) {
            bytes[1 + npu_below(state, 3)] ^=
                (uint8_t)(1 << npu_below(state, 6));
        } else if (!loop || chance(state, 2000)) {
            /* A loop of many rounds costs the verifier a second. */
            memcpy(bytes + 4 + 4 * word,
                   &edges[npu_below(state, sizeof edges / sizeof edges[0])], 4);
        }
    }
}
