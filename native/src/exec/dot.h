/* The inner loops of a Mac: sums over the patches of a few columns at once. */
#ifndef ES_DOT_H
#define ES_DOT_H

#include "exec/exec.h"
#include "weights/weights.h"

/* What a row is multiplied with: the patches, and how they are laid out. */
typedef struct es_dot_job {
    es_tile *tile; /* its columns are the patches, its values the sums */
    const int8_t *x[ES_TILE_COLUMNS]; /* a patch per column, [K'] int8 */
    int8_t zero;                      /* subtracted from every x; FOLDED: 0 */
    uint32_t pitch;                   /* in_c: from tap to tap */
    /* Of a convolution group: rows that it gives, channels that it takes. */
    uint32_t group_rows, group_channels;
} es_dot_job;

/* tile row r += a row of weights over columns [col, col + cols) of the matrix.
 */
void es_dot_row(const es_dot_job *job, uint32_t r, const int8_t *w,
                uint32_t col, uint32_t cols);

/* The same for `rows` whole rows, tile rows r, r + 1, ... */
void es_dot_rows(const es_dot_job *job, uint32_t r, uint32_t rows,
                 const int8_t *w, uint32_t cols);

/* Tile rows r, r + 1, ... += what is stored of the iterator's row block. */
void es_dot_row_block(const es_dot_job *job, uint32_t r, es_weight_iter *it);

/* value[p][r] += sum over i < n of w[i] * (x[p][at + i] - zero) */
void es_dot_side_by_side(const es_dot_job *job, uint32_t r, const int8_t *w,
                         uint32_t at, uint32_t n);

/* Whether es_dot_lanes becomes vector code. Where it does not, its sums do not
 * fit the registers: 10 instructions a product on an M4, and 4 row by row. */
#if defined(__SSE2__) || defined(__ARM_NEON)
enum { ES_DOT_HAS_LANES = 1 };
#else
enum { ES_DOT_HAS_LANES = 0 };
#endif

/* Tile rows r, r + 1, ... += a batch of blocks of 16 rows and one column, rows
 * one apart. */
void es_dot_lanes(const es_dot_job *job, uint32_t r, const es_batch *batch);
/* The same where row l reads channel (that of row r) + l: depthwise. */
void es_dot_channels(const es_dot_job *job, uint32_t r, const es_batch *batch);

#endif /* ES_DOT_H */
