/* Which kernel of Helium a group of blocks goes to. */
#include "exec/mve_blocks.h"

static es_mve_all_rows *kernel_of(const es_row_group *group)
{
    if (group->block_rows == 4) {
        bool tall = group->block_cols == 4 || group->block_cols == 1;
        return tall ? es_mve_tall : NULL;
    }
    if (group->block_cols != 4) {
        return NULL;
    }
    return group->block_rows == 1   ? es_mve_one_by_four
           : group->block_rows == 2 ? es_mve_two_by_four
                                    : NULL;
}

/* Words of weights are loaded from addresses that are a multiple of 4, and half
 * words of the index from even ones. */
bool es_mve_takes_blocks(const es_row_group *group)
{
    return group->encoding == ES_BSR && kernel_of(group) &&
           (group->block_cols == 1 || (uintptr_t)group->values.data % 4 == 0) &&
           (uintptr_t)group->index.data % 2 == 0;
}

void es_mve_blocks(const es_row_group *group, const int32_t *bias,
                   const es_mve_scale *by, const int8_t *const *x,
                   int8_t *const *to, uint32_t columns)
{
    kernel_of(group)(group, bias, by, x, to, columns);
}
