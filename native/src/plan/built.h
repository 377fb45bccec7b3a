/* What this build of the core executes: everything, or, where ES_CONFIG names a
 * header, what that says. `edgesparse export` writes one for a plan; it defines
 * all the macros below, as 0 or 1. A plan that needs more is refused.
 *
 * The macros stand in conditions, not in #if: all of the code is compiled in
 * every build, and what nothing calls is dropped. Included by plan/view.h. */
#ifndef ES_BUILT_H
#define ES_BUILT_H

#ifdef ES_CONFIG
#include ES_CONFIG
enum { ES_BUILT_ALL = 0 };
#else
enum { ES_BUILT_ALL = 1 };
/* sources */
#define ES_HAS_MAC                1
#define ES_HAS_LOAD               1
#define ES_HAS_COPY               1
#define ES_HAS_LSTM               1
#define ES_HAS_SVDF               1
/* stages */
#define ES_HAS_REQUANT            1
#define ES_HAS_CLAMP              1
#define ES_HAS_LUT                1
#define ES_HAS_ADD                1
#define ES_HAS_MUL                1
#define ES_HAS_ADD_SINGLE_REQUANT 1
#define ES_HAS_MAX_POOL           1
#define ES_HAS_AVG_POOL           1
#define ES_HAS_MEAN               1
#define ES_HAS_SOFTMAX            1
/* encodings */
#define ES_HAS_DENSE              1
#define ES_HAS_BITMASK            1
#define ES_HAS_BSR                1
#define ES_HAS_NM                 1
#define ES_HAS_DELTA_CSR          1
#define ES_HAS_LANES              1
/* tensors: layouts other than NWC, rings, a halo */
#define ES_HAS_LAYOUTS            1
#define ES_HAS_RINGS              1
#define ES_HAS_HALO               1
/* steps with more than one branch */
#define ES_HAS_BRANCHES           1
/* Macs: input that is gathered into patches, convolution groups */
#define ES_HAS_PATCHES            1
#define ES_HAS_GROUPS             1
/* ways of a step: tile by tile, for all but Macs that a kernel takes whole and
 * Loads that only move columns; and Macs among those. A step that finds no way
 * is ES_ERR_BUILD when it is run. Stages of one value in such steps. All are 1
 * where plans are checked */
#define ES_HAS_TILES              1
#define ES_HAS_MAC_TILES          1
#define ES_HAS_ELEMENTWISE        1
/* Macs that a kernel takes whole: two columns together, of blocks of 4 x 1;
 * four, of dense rows and wide blocks. Without them, one after the other.
 * Blocks of 4 x 1; blocks that are four wide */
#define ES_HAS_PAIRS              1
#define ES_HAS_FOURS              1
#define ES_HAS_TALL               1
#define ES_HAS_WIDE               1
/* Mean and AvgPool over a window that moves */
#define ES_HAS_RUNNING            1
/* streams and their parts */
#define ES_HAS_STREAM             1
#define ES_HAS_FRONT_END          1
#define ES_HAS_BEATS              1
#define ES_HAS_QUALITY            1
/* the frame of a program for the NPU */
#define ES_HAS_NPU                1
/* 1: one plan is opened and no other, that of so many bytes (FlatBuffer, and
 * file) with this CRC-32. It was checked where ES_CONFIG was written, and is
 * not checked again. */
#define ES_TRUST_PLAN             0
#define ES_TRUSTED_BYTES          0
#define ES_TRUSTED_FILE           0
#define ES_TRUSTED_CRC            0
#endif

enum {
    ES_BUILT_SOURCES =
        ES_HAS_MAC << ES_SOURCE_MAC | ES_HAS_LOAD << ES_SOURCE_LOAD |
        ES_HAS_COPY << ES_SOURCE_COPY | ES_HAS_LSTM << ES_SOURCE_LSTM |
        ES_HAS_SVDF << ES_SOURCE_SVDF,
    ES_BUILT_STAGES =
        ES_HAS_REQUANT << ES_STAGE_REQUANT | ES_HAS_CLAMP << ES_STAGE_CLAMP |
        ES_HAS_LUT << ES_STAGE_LUT | ES_HAS_ADD << ES_STAGE_ADD |
        ES_HAS_MUL << ES_STAGE_MUL |
        ES_HAS_ADD_SINGLE_REQUANT << ES_STAGE_ADD_SINGLE_REQUANT |
        ES_HAS_MAX_POOL << ES_STAGE_MAX_POOL |
        ES_HAS_AVG_POOL << ES_STAGE_AVG_POOL | ES_HAS_MEAN << ES_STAGE_MEAN |
        ES_HAS_SOFTMAX << ES_STAGE_SOFTMAX,
    ES_BUILT_ENCODINGS = ES_HAS_DENSE << ES_DENSE |
                         ES_HAS_BITMASK << ES_BITMASK | ES_HAS_BSR << ES_BSR |
                         ES_HAS_NM << ES_NM | ES_HAS_DELTA_CSR << ES_DELTA_CSR |
                         ES_HAS_LANES << ES_LANES
};

/* Whether this build has a kind of source, stage or encoding; constant where
 * the kind is. A kind that no build has is for the other checks to refuse. */
static inline bool es_has_source(uint32_t kind)
{
    return kind > ES_SOURCE_SVDF || (ES_BUILT_SOURCES >> kind & 1) != 0;
}

static inline bool es_has_stage(uint32_t kind)
{
    return kind > ES_STAGE_SOFTMAX || (ES_BUILT_STAGES >> kind & 1) != 0;
}

static inline bool es_has_encoding(uint32_t kind)
{
    return kind >= ES_ENCODINGS || (ES_BUILT_ENCODINGS >> kind & 1) != 0;
}

static inline bool es_has_only_dense(void)
{
    return (ES_BUILT_ENCODINGS & ~(1 << ES_DENSE)) == 0;
}

/* Pools over windows; stages that need whole columns. */
static inline bool es_has_windows(void)
{
    return ES_HAS_MAX_POOL || ES_HAS_AVG_POOL;
}

static inline bool es_has_levels(void)
{
    return es_has_windows() || ES_HAS_MEAN || ES_HAS_SOFTMAX;
}

/* Whether a step of this source may be run tile by tile. */
static inline bool es_has_tiles(uint32_t source)
{
    return ES_HAS_TILES && (ES_HAS_MAC_TILES || source != ES_SOURCE_MAC);
}

/* Sources that keep the sums of their Macs. */
static inline bool es_has_collect(void)
{
    return ES_HAS_LSTM || ES_HAS_SVDF;
}

/* Elementwise stages with a second tensor. */
static inline bool es_has_operands(void)
{
    return ES_HAS_ADD || ES_HAS_MUL || ES_HAS_ADD_SINGLE_REQUANT;
}

#endif /* ES_BUILT_H */
