#include "cost.h"

#include "plan/view.h"

/* Columns of the source that one column of the branch's output asks for, each
 * pool asking for all columns under it again. */
static double columns_asked(const es_branch *branch, double source_columns)
{
    double asked = 1;
    for (uint32_t s = 0; s < branch->stages.count; s++) {
        es_stage stage;
        es_stage_view(branch, s, &stage);
        if (stage.window != NULL) {
            asked *= (double)stage.window->kernel_h * stage.window->kernel_w;
        } else if (stage.kind == ES_STAGE_MEAN) {
            asked *= source_columns;
        }
    }
    return asked;
}

static double mac_cost(const es_mac *mac)
{
    double cost = (double)mac->geometry->kernel_h * mac->geometry->kernel_w *
                  mac->geometry->in_c;
    for (uint32_t i = 0; i < mac->weights.groups.count; i++) {
        es_row_group group;
        es_row_group_view(&mac->weights, i, &group);
        cost += group.values.count + group.index.count;
    }
    return cost;
}

/* One column of the source. */
static double column_cost(const es_step *step, double channels)
{
    enum { GATE_FUNCTIONS = 100 };
    if (step->source_kind == ES_SOURCE_MAC) {
        es_mac mac;
        es_mac_view(step->source, &mac);
        return channels + mac_cost(&mac);
    }
    if (step->source_kind == ES_SOURCE_LSTM) {
        es_lstm lstm;
        es_lstm_view(step, &lstm);
        return GATE_FUNCTIONS * channels + mac_cost(&lstm.input) +
               mac_cost(&lstm.recurrent);
    }
    if (step->source_kind == ES_SOURCE_SVDF) {
        es_svdf svdf;
        es_svdf_view(step, &svdf);
        return channels + mac_cost(&svdf.feature) + svdf.time.count;
    }
    return channels;
}

static double copy_cost(const es_step *step)
{
    double cost = 1;
    es_copy copy;
    es_copy_view(step, &copy);
    for (uint32_t i = 0; i < copy.dims.count; i++) {
        cost *= copy.dims.data[i];
    }
    return cost;
}

static double step_cost(const es_root *root, uint32_t index)
{
    double cost = 0;
    es_step step;
    uint32_t columns, channels;
    es_step_view(root, index, &step);
    es_step_shape(root, &step, &columns, &channels);
    for (uint32_t b = 0; b < step.branches.count; b++) {
        es_branch branch;
        es_tensor output;
        es_branch_view(&step, b, &branch);
        es_tensor_view(root, branch.output, &output);
        cost += (double)output.place->columns *
                columns_asked(&branch, columns) * column_cost(&step, channels);
        cost += 2.0 * output.place->halo * output.place->phases *
                output.place->channels;
    }
    return step.source_kind == ES_SOURCE_COPY ? cost + copy_cost(&step) : cost;
}

double es_plan_cost(const es_plan *plan)
{
    double cost = 0;
    es_root root;
    es_root_view(plan, &root);
    for (uint32_t i = 0; i < root.steps.count; i++) {
        cost += step_cost(&root, i);
    }
    return cost;
}
