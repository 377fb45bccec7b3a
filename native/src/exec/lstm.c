/* The Lstm source: column after column, gates from two Macs, then the cell.
 *
 * All sums stay inside int32 by I-46 and because gates, cell and what the
 * functions of q15.h give are int16. */
#include "exec/exec.h"
#include "exec/q15.h"
#include "elementwise.h"

enum { INPUT, FORGET, CANDIDATE, OUTPUT, GATES };

/* An LSTM at work. */
typedef struct lstm_run {
    es_lstm lstm;
    uint32_t units;
    uint8_t *gates; /* [4 * units] int16: input, forget, candidate, output */
    int8_t *hidden; /* [units] */
    uint8_t *cell;  /* [units] int16 */
    es_writer output;
} lstm_run;

static void update(const lstm_run *run, uint32_t column, uint32_t unit)
{
    const es_lstm *lstm = &run->lstm;
    const es_scaled *hidden = lstm->hidden;
    uint8_t *cell = run->cell + 2 * (size_t)unit;
    const uint8_t *sums = run->gates + 2 * (size_t)unit;
    int32_t gate[GATES];
    for (int i = 0; i < GATES; i++, sums += 2 * (size_t)run->units) {
        int32_t sum = es_get_i16(sums);
        gate[i] = i == CANDIDATE ? es_tanh_i16(sum, 3) : es_logistic_i16(sum);
    }
    int32_t c = es_rdbp(gate[FORGET] * es_get_i16(cell), 15) +
                es_rdbp(gate[INPUT] * gate[CANDIDATE], 15 + lstm->cell_bits);
    c = es_clamp(c, INT16_MIN, INT16_MAX);
    if (lstm->cell_clip) {
        c = es_clamp(c, -lstm->cell_clip, lstm->cell_clip);
    }
    es_put_i16(cell, c);
    int32_t h = es_scale(gate[OUTPUT] * es_tanh_i16(c, lstm->cell_bits), hidden,
                         ES_ROUND_DOUBLE);
    h = es_clamp(hidden->zero_point + h, INT8_MIN, INT8_MAX);
    run->hidden[unit] = (int8_t)h;
    *es_write_at(&run->output, (int32_t)column, unit) = (int8_t)h;
}

void es_lstm_run(es_exec *x)
{
    lstm_run run;
    es_branch branch;
    const es_ring *rings = x->root->rings;
    es_lstm_view(&x->step, &run.lstm);
    es_branch_view(&x->step, 0, &branch);
    const es_ring *hidden = &rings[run.lstm.hidden_ring];
    const es_ring *cell = &rings[run.lstm.cell_ring];
    run.units = hidden->channels;
    run.gates = x->arena + x->step.scratch_offset;
    run.hidden = (int8_t *)x->arena + hidden->offset;
    run.cell = x->arena + cell->offset;
    run.output = es_writer_of(x, branch.output);

    /* What the recurrent Mac reads: the ring of h as a tensor. */
    es_place place = {.pitch = run.units,
                      .columns = 1,
                      .channels = run.units,
                      .phases = 1,
                      .zero_point = hidden->zero_point};
    es_reader back = {run.hidden, {&place, 0, 0}};
    es_reader input = x->input;
    es_collect given = {run.lstm.scales, run.units, false, run.gates};
    es_collect added = {run.lstm.scales + GATES, run.units, true, run.gates};
    if (run.lstm.anew) {
        memset(run.hidden, hidden->zero_point, run.units);
        memset(run.cell, cell->zero_point, cell->channels);
    }
    for (uint32_t t = 0; t < run.lstm.input.geometry->out_w; t++) {
        x->input = input;
        es_mac_collect(x, &run.lstm.input, t, &given);
        x->input = back;
        es_mac_collect(x, &run.lstm.recurrent, 0, &added);
        for (uint32_t unit = 0; unit < run.units; unit++) {
            update(&run, t, unit);
        }
    }
}
