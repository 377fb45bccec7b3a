/* The inner loops of a Mac: sums over a few columns at once. */
#ifndef ES_DOT_H
#define ES_DOT_H

#include "exec/exec.h"
#include "weights/weights.h"

/* What they multiply with, and where the sums go. */
typedef struct es_dot_job {
    const int8_t *x[ES_TILE_COLUMNS]; /* a patch per column, [K'] int8 */
    uint32_t columns;
    int8_t zero;                        /* subtracted from every x; FOLDED: 0 */
    int32_t (*value)[ES_TILE_CHANNELS]; /* [columns] */
} es_dot_job;

/* value[p][r] += sum over i < n of w[i] * (x[p][at + i] - zero) */
void es_dot_row(const es_dot_job *job, uint32_t r, const int8_t *w, uint32_t at,
                uint32_t n);

/* The same for the blocks of a batch: `w` is their row that belongs to r, and
 * their columns are places in a patch. */
void es_dot_blocks(const es_dot_job *job, uint32_t r, const int8_t *w,
                   const es_batch *batch);

/* value[p][r] += sum over t < taps of
 *     w[r * taps + t] * (x[p][t * pitch + at + r] - zero), r < rows */
void es_dot_depthwise(const es_dot_job *job, uint32_t rows, const int8_t *w,
                      uint32_t taps, uint32_t pitch, uint32_t at);

#endif /* ES_DOT_H */
