/* The machine: its clock, its instruction fetch, and the run. The program has
 * been verified, so nothing here checks but what is data. */
#include "npu/machine.h"

void es_npu_note(es_npu *npu, es_npu_engine engine, uint64_t start,
                 uint64_t end)
{
    if (npu->events < npu->knobs.event_room) {
        es_npu_event event = {start, end, npu->control.pc, UINT32_MAX, engine};
        npu->knobs.events[npu->events] = event;
    }
    npu->events++;
}

void es_npu_spend(es_npu *npu, es_npu_engine engine, uint64_t *counter,
                  uint64_t cycles)
{
    if (cycles > 0) {
        es_npu_note(npu, engine, npu->now, npu->now + cycles);
    }
    *counter += cycles;
    npu->now += cycles;
}

es_npu_trap es_npu_stop(es_npu *npu, es_npu_trap trap, uint32_t info)
{
    npu->fault.trap = trap;
    npu->fault.instruction = npu->control.pc;
    npu->fault.info = info;
    return trap;
}

/* ---- instruction fetch ---- */

/* Instructions come in order, each once. One starts to come when the one
 * before has come, and the one LOOP_BODY before it has begun: so far ahead
 * does the machine reach, and a loop's body stays. */
static void fetch(es_npu *npu)
{
    const es_npu_config *config = &npu->config;
    uint64_t time =
        es_npu_ceil((uint64_t)ES_NPU_INSTRUCTION_BYTES * config->flash_cycles,
                    config->flash_bytes);
    uint32_t number = npu->control.pc - npu->first;
    for (; npu->reached <= number; npu->reached++) {
        uint64_t *began = &npu->began[npu->reached % ES_NPU_LOOP_BODY];
        if (npu->reached >= ES_NPU_LOOP_BODY && *began > npu->fetched) {
            npu->fetched = *began;
        }
        npu->fetched += time;
        npu->counters.cmd_fetch_bytes += ES_NPU_INSTRUCTION_BYTES;
        if (npu->reached == number && npu->fetched > npu->now) {
            es_npu_spend(npu, ES_NPU_ENGINE_STALL_FETCH,
                         &npu->counters.stall_fetch, npu->fetched - npu->now);
        }
        *began = npu->now;
    }
}

/* ---- counters of steps ---- */

static void add_difference(es_npu_counters *sum, const es_npu_counters *now,
                           const es_npu_counters *before)
{
#define ES_NPU_COUNTER(name) sum->name += now->name - before->name;
#include "edgesparse/npu_isa.inc"
}

static void mark(es_npu *npu)
{
    uint32_t step = npu->control.insn.i0;
    npu->counters.cycles = npu->now;
    if (npu->knobs.marks) {
        add_difference(&npu->knobs.marks[step], &npu->counters, &npu->marked);
    }
    npu->marked = npu->counters;
    for (; npu->events_marked < npu->events &&
           npu->events_marked < npu->knobs.event_room;
         npu->events_marked++) {
        npu->knobs.events[npu->events_marked].step = step;
    }
}

/* ---- a run ---- */

static es_npu_trap host(es_npu *npu)
{
    if (!npu->knobs.host) {
        return es_npu_stop(npu, ES_NPU_TRAP_BADOP, ES_NPU_HOST);
    }
    npu->knobs.host(npu->knobs.user, npu->control.insn.i0);
    npu->counters.host_steps++;
    return ES_NPU_TRAP_OK;
}

static void issue(es_npu *npu)
{
    npu->counters.issue++;
    npu->now++;
}

static es_npu_trap execute(es_npu *npu)
{
    switch (npu->control.insn.op) {
    case ES_NPU_DMA:
    case ES_NPU_DMA2:
        es_npu_dma(npu);
        issue(npu);
        return ES_NPU_TRAP_OK;
    case ES_NPU_DWAIT:
        es_npu_dwait(npu);
        issue(npu);
        return ES_NPU_TRAP_OK;
    case ES_NPU_HOST:
        return host(npu);
    case ES_NPU_MARK:
        mark(npu);
        return ES_NPU_TRAP_OK;
    case ES_NPU_MACB:
        return es_npu_macb(npu);
    case ES_NPU_MACV:
        return es_npu_macv(npu);
    case ES_NPU_MACW:
        return es_npu_macw(npu);
    case ES_NPU_MACG:
        return es_npu_macg(npu);
    case ES_NPU_REQ:
    case ES_NPU_LUT:
    case ES_NPU_VADDQ:
    case ES_NPU_VMULQ:
    case ES_NPU_AVGR:
        return es_npu_requant(npu);
    case ES_NPU_END:
    case ES_NPU_NOP:
    case ES_NPU_LOOP:
    case ES_NPU_CFG:
    case ES_NPU_SET:
    case ES_NPU_STRD:
    case ES_NPU_RING:
    case ES_NPU_RADV:
        issue(npu);
        return ES_NPU_TRAP_OK;
    default:
        return es_npu_vector(npu);
    }
}

static void begin(es_npu *npu, uint32_t pc, const es_npu_knobs *knobs)
{
    npu->knobs = *knobs;
    if (npu->knobs.scan_width == 0) {
        npu->knobs.scan_width = npu->config.scan_width;
    }
    npu->control.program = &npu->program;
    npu->control.config = &npu->config;
    es_npu_control_begin(&npu->control, pc);
    memset(npu->acc, 0, sizeof npu->acc);
    memset(npu->vec, 0, sizeof npu->vec);
    memset(npu->mask, 0, sizeof npu->mask);
    memset(&npu->counters, 0, sizeof npu->counters);
    npu->marked = npu->counters;
    memset(&npu->fault, 0, sizeof npu->fault);
    memset(npu->channel_end, 0, sizeof npu->channel_end);
    npu->dma_free = 0;
    npu->now = npu->fetched = npu->counters.launch_cyc = knobs->launch_cycles;
    npu->first = pc;
    npu->reached = npu->events = npu->events_marked = 0;
}

static es_npu_trap run(es_npu *npu, uint32_t pc, const es_npu_knobs *knobs)
{
    es_npu_trap trap = ES_NPU_TRAP_OK;
    begin(npu, pc, knobs);
    uint64_t most = knobs->max_instructions;
    do {
        es_npu_control_read(&npu->control);
        if (most > 0 && npu->counters.insns == most) {
            trap = es_npu_stop(npu, ES_NPU_TRAP_LIMIT, 0);
            break;
        }
        npu->counters.insns++;
        if (knobs->fetch) {
            fetch(npu);
        }
        trap = execute(npu);
        if (npu->control.insn.op == ES_NPU_END) {
            break;
        }
        if (!trap) {
            es_npu_control_next(&npu->control);
        }
    } while (!trap);
    npu->counters.cycles = npu->now;
    npu->dram = NULL;
    return trap;
}

es_npu_trap es_npu_init(es_npu *npu, const es_npu_program *program,
                        const es_npu_config *config, uint8_t *scratchpad,
                        es_npu_fault *fault)
{
    es_npu_trap trap = es_npu_verify(program, config, NULL, fault);
    if (trap) {
        return trap;
    }
    memset(npu, 0, sizeof *npu);
    npu->program = *program;
    npu->config = *config;
    npu->scratchpad = scratchpad;
    return trap;
}

es_npu_trap es_npu_reset(es_npu *npu, const es_npu_knobs *knobs)
{
    es_npu_knobs plain;
    memset(&plain, 0, sizeof plain);
    if (knobs) {
        plain = *knobs;
        plain.marks = NULL;
    }
    memset(npu->scratchpad, 0, npu->config.scratchpad_bytes);
    memset(npu->control.ring, 0, sizeof npu->control.ring);
    if (npu->program.prologue == 0) {
        memset(&npu->counters, 0, sizeof npu->counters);
        return ES_NPU_TRAP_OK;
    }
    return run(npu, 0, &plain);
}

es_npu_trap es_npu_run(es_npu *npu, uint8_t *dram, const es_npu_knobs *knobs)
{
    npu->dram = dram;
    return run(npu, npu->program.prologue, knobs);
}

const char *es_npu_counter_name(uint32_t index)
{
    static const char *const names[] = {
#define ES_NPU_COUNTER(name) #name,
#include "edgesparse/npu_isa.inc"
    };
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}
