/* Whole Mac steps with DSP instructions: which way, and column after column. */
#include "exec/regular_dsp.h"
#include "exec/sums_dsp.h"

/* How the columns of a step are computed: so many together. */
typedef struct method {
    uint32_t width; /* 1, 2 or 4 */
    es_dsp_sums *sums;
} method;

static bool choose_tall(const es_regular *step, method *to)
{
    const es_row_group *group = &step->group;
    if (group->index_bits != 8 || group->row_count % 4) {
        return false;
    }
    bool twos = ES_HAS_PAIRS && step->columns > 1 &&
                step->patch <= ES_DSP_MOST_BLOCKS &&
                step->scratch_bytes >= 4 * step->patch;
    to->width = twos ? 2 : 1;
    to->sums = twos ? es_dsp_tall_two : es_dsp_tall_one;
    return true;
}

static bool choose(const es_regular *step, method *to)
{
    const es_row_group *group = &step->group;
    bool blocks = ES_HAS_BSR && group->encoding == ES_BSR;
    if (ES_HAS_TALL && blocks && group->block_cols == 1 &&
        group->block_rows == 4) {
        return choose_tall(step, to);
    }
    uint32_t words = 4 * es_dsp_groups(step);
    uint32_t four = 2 * words + (step->geometry->in_c % 4 ? words / 4 : 0);
    bool fours =
        ES_HAS_FOURS && step->columns > 2 && step->scratch_bytes >= 4 * four;
    to->width = fours ? 4 : 1;
    if (ES_HAS_DENSE && group->encoding == ES_DENSE) {
        to->sums = fours ? es_dsp_dense_four : es_dsp_dense_one;
        return true;
    }
    if (!ES_HAS_WIDE || !blocks || group->index_bits != 8 ||
        group->block_cols != 4) {
        return false;
    }
    uint32_t height = group->block_rows;
    to->sums = !fours        ? es_dsp_square_one
               : height == 1 ? es_dsp_wide_1
               : height == 2 ? es_dsp_wide_2
                             : es_dsp_wide_4;
    return fours ? height <= 2 || height == 4
                 : height == 4 && step->patch % 4 == 0 &&
                       group->row_count % 4 == 0;
}

void es_dsp_set_columns(es_dsp_tile *tile, uint32_t first)
{
    const es_regular *step = tile->step;
    uint32_t rest = step->columns - first;
    tile->count = rest < tile->width ? rest : tile->width;
    for (uint32_t p = 0; p < tile->count; p++) {
        int32_t column = (int32_t)(first + p);
        tile->output[p] =
            step->output.base + es_nwc_column_at(&step->output.map, column);
        if (step->add.kind) {
            tile->operand[p] = step->operand.base +
                               es_nwc_column_at(&step->operand.map, column);
        }
    }
}

/* Where the inputs of the columns from `first` on are now. */
static const void *inputs_of(const es_regular *step, uint32_t width,
                             uint32_t first)
{
    void *scratch = step->scratch;
    if (width == 1) {
        return es_dsp_patch(step, first, scratch);
    }
    if (ES_HAS_PAIRS && width == 2) {
        es_dsp_pair(step, first, scratch);
    } else if (ES_HAS_FOURS) {
        es_dsp_widen(step, first, scratch);
    }
    return scratch;
}

static void run(const es_regular *step, const method *how)
{
    const es_row_group *group = &step->group;
    es_dsp_tile tile;
    tile.step = step;
    tile.width = how->width;
    uint32_t most = ES_DSP_SUMS / how->width;
    bool blocks = group->encoding == ES_BSR;
    uint32_t height = blocks ? group->block_rows : 1U;
    uint32_t counts = (group->row_count + height - 1) / height;
    for (uint32_t first = 0; first < step->columns; first += tile.width) {
        es_dsp_work at = {step->patch, inputs_of(step, how->width, first),
                          group->values.data, group->index.data,
                          group->index.data + 2 * counts};
        es_dsp_set_columns(&tile, first);
        for (uint32_t row = 0; row < group->row_count; row += most) {
            uint32_t rest = group->row_count - row;
            uint32_t count = rest < most ? rest : most;
            how->sums(&at, count, step->bias + row, tile.sums);
            es_dsp_finish(&tile, row, count);
        }
    }
}

bool es_regular__dsp(const es_regular *step)
{
    method how;
    if (!es_dsp_finishes(step)) {
        return false;
    }
    if (ES_HAS_GROUPS && step->geometry->groups != 1) {
        return es_dsp_depthwise(step);
    }
    if (!choose(step, &how)) {
        return false;
    }
    run(step, &how);
    return true;
}
