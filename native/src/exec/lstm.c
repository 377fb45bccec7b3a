/* The Lstm source: column after column, gates from two Macs, then the cell.
 *
 * All sums stay inside int32 by I-46 and because gates, cell and what the
 * functions of q15.h give are int16. */
#include "exec/exec.h"
#include "exec/q15.h"
#include "fixedpoint.h"

enum { GATES = 4 };

/* An LSTM at work. */
typedef struct lstm_run {
    es_exec *x;
    es_lstm lstm;
    uint32_t units;
    uint8_t *gates; /* [4 * units] int16: input, forget, candidate, output */
    int8_t *hidden; /* [units] */
    uint8_t *cell;  /* [units] int16 */
    es_writer output;
} lstm_run;

static void start_anew(const lstm_run *run)
{
    const es_ring *rings = run->x->root->rings;
    memset(run->hidden, rings[run->lstm.hidden_ring].zero_point, run->units);
    memset(run->cell, rings[run->lstm.cell_ring].zero_point,
           2 * (size_t)run->units);
}

/* One column of a Mac into the gates. */
static void multiply(const lstm_run *run, const es_mac *mac,
                     const es_reader *from, uint32_t column, bool recurrent)
{
    es_exec *x = run->x;
    es_collect collect = {run->lstm.scales + (recurrent ? GATES : 0),
                          run->units, recurrent, run->gates};
    es_mac_source source = {*mac, NULL, 0, 0};
    x->input = *from;
    x->collect = &collect;
    es_mac_columns(x, &source, &column, 1);
    x->collect = NULL;
}

static int32_t gate(const lstm_run *run, uint32_t number, uint32_t unit)
{
    return es_get_i16(run->gates + 2 * (size_t)(number * run->units + unit));
}

static void update(const lstm_run *run, uint32_t column, uint32_t unit)
{
    const es_lstm *lstm = &run->lstm;
    const es_scaled *hidden = lstm->hidden;
    uint8_t *cell = run->cell + 2 * (size_t)unit;
    int32_t kept =
        es_rdbp(es_logistic_i16(gate(run, 1, unit)) * es_get_i16(cell), 15);
    int32_t fresh = es_logistic_i16(gate(run, 0, unit)) *
                    es_tanh_i16(gate(run, 2, unit), 3);
    int32_t c = es_clamp(kept + es_rdbp(fresh, 15 + lstm->cell_bits), INT16_MIN,
                         INT16_MAX);
    if (lstm->cell_clip) {
        c = es_clamp(c, -lstm->cell_clip, lstm->cell_clip);
    }
    es_put_i16(cell, c);
    int32_t h =
        es_logistic_i16(gate(run, 3, unit)) * es_tanh_i16(c, lstm->cell_bits);
    h = hidden->zero_point +
        es_mbqm_double(h, hidden->multiplier, hidden->shift);
    h = es_clamp(h, INT8_MIN, INT8_MAX);
    run->hidden[unit] = (int8_t)h;
    *es_write_at(&run->output, (int32_t)column, unit) = (int8_t)h;
}

void es_lstm_run(es_exec *x)
{
    lstm_run run;
    es_branch branch;
    const es_ring *rings = x->root->rings;
    run.x = x;
    es_lstm_view(&x->step, &run.lstm);
    es_branch_view(&x->step, 0, &branch);
    const es_ring *hidden = &rings[run.lstm.hidden_ring];
    run.units = hidden->channels;
    run.gates = x->arena + x->step.scratch_offset;
    run.hidden = (int8_t *)x->arena + hidden->offset;
    run.cell = x->arena + rings[run.lstm.cell_ring].offset;
    run.output = es_writer_of(x, branch.output);

    /* What the recurrent Mac reads: the ring of h as a tensor. */
    es_place place = {.pitch = run.units,
                      .columns = 1,
                      .channels = run.units,
                      .phases = 1,
                      .zero_point = hidden->zero_point};
    es_reader back = {run.hidden, {&place, 0, 0}};
    es_reader input = x->input;
    if (run.lstm.anew) {
        start_anew(&run);
    }
    for (uint32_t t = 0; t < run.lstm.input.geometry->out_w; t++) {
        multiply(&run, &run.lstm.input, &input, t, false);
        multiply(&run, &run.lstm.recurrent, &back, 0, true);
        for (uint32_t unit = 0; unit < run.units; unit++) {
            update(&run, t, unit);
        }
    }
}
