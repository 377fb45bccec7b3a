/* Copy: a box of elements from one tensor to places in another. */
#include "exec/exec.h"

static const int8_t *element(const es_reader *from, uint32_t number)
{
    uint32_t channels = from->map.place->channels;
    return es_read_at(from, (int32_t)(number / channels), number % channels);
}

static int8_t *target(const es_writer *to, uint32_t number)
{
    uint32_t channels = to->map.place->channels;
    return es_write_at(to, (int32_t)(number / channels), number % channels);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Elements that stand side by side from `number` on, at most `count`. */
static uint32_t run_length(const es_place *place, uint32_t number,
                           uint32_t count)
{
    if (place->layout != ES_LAYOUT_NWC) {
        return 1;
    }
    return least(count, place->channels - number % place->channels);
}

/* `count` elements with consecutive numbers on both sides. */
static void copy_row(const es_reader *from, uint32_t in, const es_writer *to,
                     uint32_t out, uint32_t count)
{
    while (count > 0) {
        uint32_t n = run_length(from->map.place, in, count);
        n = run_length(to->map.place, out, n);
        memcpy(target(to, out), element(from, in), n);
        in += n;
        out += n;
        count -= n;
    }
}

static void fill(const es_writer *to, int8_t value)
{
    const es_place *place = to->map.place;
    for (uint32_t column = 0; column < place->columns; column++) {
        for (uint32_t channel = 0; channel < place->channels; channel++) {
            *es_write_at(to, (int32_t)column, channel) = value;
        }
    }
}

/* Every address is inside both tensors (I-34), but a stride of a dimension of
 * size 1 may be anything: unsigned arithmetic wraps around and comes back. */
void es_copy_run(const es_exec *x)
{
    es_copy copy;
    es_branch branch;
    es_copy_view(&x->step, &copy);
    es_branch_view(&x->step, 0, &branch);
    es_writer to = es_writer_of(x, branch.output);
    if (copy.fill) {
        fill(&to, copy.fill_value);
    }
    uint32_t last = copy.dims.count - 1, at[6] = {0};
    uint32_t in = (uint32_t)copy.in_offset, out = (uint32_t)copy.out_offset;
    uint32_t in_stride = (uint32_t)copy.in_strides.data[last];
    uint32_t out_stride = (uint32_t)copy.out_strides.data[last];
    uint32_t row = copy.dims.data[last];
    for (;;) {
        if (in_stride == 1 && out_stride == 1) {
            copy_row(&x->input, in, &to, out, row);
        } else {
            for (uint32_t i = 0; i < row; i++) {
                *target(&to, out + i * out_stride) =
                    *element(&x->input, in + i * in_stride);
            }
        }
        uint32_t k = last;
        for (;;) { /* the next index of the outer dimensions */
            if (k == 0) {
                return;
            }
            k--;
            in += (uint32_t)copy.in_strides.data[k];
            out += (uint32_t)copy.out_strides.data[k];
            if (++at[k] < copy.dims.data[k]) {
                break;
            }
            in -= copy.dims.data[k] * (uint32_t)copy.in_strides.data[k];
            out -= copy.dims.data[k] * (uint32_t)copy.out_strides.data[k];
            at[k] = 0;
        }
    }
}
