/* I-35, I-36 and I-46: sources with a state of their own. */
#include "plan/check.h"

enum { GATES = 4, MOST_CELL_BITS = 6 };

/* A matrix times each of `columns` columns. */
static bool is_matrix(const es_geometry *g, uint32_t columns)
{
    return g->in_h == 1 && g->out_h == 1 && g->kernel_h == 1 &&
           g->kernel_w == 1 && g->groups == 1 && g->in_w == columns &&
           g->out_w == columns;
}

static bool ring_fits(const es_root *root, uint32_t ring, uint64_t columns,
                      uint32_t channels)
{
    return ring < root->ring_count &&
           root->rings[ring].use == ES_RING_OF_COLUMNS &&
           root->rings[ring].columns == columns &&
           root->rings[ring].channels == channels;
}

/* A Mac over a tensor that is read in place. */
static bool check_mac(es_check *check, const es_mac *mac, const es_place *place,
                      uint16_t invariant)
{
    uint16_t broken = es_check_geometry(mac->geometry, place);
    if (broken == 0 && (!is_matrix(mac->geometry, place->columns) ||
                        place->layout != ES_LAYOUT_NWC)) {
        broken = invariant;
    }
    return broken == 0 ? es_check_weights(check, mac)
                       : es_refuse(check, broken, -1);
}

/* I-46 of `count` factors without zero point. */
static bool factors_fit(const es_scaled *scales, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!es_scaled_fits(&scales[i]) || scales[i].zero_point != 0) {
            return false;
        }
    }
    return true;
}

static bool arithmetic_fits(const es_lstm *lstm)
{
    const es_scaled *hidden = lstm->hidden;
    /* |output gate * tanh| < 2^30, plus a zero point. */
    return lstm->scale_count == 2 * GATES &&
           factors_fit(lstm->scales, 2 * GATES) && es_scaled_fits(hidden) &&
           hidden->shift <= 0 && hidden->zero_point >= INT8_MIN &&
           hidden->zero_point <= INT8_MAX &&
           lstm->cell_bits <= MOST_CELL_BITS && lstm->cell_clip >= 0;
}

bool es_check_lstm(es_check *check, const es_step *step)
{
    const es_root *root = &check->root;
    es_lstm lstm;
    es_tensor input;
    es_lstm_view(step, &lstm);
    es_tensor_view(root, step->input, &input);
    uint32_t units = lstm.recurrent.geometry->in_c;
    es_place hidden = {.columns = 1, .channels = units};

    if (!check_mac(check, &lstm.input, input.place, 35) ||
        !check_mac(check, &lstm.recurrent, &hidden, 35)) {
        return false;
    }
    if (lstm.input.geometry->rows != GATES * units ||
        lstm.recurrent.geometry->rows != GATES * units ||
        lstm.hidden_ring == lstm.cell_ring ||
        !ring_fits(root, lstm.hidden_ring, 1, units) ||
        !ring_fits(root, lstm.cell_ring, 1, 2 * units)) {
        return es_refuse(check, 35, -1);
    }
    if (!arithmetic_fits(&lstm)) {
        return es_refuse(check, 46, -1);
    }
    es_sink given = {step, lstm.scales, units};
    es_sink back = {step, lstm.scales + GATES, units};
    return es_check_sums(check, &given, &lstm.input) &&
           es_check_sums(check, &back, &lstm.recurrent);
}

/* I-46: every first stage takes any int32. */
static bool stages_fit(const es_step *step)
{
    es_branch branch;
    es_stage stage;
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch_view(step, b, &branch);
        if (branch.stages.count == 0) { /* I-23 */
            continue;
        }
        es_stage_view(&branch, 0, &stage);
        if (stage.kind != ES_STAGE_REQUANT) {
            continue;
        }
        for (uint32_t i = 0; i < stage.shift.count; i++) {
            if (stage.shift.data[i] > -1) {
                return false;
            }
        }
    }
    return true;
}

bool es_check_svdf(es_check *check, const es_step *step)
{
    const es_root *root = &check->root;
    es_svdf svdf;
    es_tensor input;
    es_svdf_view(step, &svdf);
    es_tensor_view(root, step->input, &input);
    uint32_t rows = svdf.feature.geometry->rows;

    if (!check_mac(check, &svdf.feature, input.place, 36)) {
        return false;
    }
    if (input.place->columns != 1 || rows % svdf.bias.count != 0 ||
        svdf.time.count % rows != 0 ||
        !ring_fits(root, svdf.ring, svdf.time.count / rows, 2 * rows)) {
        return es_refuse(check, 36, -1);
    }
    if (!factors_fit(svdf.scale, 1) || !stages_fit(step)) {
        return es_refuse(check, 46, -1);
    }
    es_sink sink = {step, svdf.scale, rows};
    return es_check_sums(check, &sink, &svdf.feature);
}
