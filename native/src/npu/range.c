/* Affine ranges of bytes: hull and intersection. */
#include "npu/machine.h"

es_npu_range es_npu_range_of(int64_t at, int64_t bytes)
{
    es_npu_range range = {at, bytes, {{0, 1}, {0, 1}, {0, 1}}};
    return range;
}

/* From dimension `first` on, as seen from `at`. Strides are int32, counts at
 * most 2^24, so sums stay far below 2^63. */
static es_npu_hull hull_from(const es_npu_range *range, int first, int64_t at)
{
    es_npu_hull hull = {at, at + range->bytes};
    for (int i = first; i < ES_NPU_RANGE_DIMS; i++) {
        int64_t reach = range->dim[i].stride * (range->dim[i].count - 1);
        *(reach < 0 ? &hull.from : &hull.to) += reach;
    }
    return hull;
}

es_npu_hull es_npu_range_hull(const es_npu_range *range)
{
    return hull_from(range, 0, range->at);
}

static bool hulls_meet(es_npu_hull a, es_npu_hull b)
{
    return a.from < b.to && b.from < a.to;
}

/* Dimensions whose positions touch each other are one longer piece. */
static es_npu_range joined(const es_npu_range *range)
{
    es_npu_range result = *range;
    for (int round = 0; round < ES_NPU_RANGE_DIMS; round++) {
        for (int i = 0; i < ES_NPU_RANGE_DIMS; i++) {
            if (result.dim[i].stride == result.bytes) {
                result.bytes *= result.dim[i].count;
                result.dim[i].stride = 0;
            }
            if (result.dim[i].stride == 0) {
                result.dim[i].count = 1;
            }
        }
    }
    return result;
}

/* Count one comparison; false: there may be no more. */
static bool afford(uint64_t *budget)
{
    if (*budget > 0) {
        --*budget;
    }
    return *budget > 0;
}

/* Whether one piece meets a range. */
static bool piece_meets(es_npu_hull piece, const es_npu_range *b,
                        uint64_t *budget)
{
    for (uint32_t i = 0; i < b->dim[0].count; i++) {
        int64_t at0 = b->at + b->dim[0].stride * i;
        if (!afford(budget)) {
            return true;
        }
        if (!hulls_meet(piece, hull_from(b, 1, at0))) {
            continue;
        }
        for (uint32_t k = 0; k < b->dim[1].count; k++) {
            int64_t at1 = at0 + b->dim[1].stride * k;
            for (uint32_t j = 0; j < b->dim[2].count; j++) {
                int64_t at = at1 + b->dim[2].stride * j;
                es_npu_hull other = {at, at + b->bytes};
                if (!afford(budget) || hulls_meet(piece, other)) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool es_npu_ranges_meet(const es_npu_range *one, const es_npu_range *two,
                        uint64_t *budget)
{
    es_npu_hull whole = es_npu_range_hull(two);
    if (!afford(budget)) {
        return true;
    }
    if (!hulls_meet(es_npu_range_hull(one), whole)) {
        return false;
    }
    es_npu_range a = joined(one), b = joined(two);
    for (uint32_t i = 0; i < a.dim[0].count; i++) {
        int64_t at0 = a.at + a.dim[0].stride * i;
        if (!afford(budget)) {
            return true;
        }
        if (!hulls_meet(hull_from(&a, 1, at0), whole)) {
            continue;
        }
        for (uint32_t k = 0; k < a.dim[1].count; k++) {
            int64_t at1 = at0 + a.dim[1].stride * k;
            if (!afford(budget)) {
                return true;
            }
            if (!hulls_meet(hull_from(&a, 2, at1), whole)) {
                continue;
            }
            for (uint32_t j = 0; j < a.dim[2].count; j++) {
                int64_t at = at1 + a.dim[2].stride * j;
                es_npu_hull piece = {at, at + a.bytes};
                if (!afford(budget) || (hulls_meet(piece, whole) &&
                                        piece_meets(piece, &b, budget))) {
                    return true;
                }
            }
        }
    }
    return false;
}

uint32_t es_npu_columns(const es_npu_control *control, int64_t x,
                        uint32_t lanes, uint32_t bytes, es_npu_range range[2])
{
    uint32_t cols = es_npu_count(control, ES_NPU_REG_COLS);
    uint32_t row = es_npu_count(control, ES_NPU_REG_ROWLEN);
    uint32_t rows = cols / row, rest = cols % row, count = 0;
    int64_t pitch = es_npu_reg(control, ES_NPU_REG_ROWPITCH);
    es_npu_range common = es_npu_range_of(x, bytes);
    common.dim[0].stride = pitch;
    common.dim[1].stride = es_npu_reg(control, ES_NPU_REG_XSTRIDE);
    common.dim[1].count = lanes;
    common.dim[2].stride = es_npu_reg(control, ES_NPU_REG_COLPITCH);
    if (rows > 0) {
        range[count] = common;
        range[count].dim[0].count = rows;
        range[count++].dim[2].count = row;
    }
    if (rest > 0) {
        range[count] = common;
        range[count].at += pitch * rows;
        range[count++].dim[2].count = rest;
    }
    return count;
}
