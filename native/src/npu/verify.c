/* The verifier: a run without data. */
#include "npu/check.h"

/* Comparisons of ranges a program may cost: a second or so. */
enum { BUDGET = 1 << 28 };

es_npu_trap es_npu_refuse(es_npu_check *check, es_npu_trap trap, uint32_t info)
{
    check->fault.trap = trap;
    check->fault.instruction = check->control.pc;
    check->fault.info = info;
    return trap;
}

static bool power_of_two(uint32_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static bool machine_fits(const es_npu_config *c)
{
    return c->lanes >= 8 && c->lanes <= ES_NPU_LANES && c->lanes % 8 == 0 &&
           c->accumulators <= ES_NPU_ACCUMULATORS &&
           c->vectors <= ES_NPU_VECTORS && c->masks <= ES_NPU_MASKS &&
           c->streams <= ES_NPU_STREAMS && c->rings <= ES_NPU_RINGS &&
           power_of_two(c->banks) && c->banks <= ES_NPU_BANKS &&
           c->scratchpad_bytes > 0 &&
           c->scratchpad_bytes <= ES_NPU_SCRATCHPAD &&
           c->scratchpad_bytes % (c->banks * 4) == 0 && c->flash_bytes > 0 &&
           c->dram_bytes > 0 && c->scan_width > 0 && c->requant_rate > 0 &&
           c->table_rate > 0;
}

static es_npu_trap check_loop(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    const es_npu_insn *insn = &control->insn;
    uint32_t depth = control->depth;
    uint32_t end = depth ? control->loop[depth - 1].end : check->end;
    if (insn->i1 < 1 || insn->i1 > ES_NPU_LOOP_BODY ||
        control->pc + 1 + insn->i1 > end ||
        (depth == ES_NPU_LOOP_DEPTH && insn->i0 > 0)) {
        return es_npu_refuse(check, ES_NPU_TRAP_LOOP, insn->i1);
    }
    return ES_NPU_TRAP_OK;
}

/* The prologue ends with its END, a run with any that is in no loop. */
static es_npu_trap check_end(es_npu_check *check)
{
    const es_npu_control *control = &check->control;
    if (control->depth > 0 ||
        (check->in_prologue && control->pc + 1 != check->end)) {
        return es_npu_refuse(check, ES_NPU_TRAP_END, control->depth);
    }
    return ES_NPU_TRAP_OK;
}

static es_npu_trap check_one(es_npu_check *check)
{
    uint8_t op = check->control.insn.op;
    es_npu_trap trap;
    if ((trap = es_npu_check_registers(check)) ||
        (trap = es_npu_check_values(check))) {
        return trap;
    }
    switch (op) {
    case ES_NPU_LOOP:
        return check_loop(check);
    case ES_NPU_DMA:
    case ES_NPU_DMA2:
        return es_npu_check_dma(check);
    case ES_NPU_DWAIT:
        es_npu_check_dwait(check);
        return ES_NPU_TRAP_OK;
    case ES_NPU_HOST:
    case ES_NPU_END:
        if (check->pending_count > 0) {
            return es_npu_refuse(check, ES_NPU_TRAP_DMAHAZ,
                                 check->pending[0].channel);
        }
        return op == ES_NPU_END ? check_end(check) : ES_NPU_TRAP_OK;
    default:
        return es_npu_check_access(check);
    }
}

/* From pc to END. */
static es_npu_trap walk(es_npu_check *check, uint32_t pc)
{
    es_npu_control *control = &check->control;
    memset(&check->traffic, 0, sizeof check->traffic);
    es_npu_control_begin(control, pc);
    for (;;) {
        if (control->pc >= check->end) {
            return es_npu_refuse(check, ES_NPU_TRAP_END, check->end);
        }
        if (check->traffic.instructions++ == ES_NPU_EXECUTED_MAX) {
            return es_npu_refuse(check, ES_NPU_TRAP_LIMIT, ES_NPU_EXECUTED_MAX);
        }
        es_npu_control_read(control);
        es_npu_trap trap = check_one(check);
        if (trap || control->insn.op == ES_NPU_END) {
            return trap;
        }
        es_npu_control_next(control);
    }
}

static es_npu_trap verify(es_npu_check *check, es_npu_report *report)
{
    const es_npu_program *program = check->control.program;
    const es_npu_config *config = check->control.config;
    es_npu_trap trap;
    memset(report, 0, sizeof *report);
    if (!machine_fits(config) || program->config != config->id) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADCFG, program->config);
    }
    if (program->prologue > program->instructions ||
        program->state_bytes > program->dram_bytes) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADVALUE, program->prologue);
    }
    if ((trap = es_npu_check_fields(check))) {
        return trap;
    }
    check->budget = BUDGET;
    if (program->prologue > 0) {
        check->in_prologue = true;
        check->end = program->prologue;
        if ((trap = walk(check, 0))) {
            return trap;
        }
        report->prologue = check->traffic;
    }
    check->in_prologue = false;
    check->end = program->instructions;
    trap = walk(check, program->prologue);
    report->run = check->traffic;
    return trap;
}

es_npu_trap es_npu_verify(const es_npu_program *program,
                          const es_npu_config *config, es_npu_report *report,
                          es_npu_fault *fault)
{
    es_npu_check check;
    es_npu_report found;
    memset(&check, 0, sizeof check);
    check.control.program = program;
    check.control.config = config;
    es_npu_trap trap = verify(&check, &found);
    if (trap == ES_NPU_TRAP_OK && report) {
        *report = found;
    }
    if (trap != ES_NPU_TRAP_OK && fault) {
        *fault = check.fault;
    }
    return trap;
}
