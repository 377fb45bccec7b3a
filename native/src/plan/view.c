#include "plan/view.h"

#include "plan/fb.h"

/* An absent index: somewhere to point, nothing to read. */
static const uint8_t no_bytes[1] = {0};

void es_root_view(const es_plan *plan, es_root *view)
{
    const uint8_t *t = plan->bytes + plan->root;
    const uint8_t *golden = es_fb_table(t, ES_SLOT(Plan, golden));
    es_bytes rings = es_fb_bytes(t, ES_SLOT(Plan, rings));
    es_bytes none = {NULL, 0};

    view->format = es_fb_u16(t, ES_SLOT(Plan, format));
    view->config = es_fb_u32(t, ES_SLOT(Plan, config));
    view->state_bytes = es_fb_u32(t, ES_SLOT(Plan, state_bytes));
    view->arena_bytes = es_fb_u32(t, ES_SLOT(Plan, arena_bytes));
    view->tensors = es_fb_tables(t, ES_SLOT(Plan, tensors));
    view->steps = es_fb_tables(t, ES_SLOT(Plan, steps));
    view->inputs = es_fb_tables(t, ES_SLOT(Plan, inputs));
    view->outputs = es_fb_tables(t, ES_SLOT(Plan, outputs));
    view->rings = (const es_ring *)(const void *)rings.data;
    view->ring_count = rings.count;
    view->has_golden = golden != NULL;
    view->golden_seed = 0;
    view->golden_trace_crc = 0;
    view->golden_outputs = none;
    if (golden != NULL) {
        view->golden_seed = es_fb_u32(golden, ES_SLOT(Golden, seed));
        view->golden_trace_crc = es_fb_u32(golden, ES_SLOT(Golden, trace_crc));
        view->golden_outputs = es_fb_bytes(golden, ES_SLOT(Golden, outputs));
    }
    view->source_sha256 = es_fb_bytes(t, ES_SLOT(Plan, source_sha256));
    view->stream = es_fb_table(t, ES_SLOT(Plan, stream));
    view->npu = es_fb_table(t, ES_SLOT(Plan, npu));
}

const es_place *es_tensor_place(const es_root *root, uint32_t index,
                                const uint8_t **data)
{
    es_fb t = es_fb_open(es_fb_element(root->tensors, index));
    if (data) {
        *data = es_fb_get_bytes(&t, ES_SLOT(Tensor, data)).data;
    }
    return (const es_place *)(const void *)es_fb_get(&t,
                                                     ES_SLOT(Tensor, place));
}

void es_tensor_view(const es_root *root, uint32_t index, es_tensor *view)
{
    es_fb t = es_fb_open(es_fb_element(root->tensors, index));
    view->place =
        (const es_place *)(const void *)es_fb_get(&t, ES_SLOT(Tensor, place));
    view->shape = es_fb_as_u32s(es_fb_get_bytes(&t, ES_SLOT(Tensor, shape)));
    view->data = es_fb_get_bytes(&t, ES_SLOT(Tensor, data));
}

void es_step_view(const es_root *root, uint32_t index, es_step *view)
{
    es_fb t = es_fb_open(es_fb_element(root->steps, index));
    view->input = es_fb_get_u16(&t, ES_SLOT(Step, input));
    view->source_kind = es_fb_get_u8(&t, ES_SLOT(Step, source_type));
    view->source = es_fb_get_table(&t, ES_SLOT(Step, source));
    view->branches =
        es_fb_as_tables(es_fb_get_bytes(&t, ES_SLOT(Step, branches)));
    view->scratch_offset = es_fb_get_u32(&t, ES_SLOT(Step, scratch_offset));
    view->scratch_bytes = es_fb_get_u32(&t, ES_SLOT(Step, scratch_bytes));
}

void es_branch_view(const es_step *step, uint32_t index, es_branch *view)
{
    es_fb t = es_fb_open(es_fb_element(step->branches, index));
    view->first_channel = es_fb_get_u32(&t, ES_SLOT(Branch, first_channel));
    view->channels = es_fb_get_u32(&t, ES_SLOT(Branch, channels));
    view->output = es_fb_get_u16(&t, ES_SLOT(Branch, output));
    view->stages =
        es_fb_as_tables(es_fb_get_bytes(&t, ES_SLOT(Branch, stages)));
}

/* A field of a RowGroup that is 1 when it is absent. */
static uint8_t size_of_block(const es_fb *t, uint32_t slot)
{
    const uint8_t *field = es_fb_get(t, slot);
    return field == NULL ? 1 : *field;
}

static void rows_view(const uint8_t *table, es_row_group *view)
{
    es_fb t = es_fb_open(table);
    view->row_count = es_fb_get_u32(&t, ES_SLOT(RowGroup, row_count));
    view->encoding = es_fb_get_u8(&t, ES_SLOT(RowGroup, encoding));
    view->block_rows = size_of_block(&t, ES_SLOT(RowGroup, block_rows));
    view->block_cols = size_of_block(&t, ES_SLOT(RowGroup, block_cols));
    view->index_bits = es_fb_get_u8(&t, ES_SLOT(RowGroup, index_bits));
    view->values = es_fb_as_i8s(es_fb_get_bytes(&t, ES_SLOT(RowGroup, values)));
    view->index = es_fb_get_bytes(&t, ES_SLOT(RowGroup, index));
    if (view->index.data == NULL) {
        view->index.data = no_bytes;
    }
}

void es_only_group_view(const es_weights *weights, es_row_group *view)
{
    rows_view(es_fb_element(weights->groups, 0), view);
}

void es_row_group_view(const es_weights *weights, uint32_t index,
                       es_row_group *view)
{
    const uint8_t *table = es_fb_element(weights->groups, index);
    es_fb t = es_fb_open(table);
    rows_view(table, view);
    view->first_row = es_fb_get_u32(&t, ES_SLOT(RowGroup, first_row));
    if (!ES_TRUST_PLAN) { /* only checks look at it */
        view->nnz = es_fb_get_u32(&t, ES_SLOT(RowGroup, nnz));
    }
    if (ES_HAS_NM || ES_HAS_LANES || !ES_TRUST_PLAN) {
        view->packing = es_fb_get_u8(&t, ES_SLOT(RowGroup, packing));
        view->n = es_fb_get_u8(&t, ES_SLOT(RowGroup, n));
        view->m = es_fb_get_u8(&t, ES_SLOT(RowGroup, m));
    }
}

uint16_t es_io_tensor(es_tables ios, uint32_t index)
{
    return es_fb_u16(es_fb_element(ios, index), ES_SLOT(Io, tensor));
}

/* ---- what follows from the views ---- */

bool es_stage_pools(uint8_t kind)
{
    return (ES_HAS_MAX_POOL && kind == ES_STAGE_MAX_POOL) ||
           (ES_HAS_AVG_POOL && kind == ES_STAGE_AVG_POOL) ||
           (ES_HAS_MEAN && kind == ES_STAGE_MEAN);
}

static bool step_pools(const es_step *step)
{
    es_branch branch;
    es_stage stage;
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch_view(step, b, &branch);
        for (uint32_t s = 0; s < branch.stages.count; s++) {
            es_stage_view(&branch, s, &stage);
            if (es_stage_pools(stage.kind)) {
                return true;
            }
        }
    }
    return false;
}

void es_step_shape(const es_root *root, const es_step *step, uint32_t *columns,
                   uint32_t *channels)
{
    es_branch branch;
    es_tensor input, output;

    if (ES_HAS_MAC && step->source_kind == ES_SOURCE_MAC) {
        es_mac mac;
        es_mac_view(step->source, &mac);
        *columns = (uint32_t)mac.geometry->out_h * mac.geometry->out_w;
        *channels = mac.geometry->rows;
        return;
    }
    if (ES_HAS_LSTM && step->source_kind == ES_SOURCE_LSTM) {
        es_lstm lstm;
        es_lstm_view(step, &lstm);
        *columns = lstm.input.geometry->out_w;
        *channels = lstm.recurrent.geometry->in_c;
        return;
    }
    if (ES_HAS_SVDF && step->source_kind == ES_SOURCE_SVDF) {
        es_svdf svdf;
        es_svdf_view(step, &svdf);
        *columns = 1;
        *channels = svdf.bias.count;
        return;
    }
    es_branch_view(step, 0, &branch);
    es_tensor_view(root, branch.output, &output);
    if (ES_HAS_COPY && step->source_kind == ES_SOURCE_COPY) {
        *columns = output.place->columns;
        *channels = output.place->channels;
        return;
    }
    if (!ES_HAS_LOAD) {
        *columns = *channels = 0; /* no other kind is built */
        return;
    }
    es_tensor_view(root, step->input, &input);
    *columns = input.place->columns;
    *channels = input.place->channels;
    if (*columns == 1 && !step_pools(step)) {
        *columns = output.place->columns;
    }
    if (*channels == 1) {
        *channels = 0;
        for (uint32_t b = 0; b < step->branches.count; b++) {
            es_branch_view(step, b, &branch);
            *channels += branch.channels;
        }
    }
}

static uint64_t round_up_4(uint64_t bytes)
{
    return (bytes + 3) & ~(uint64_t)3;
}

/* Whether taps of so many positions, strides and so on end inside. Both
 * products are below 2^32. */
static bool ends_inside(uint32_t out, uint32_t stride, uint32_t kernel,
                        uint32_t dilation, uint32_t in)
{
    uint32_t first = (out - 1) * stride, rest = (kernel - 1) * dilation;
    return first < in && rest < in - first;
}

bool es_mac_in_place(const es_place *input, const es_geometry *g)
{
    if (input->layout != ES_LAYOUT_NWC || g->kernel_h != 1) {
        return false;
    }
    /* A position is one column, or columns that follow each other. */
    if (g->kernel_w != 1 &&
        (g->dilation_w != 1 || input->pitch != g->in_c || input->ring >= 0)) {
        return false;
    }
    return g->pad_top == 0 && g->pad_left == 0 &&
           ends_inside(g->out_h, g->stride_h, 1, 1, g->in_h) &&
           ends_inside(g->out_w, g->stride_w, g->kernel_w, g->dilation_w,
                       g->in_w);
}

static uint64_t patch_bytes(const es_place *place, const es_geometry *g)
{
    uint64_t positions = (uint64_t)g->out_h * g->out_w;

    if (es_mac_in_place(place, g)) {
        return 0;
    }
    if (positions > 4) {
        positions = 4;
    }
    return positions * g->kernel_h * g->kernel_w * g->in_c;
}

/* Bytes the stages of one branch need. */
static uint64_t branch_scratch(const es_branch *branch)
{
    uint64_t bytes = 0;
    es_stage stage;
    for (uint32_t s = 0; s < branch->stages.count; s++) {
        es_stage_view(branch, s, &stage);
        if (stage.kind == ES_STAGE_AVG_POOL || stage.kind == ES_STAGE_MEAN) {
            bytes += (uint64_t)branch->channels * 4; /* int32 sums */
        } else if (stage.kind == ES_STAGE_MAX_POOL ||
                   stage.kind == ES_STAGE_SOFTMAX) {
            bytes += round_up_4(branch->channels);
        }
    }
    return bytes;
}

static uint32_t saturate(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

uint32_t es_step_scratch(const es_root *root, const es_step *step)
{
    uint64_t patches = 0, most = 0;
    if (ES_HAS_PATCHES && step->source_kind == ES_SOURCE_MAC) {
        es_mac mac;
        es_mac_view(step->source, &mac);
        const es_place *input = es_tensor_place(root, step->input, NULL);
        patches = round_up_4(patch_bytes(input, mac.geometry));
    } else if (ES_HAS_LSTM && step->source_kind == ES_SOURCE_LSTM) {
        es_lstm lstm;
        es_lstm_view(step, &lstm);
        patches = (uint64_t)2 * lstm.recurrent.geometry->rows; /* gates */
    }
    for (uint32_t b = 0; b < step->branches.count; b++) {
        es_branch branch;
        uint64_t bytes;
        es_branch_view(step, b, &branch);
        bytes = branch_scratch(&branch);
        if (bytes > most) {
            most = bytes;
        }
    }
    return saturate(patches + most);
}

uint32_t es_mac_patch_bytes(const es_place *input, const es_geometry *g)
{
    return saturate(patch_bytes(input, g));
}
