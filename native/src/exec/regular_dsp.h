/* What the files of the regular steps' DSP kernel give each other. */
#ifndef ES_REGULAR_DSP_H
#define ES_REGULAR_DSP_H

#include "exec/kernels.h"

/* x0 + x1 * 2^23 fits int32, and a sum of 255 products of x0 22 bits. */
enum { ES_DSP_PAIR_BITS = 23 };

/* Sums that are kept at a time; of rows a multiple of what blocks have. */
enum { ES_DSP_SUMS = 64 };

/* Four columns of inputs as words of two int16, K' rounded up to a multiple of
 * four: [K' / 4][4 columns][(0, 2), (1, 3)]. Scratch that a target asks for. */
static inline uint32_t es_dsp_groups(const es_regular *step)
{
    return (step->patch + 3) / 4;
}

/* Columns that are computed together, and what is known of their sums. */
typedef struct es_dsp_tile {
    const es_regular *step;
    uint32_t width; /* 1, 2 or 4: sums are [rows][width] */
    uint32_t count; /* of them, those that are columns of the output */
    int8_t *output[ES_TILE_COLUMNS];
    const int8_t *operand[ES_TILE_COLUMNS];
    int32_t sums[ES_DSP_SUMS];
} es_dsp_tile;

/* Set count, output and operand: the columns from `first` on. */
void es_dsp_set_columns(es_dsp_tile *tile, uint32_t first);

/* The sums of rows [row, row + rows) to their places, scaled and added. */
void es_dsp_finish(const es_dsp_tile *tile, uint32_t row, uint32_t rows);

/* An Add of `count` values; es_dsp_finishes says of which stages. */
void es_dsp_add(const es_stage *stage, const int8_t *values,
                const int8_t *operand, int8_t *to, uint32_t count);

/* Whether es_dsp_finish can do what comes after the sums. */
bool es_dsp_finishes(const es_regular *step);

/* As es_regular_patch. */
const int8_t *es_dsp_patch(const es_regular *step, uint32_t column, int8_t *to);
/* Four patches as above; where inputs are missing, zero points. */
void es_dsp_widen(const es_regular *step, uint32_t first, uint32_t *to);
/* Two patches as [K'] x0 + x1 * 2^23. */
void es_dsp_pair(const es_regular *step, uint32_t first, int32_t *to);

/* sums[i] += row i of a dense matrix times a patch. */
void es_dsp_one_column(const int8_t *w, uint32_t rows, uint32_t cols,
                       const int8_t *x, int32_t *sums);

bool es_dsp_depthwise(const es_regular *step);

es_regular_kernel es_regular__dsp; /* not in the list where there is Helium */

#endif /* ES_REGULAR_DSP_H */
