/* The tables as views, and where the parts of the state stand. */
#include "plan/fb.h"
#include "stream/stream.h"

#include <stddef.h>

/* The layout in the arena is the same on every machine. */
typedef char es_layout_is_fixed
    [offsetof(es_stream_state, held) == ES_STREAM_HEADER &&
             offsetof(es_front_end_state, past) == ES_FRONT_END_HEADER &&
             offsetof(es_beats_state, share) == ES_BEATS_HEADER &&
             offsetof(es_quality_state, lost) == ES_QUALITY_HEADER
         ? 1
         : -1];

static void front_end_view(const uint8_t *t, es_front_end *view)
{
    view->taps = es_fb_i16s(t, ES_SLOT(FrontEnd, taps));
    view->tap_bits = es_fb_u8(t, ES_SLOT(FrontEnd, tap_bits), 0);
    view->fraction_bits = es_fb_u8(t, ES_SLOT(FrontEnd, fraction_bits), 0);
    view->decimation = es_fb_u16(t, ES_SLOT(FrontEnd, decimation));
    view->dc_shift = es_fb_u8(t, ES_SLOT(FrontEnd, dc_shift), 0);
    view->multiplier = es_fb_i32(t, ES_SLOT(FrontEnd, multiplier));
    view->shift = es_fb_u8(t, ES_SLOT(FrontEnd, shift), 0);
}

static void beats_view(const uint8_t *t, es_beats *view)
{
    view->probability = es_fb_u16s(t, ES_SLOT(Beats, probability));
    view->power = es_fb_u16s(t, ES_SLOT(Beats, power));
    view->p_bits = es_fb_u8(t, ES_SLOT(Beats, p_bits), 0);
    view->threshold = es_fb_u32(t, ES_SLOT(Beats, threshold));
    view->position_shift = es_fb_i32(t, ES_SLOT(Beats, position_shift));
    view->refractory = es_fb_u32(t, ES_SLOT(Beats, refractory));
}

static void quality_view(const uint8_t *t, es_quality *view)
{
    view->flat_range = es_fb_u16(t, ES_SLOT(Quality, flat_range));
    view->flat_samples = es_fb_u32(t, ES_SLOT(Quality, flat_samples));
    view->saturation = es_fb_u16(t, ES_SLOT(Quality, saturation));
    view->saturated_samples = es_fb_u32(t, ES_SLOT(Quality, saturated_samples));
    view->missing_run = es_fb_u32(t, ES_SLOT(Quality, missing_run));
    view->missing_window = es_fb_u16(t, ES_SLOT(Quality, missing_window));
    view->missing_most = es_fb_u16(t, ES_SLOT(Quality, missing_most));
    view->noise_samples = es_fb_u16(t, ES_SLOT(Quality, noise_samples));
    view->noise_limit = es_fb_u16(t, ES_SLOT(Quality, noise_limit));
    view->recover_samples = es_fb_u32(t, ES_SLOT(Quality, recover_samples));
    view->settle_samples = es_fb_u32(t, ES_SLOT(Quality, settle_samples));
    view->guard_samples = es_fb_u32(t, ES_SLOT(Quality, guard_samples));
    view->noise_margin = es_fb_u16(t, ES_SLOT(Quality, noise_margin));
    view->missing_margin = es_fb_u16(t, ES_SLOT(Quality, missing_margin));
}

bool es_stream_view(const es_root *root, es_stream_table *view)
{
    const uint8_t *t = root->stream, *part;

    if (t == NULL) {
        return false;
    }
    view->mode = es_fb_u8(t, ES_SLOT(Stream, mode), 0);
    view->rate_mhz = es_fb_u32(t, ES_SLOT(Stream, rate_mhz));
    view->hop = es_fb_u32(t, ES_SLOT(Stream, hop));
    view->window = es_fb_u32(t, ES_SLOT(Stream, window));
    view->lead = es_fb_u32(t, ES_SLOT(Stream, lead));
    view->first_run = es_fb_u32(t, ES_SLOT(Stream, first_run));
    view->stride = es_fb_u32(t, ES_SLOT(Stream, stride));
    view->behind = es_fb_u32(t, ES_SLOT(Stream, behind));
    view->exact = es_fb_u32(t, ES_SLOT(Stream, exact));
    view->delay = es_fb_u32(t, ES_SLOT(Stream, delay));
    view->state_offset = es_fb_u32(t, ES_SLOT(Stream, state_offset));
    part = es_fb_table(t, ES_SLOT(Stream, front_end));
    view->has_front_end = part != NULL;
    view->front_end.decimation = 1;
    if (ES_HAS_FRONT_END && part != NULL) {
        front_end_view(part, &view->front_end);
    }
    part = es_fb_table(t, ES_SLOT(Stream, beats));
    view->has_beats = part != NULL;
    if (ES_HAS_BEATS && part != NULL) {
        beats_view(part, &view->beats);
    }
    part = es_fb_table(t, ES_SLOT(Stream, quality));
    view->has_quality = part != NULL;
    if (ES_HAS_QUALITY && part != NULL) {
        quality_view(part, &view->quality);
    }
    return true;
}

static uint64_t round_up_8(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static uint64_t header_bytes(uint32_t channels)
{
    return round_up_8(ES_STREAM_HEADER + (uint64_t)2 * channels);
}

static uint64_t front_end_bytes(const es_stream_table *t)
{
    return t->has_front_end ? round_up_8(ES_FRONT_END_HEADER +
                                         (uint64_t)2 * t->front_end.taps.count)
                            : 0;
}

static uint64_t beats_bytes(const es_stream_table *t, uint32_t classes)
{
    return t->has_beats ? round_up_8(ES_BEATS_HEADER +
                                     (uint64_t)2 * ES_BEAT_STEPS * classes)
                        : 0;
}

uint64_t es_stream_bytes(const es_stream_table *t, uint32_t channels,
                         uint32_t classes)
{
    uint64_t quality =
        t->has_quality
            ? round_up_8(ES_QUALITY_HEADER + t->quality.missing_window / 8u)
            : 0;
    return header_bytes(channels) + front_end_bytes(t) +
           beats_bytes(t, classes) + quality;
}

bool es_stream_begin(es_stream_session *s, es_session *session,
                     es_result_fn on_result, void *user)
{
    es_tensor input, output;
    uint8_t *at;

    es_root_view(session->plan, &s->root);
    if (!es_stream_view(&s->root, &s->table)) {
        return false;
    }
    es_tensor_view(&s->root, es_io_tensor(s->root.inputs, 0), &input);
    es_tensor_view(&s->root, es_io_tensor(s->root.outputs, 0), &output);
    s->session = session;
    s->channels = input.place->channels;
    s->classes = output.place->channels - 1;
    s->zero_point = input.place->zero_point;
    s->input = (int8_t *)session->arena + input.place->offset;
    s->logits = (const int8_t *)session->arena + output.place->offset;
    s->on_result = on_result;
    s->user = user;
    s->status = ES_OK;

    /* I-70: state_offset is a multiple of 8, and so is every part. */
    at = session->arena + s->table.state_offset;
    s->state = (es_stream_state *)(void *)at;
    at += header_bytes(s->channels);
    s->front_end =
        s->table.has_front_end ? (es_front_end_state *)(void *)at : NULL;
    at += front_end_bytes(&s->table);
    s->beats = s->table.has_beats ? (es_beats_state *)(void *)at : NULL;
    at += beats_bytes(&s->table, s->classes);
    s->quality = s->table.has_quality ? (es_quality_state *)(void *)at : NULL;
    return true;
}
