/* Sums of dense rows with Helium: sixteen products an instruction. Four rows
 * share each vector of inputs; more sums than that would not stay in the
 * registers that VMLADAVA can add to. Sums fit int32 in any order (I-43). */
#include <arm_mve.h>

#include "exec/kernels.h"

static void four_rows(const int8_t *w, uint32_t cols, const int8_t *x,
                      int32_t *value)
{
    int32_t a = value[0], b = value[1], c = value[2], d = value[3];
    const int8_t *w1 = w + cols, *w2 = w1 + cols, *w3 = w2 + cols;
    for (uint32_t n = cols / 16; n > 0; n--) {
        int8x16_t at = vldrbq_s8(x);
        a = vmladavaq_s8(a, vldrbq_s8(w), at);
        b = vmladavaq_s8(b, vldrbq_s8(w1), at);
        c = vmladavaq_s8(c, vldrbq_s8(w2), at);
        d = vmladavaq_s8(d, vldrbq_s8(w3), at);
        w += 16, w1 += 16, w2 += 16, w3 += 16, x += 16;
    }
    if (cols % 16) { /* lanes past the end load nothing and add nothing */
        mve_pred16_t rest = vctp8q(cols % 16);
        int8x16_t at = vldrbq_z_s8(x, rest);
        a = vmladavaq_p_s8(a, vldrbq_z_s8(w, rest), at, rest);
        b = vmladavaq_p_s8(b, vldrbq_z_s8(w1, rest), at, rest);
        c = vmladavaq_p_s8(c, vldrbq_z_s8(w2, rest), at, rest);
        d = vmladavaq_p_s8(d, vldrbq_z_s8(w3, rest), at, rest);
    }
    value[0] = a, value[1] = b, value[2] = c, value[3] = d;
}

static int32_t one_row(const int8_t *w, uint32_t cols, const int8_t *x,
                       int32_t sum)
{
    for (uint32_t i = 0; i < cols; i += 16) {
        mve_pred16_t rest = vctp8q(cols - i);
        sum = vmladavaq_p_s8(sum, vldrbq_z_s8(w + i, rest),
                             vldrbq_z_s8(x + i, rest), rest);
    }
    return sum;
}

bool es_dot_rows__mve(const es_dot_job *job, uint32_t r, uint32_t rows,
                      const int8_t *w, uint32_t cols)
{
    if (job->zero != 0 || job->group_channels != job->pitch) {
        return false;
    }
    for (uint32_t p = 0; p < job->tile->columns; p++) {
        int32_t *value = &job->tile->value[p][r];
        const int8_t *row = w;
        uint32_t i = 0;
        for (; i + 4 <= rows; i += 4, row += 4 * cols) {
            four_rows(row, cols, job->x[p], value + i);
        }
        for (; i < rows; i++, row += cols) {
            value[i] = one_row(row, cols, job->x[p], value[i]);
        }
    }
    return true;
}
