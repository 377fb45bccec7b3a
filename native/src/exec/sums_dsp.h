/* Sums of rows, for the regular steps' DSP kernel. */
#ifndef ES_SUMS_DSP_H
#define ES_SUMS_DSP_H

#include <stdint.h>

/* A matrix that rows are taken from, one after the other, and what they are
 * multiplied with. */
typedef struct es_dsp_work {
    uint32_t cols;
    const void *inputs;
    const int8_t *value;           /* of the next row */
    const uint8_t *count, *column; /* blocks: how many, and where */
} es_dsp_work;

/* What the next `rows` rows do: sums that start from their biases. */
typedef void es_dsp_sums(es_dsp_work *at, uint32_t rows, const int32_t *bias,
                         int32_t *sums);

/* Of a patch, inputs as es_dsp_patch gives them. */
es_dsp_sums es_dsp_dense_one, es_dsp_square_one, es_dsp_tall_one;
/* Of two, as es_dsp_pair; of so many blocks at most. */
enum { ES_DSP_MOST_BLOCKS = 255 };
es_dsp_sums es_dsp_tall_two;
/* Of four, as es_dsp_widen. */
es_dsp_sums es_dsp_dense_four, es_dsp_wide_1, es_dsp_wide_2, es_dsp_wide_4;

#endif /* ES_SUMS_DSP_H */
