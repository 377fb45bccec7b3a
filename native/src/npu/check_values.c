/* Values an instruction is given, in its fields and in registers. */
#include "npu/check.h"

enum {
    COLUMNS_MOST = 1 << 16, /* column numbers are 16 bits wide */
    MULTIPLIED_SHIFT = 15   /* 255 * 255 * 2^15 < 2^31 - 256 */
};

typedef struct es_npu_bounds {
    int32_t least, most;
} es_npu_bounds;

static es_npu_bounds bounds_of(const es_npu_config *config, uint32_t number)
{
    es_npu_bounds any = {INT32_MIN, INT32_MAX}, int8 = {INT8_MIN, INT8_MAX};
    es_npu_bounds lanes = {1, (int32_t)config->lanes};
    es_npu_bounds positions = {1, ES_NPU_NPOS_MAX};
    es_npu_bounds mode = {0, ES_NPU_PER_TENSOR | ES_NPU_SINGLE_ROUNDING};
    es_npu_bounds multiplier = {0, INT32_MAX},
                  signed_multiplier = {-INT32_MAX, INT32_MAX};
    es_npu_bounds shift = {-31, 30}, right = {-31, 0}, left = {0, 20};
    es_npu_bounds product = {-31, MULTIPLIED_SHIFT};
    es_npu_bounds columns = {1, COLUMNS_MOST}, rows = {1, ES_NPU_SCRATCHPAD};
    switch (number) {
    case ES_NPU_REG_VL:
        return lanes;
    case ES_NPU_REG_NPOS:
        return positions;
    case ES_NPU_REG_INZP:
    case ES_NPU_REG_OUTZP:
    case ES_NPU_REG_QMIN:
    case ES_NPU_REG_QMAX:
    case ES_NPU_REG_A_ZP:
    case ES_NPU_REG_B_ZP:
    case ES_NPU_REG_O_ZP:
        return int8;
    case ES_NPU_REG_REQMODE:
        return mode;
    case ES_NPU_REG_QMULT:
    case ES_NPU_REG_O_MULT:
        return multiplier;
    case ES_NPU_REG_QSHIFT:
        return shift;
    case ES_NPU_REG_COLS:
    case ES_NPU_REG_ROWLEN:
        return columns;
    case ES_NPU_REG_DROWS:
        return rows;
    case ES_NPU_REG_A_MULT:
    case ES_NPU_REG_B_MULT:
        return signed_multiplier;
    case ES_NPU_REG_A_SHIFT:
    case ES_NPU_REG_B_SHIFT:
        return right;
    case ES_NPU_REG_O_SHIFT:
        return product;
    case ES_NPU_REG_LSHIFT:
        return left;
    default: /* ACCINIT and pitches */
        return any;
    }
}

/* Each check says whether all is well. */

static bool format_fits(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_format format = es_npu_format_of(insn->i1);
    uint32_t cols = es_npu_count(control, ES_NPU_REG_COLS);
    uint32_t used = ES_NPU_INDEX_BITS | ES_NPU_SKIP, m = format.m;
    bool n_of_m = format.kind == ES_NPU_INDEX_N_OF_M;
    if (format.kind >= ES_NPU_INDEXES || insn->i0 > cols ||
        (!n_of_m && (insn->i1 & ~used) != 0)) {
        return false;
    }
    if (format.kind == ES_NPU_INDEX_DENSE) {
        return insn->i0 == cols && insn->i2 == 0;
    }
    if (!n_of_m) {
        return true;
    }
    used |= 255u << ES_NPU_N_SHIFT | 255u << ES_NPU_M_SHIFT;
    return (insn->i1 & ~used) == 0 && (m == 2 || m == 4 || m == 8 || m == 16) &&
           format.n >= 1 && format.n < m && cols % m == 0 &&
           insn->i0 == cols / m * format.n;
}

static bool groups_fit(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    uint32_t group = insn->i1 & ES_NPU_GROUP_BITS;
    uint32_t used = ES_NPU_GROUP_BITS | ES_NPU_WIDE_COLUMNS;
    return (insn->i1 & ~used) == 0 && (group == 1 || group == 4) &&
           insn->i0 <= es_npu_count(control, ES_NPU_REG_COLS);
}

static bool range_fits(const es_npu_control *control)
{
    return es_npu_reg(control, ES_NPU_REG_QMIN) <=
           es_npu_reg(control, ES_NPU_REG_QMAX);
}

/* Per tensor, no streams are named. */
static bool requant_fits(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    int32_t mode = es_npu_reg(control, ES_NPU_REG_REQMODE);
    return range_fits(control) && ((mode & ES_NPU_PER_TENSOR) == 0 ||
                                   (insn->i0 == 0 && insn->i1 == 0));
}

static bool value_fits(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    es_npu_bounds bounds;
    switch (insn->op) {
    case ES_NPU_CFG:
        bounds = bounds_of(control->config, insn->a);
        return (int32_t)insn->i0 >= bounds.least &&
               (int32_t)insn->i0 <= bounds.most;
    case ES_NPU_STRD:
        return insn->i1 > 0;
    case ES_NPU_RING:
        return insn->i1 > 0;
    case ES_NPU_FILL:
        return insn->i1 > 0 && insn->i2 <= UINT8_MAX;
    case ES_NPU_VLDA:
        return insn->c == 0 || (insn->c == 1 && insn->b == 0);
    case ES_NPU_MACB:
        return format_fits(control);
    case ES_NPU_MACV:
        return (insn->i1 & ~(uint32_t)ES_NPU_SKIP) == 0;
    case ES_NPU_MACW:
        return insn->i1 == 0 &&
               insn->i0 <= es_npu_count(control, ES_NPU_REG_COLS);
    case ES_NPU_MACG:
        return groups_fit(control);
    case ES_NPU_REQ:
        return requant_fits(control);
    case ES_NPU_VADDQ: /* |a + b| < 2^29 may not be shifted to the left */
        return range_fits(control) &&
               es_npu_reg(control, ES_NPU_REG_O_SHIFT) <= 0;
    case ES_NPU_VMULQ:
    case ES_NPU_VCLAMP:
        return range_fits(control);
    case ES_NPU_AVGR:
        return range_fits(control) && insn->i0 > 0 && insn->i0 <= INT32_MAX;
    case ES_NPU_HOST:
    case ES_NPU_MARK:
        return insn->i0 < control->program->steps;
    default:
        return true;
    }
}

/* The value a refusal names. */
static uint32_t value_of(const es_npu_insn *insn)
{
    switch (insn->op) {
    case ES_NPU_STRD:
    case ES_NPU_RING:
    case ES_NPU_MACV:
        return insn->i1;
    case ES_NPU_VLDA:
        return insn->c;
    default:
        return insn->i0;
    }
}

static bool stream_is_set(const es_npu_control *control, uint32_t number)
{
    return number < control->config->streams && control->stream[number].is_set;
}

/* Streams and rings that have to be there; returns the number of one that is
 * not, or UINT32_MAX. */
static uint32_t missing(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    const es_npu_ring *ring = control->ring;
    switch (insn->op) {
    case ES_NPU_SET:
        return insn->b && ring[insn->b - 1].size == 0 ? insn->b : UINT32_MAX;
    case ES_NPU_RADV:
        return ring[insn->a].size == 0 ? insn->a : UINT32_MAX;
    case ES_NPU_STRD:
        return !stream_is_set(control, insn->a) ||
                       control->stream[insn->a].dims == ES_NPU_STREAM_DIMS
                   ? insn->a
                   : UINT32_MAX;
    default:
        return UINT32_MAX;
    }
}

static bool aligned(const es_npu_control *control)
{
    const es_npu_insn *insn = &control->insn;
    uint32_t unit = control->config->banks * 4;
    switch (insn->op) {
    case ES_NPU_RING:
        return insn->i0 % unit == 0 && insn->i1 % unit == 0;
    case ES_NPU_RADV:
        return insn->i0 % unit == 0;
    default:
        return true;
    }
}

/* Masks that may not be left out. */
static bool masks_there(const es_npu_insn *insn)
{
    switch (insn->op) {
    case ES_NPU_VSTC:
        return insn->c != 0;
    case ES_NPU_MSK:
        return insn->a != 0;
    case ES_NPU_MAND:
        return insn->a != 0 && insn->b != 0 && insn->c != 0;
    default:
        return true;
    }
}

es_npu_trap es_npu_check_values(es_npu_check *check)
{
    const es_npu_insn *insn = &check->control.insn;
    uint32_t number = missing(&check->control);
    if (number != UINT32_MAX) {
        return es_npu_refuse(check, ES_NPU_TRAP_STREAM, number);
    }
    if (!masks_there(insn)) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADREG, 0);
    }
    if ((insn->op == ES_NPU_HOST && check->in_prologue) ||
        (insn->op == ES_NPU_RING && !check->in_prologue)) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADOP, insn->op);
    }
    if (!value_fits(&check->control)) {
        return es_npu_refuse(check, ES_NPU_TRAP_BADVALUE, value_of(insn));
    }
    if (!aligned(&check->control)) {
        return es_npu_refuse(check, ES_NPU_TRAP_ALIGN, insn->i0);
    }
    return ES_NPU_TRAP_OK;
}
