/* What the kernels of blocks share. The index of four blocks, or sixteen, is a
 * vector, which gathers their inputs; LETP ends the lanes where the blocks of a
 * row block end. */
#ifndef ES_MVE_BLOCKS_H
#define ES_MVE_BLOCKS_H

#include "exec/mve_mac.h"
#include "weights/encoding.h"

/* Where the walk over a group stands. */
typedef struct es_mve_walk {
    const uint8_t *count, *index; /* of blocks, u16; their columns */
    const int8_t *w;
    bool wide; /* columns of 16 bits */
} es_mve_walk;

static inline es_mve_walk es_mve_walk_begin(const es_row_group *group)
{
    const uint32_t height = group->block_rows;
    const uint32_t block_rows = (group->row_count + height - 1) / height;
    es_mve_walk at = {group->index.data, group->index.data + 2 * block_rows,
                      group->values.data, group->index_bits == 16};
    return at;
}

/* Blocks of the row block. */
static inline uint32_t es_mve_walk_count(const es_mve_walk *at)
{
    return es_index_u16(at->count, 0);
}

/* To the next row block, past n blocks of so many weights. */
static inline void es_mve_walk_past(es_mve_walk *at, uint32_t n, uint32_t block)
{
    at->count += 2;
    at->index += n << at->wide;
    at->w += n * block;
}

/* A loop over n blocks, four a turn; begins with an index, which gives q0 their
 * columns. */
#define ES_MVE_LOOP    "wlstp.32 lr, %[n], 2f\n1:\t"
#define ES_MVE_END     "letp lr, 1b\n2:\t"
#define ES_MVE_INDEX8  "vldrb.u32 q0, [%[i]], #4\n\t"
#define ES_MVE_INDEX16 "vldrh.u32 q0, [%[i]], #8\n\t"

/* Operands: sums in even registers, the index in r0 to r7, as loads that widen
 * want it. */
#define ES_MVE_SUM(name)   [name] "+&Te"(name)
#define ES_MVE_LOW(name)   [name] "+&l"(name)
#define ES_MVE_MOVES(name) [name] "+&r"(name)
#define ES_MVE_GIVEN(name) [name] "r"(name)

/* All rows of a group, `columns` of the output. */
typedef void es_mve_all_rows(const es_row_group *group, const int32_t *bias,
                             const es_mve_scale *by, const int8_t *const *x,
                             int8_t *const *to, uint32_t columns);
/* Blocks of 4 x 4 or 4 x 1; of 1 x 4; of 2 x 4. */
es_mve_all_rows es_mve_tall, es_mve_one_by_four, es_mve_two_by_four;

#endif /* ES_MVE_BLOCKS_H */
