/* The kinds of source that have fields. */
#include "plan/fb.h"

void es_mac_view(const uint8_t *table, es_mac *view)
{
    es_fb t = es_fb_open(table);
    es_fb w = es_fb_open(es_fb_get_table(&t, ES_SLOT(Mac, weights)));
    view->geometry = (const es_geometry *)(const void *)es_fb_get(
        &t, ES_SLOT(Mac, geometry));
    view->bias = es_fb_as_i32s(es_fb_get_bytes(&t, ES_SLOT(Mac, bias)));
    view->bias_form = es_fb_get_u8(&t, ES_SLOT(Mac, bias_form));
    view->weights.rows = es_fb_get_u32(&w, ES_SLOT(Weights, rows));
    view->weights.cols = es_fb_get_u32(&w, ES_SLOT(Weights, cols));
    view->weights.row_order =
        es_fb_as_u16s(es_fb_get_bytes(&w, ES_SLOT(Weights, row_order)));
    view->weights.groups =
        es_fb_as_tables(es_fb_get_bytes(&w, ES_SLOT(Weights, groups)));
}

void es_copy_view(const es_step *step, es_copy *view)
{
    const uint8_t *t = step->source;
    view->dims = es_fb_u32s(t, ES_SLOT(Copy, dims));
    view->in_offset = es_fb_i32(t, ES_SLOT(Copy, in_offset));
    view->in_strides = es_fb_i32s(t, ES_SLOT(Copy, in_strides));
    view->out_offset = es_fb_i32(t, ES_SLOT(Copy, out_offset));
    view->out_strides = es_fb_i32s(t, ES_SLOT(Copy, out_strides));
    view->fill = es_fb_u8(t, ES_SLOT(Copy, fill), 0) != 0;
    view->fill_value = es_fb_i8(t, ES_SLOT(Copy, fill_value));
}

static const es_scaled *scaled(const uint8_t *t, uint32_t slot)
{
    return (const es_scaled *)(const void *)es_fb_field(t, slot);
}

void es_lstm_view(const es_step *step, es_lstm *view)
{
    const uint8_t *t = step->source;
    es_bytes scales = es_fb_bytes(t, ES_SLOT(Lstm, scales));
    es_mac_view(es_fb_table(t, ES_SLOT(Lstm, input)), &view->input);
    es_mac_view(es_fb_table(t, ES_SLOT(Lstm, recurrent)), &view->recurrent);
    view->scales = (const es_scaled *)(const void *)scales.data;
    view->scale_count = scales.count;
    view->hidden = scaled(t, ES_SLOT(Lstm, hidden));
    view->cell_bits = es_fb_u8(t, ES_SLOT(Lstm, cell_bits), 0);
    view->cell_clip = (int16_t)es_fb_u16(t, ES_SLOT(Lstm, cell_clip));
    view->hidden_ring = es_fb_u16(t, ES_SLOT(Lstm, hidden_ring));
    view->cell_ring = es_fb_u16(t, ES_SLOT(Lstm, cell_ring));
    view->anew = es_fb_u8(t, ES_SLOT(Lstm, anew), 0) != 0;
}

void es_svdf_view(const es_step *step, es_svdf *view)
{
    const uint8_t *t = step->source;
    es_mac_view(es_fb_table(t, ES_SLOT(Svdf, feature)), &view->feature);
    view->scale = scaled(t, ES_SLOT(Svdf, scale));
    view->time = es_fb_i16s(t, ES_SLOT(Svdf, time));
    view->bias = es_fb_i32s(t, ES_SLOT(Svdf, bias));
    view->ring = es_fb_u16(t, ES_SLOT(Svdf, ring));
}

uint32_t es_step_rings(const es_step *step, uint16_t rings[2])
{
    if (ES_HAS_LSTM && step->source_kind == ES_SOURCE_LSTM) {
        rings[0] = es_fb_u16(step->source, ES_SLOT(Lstm, hidden_ring));
        rings[1] = es_fb_u16(step->source, ES_SLOT(Lstm, cell_ring));
        return 2;
    }
    if (ES_HAS_SVDF && step->source_kind == ES_SOURCE_SVDF) {
        rings[0] = es_fb_u16(step->source, ES_SLOT(Svdf, ring));
        return 1;
    }
    return 0;
}
