/* Inputs of a few columns as the words that the kernels of regular_dsp.c
 * multiply with. */
#include "exec/dsp.h"
#include "exec/regular_dsp.h"

enum { STEP = 2 * ES_TILE_COLUMNS }; /* words from group to group */

/* Where the patch of a column starts. */
typedef struct corner {
    uint32_t y, x;
} corner;

static corner corner_of(const es_geometry *g, uint32_t column)
{
    corner at = {column / g->out_w * g->stride_h - g->pad_top,
                 column % g->out_w * g->stride_w - g->pad_left};
    return at;
}

/* Where the inputs of a tap stand; NULL: outside. */
static inline const int8_t *tap_at(const es_regular *step, uint32_t y,
                                   uint32_t x)
{
    const es_geometry *g = step->geometry;
    if (y >= g->in_h || x >= g->in_w) {
        return NULL;
    }
    int32_t at = (int32_t)(y * g->in_w + x);
    return step->input.base + es_nwc_column_at(&step->input.map, at);
}

/* Four inputs a word. Returns the place after the last. */
static uint32_t *widen(uint32_t *to, const int8_t *from, uint32_t groups)
{
#pragma GCC unroll 4
    for (; groups > 0; groups--) {
        uint32_t even, odd;
        __asm volatile("ldr %[odd], [%[from]], #4\n\t"
                       "sxtb16 %[even], %[odd]\n\t"
                       "sxtb16 %[odd], %[odd], ror #8\n\t"
                       "strd %[even], %[odd], [%[to]], %[step]"
                       : [even] "=&r"(even), [odd] "=&r"(odd),
                         [from] "+&r"(from), [to] "+&r"(to)
                       : [step] "i"(4 * STEP)
                       : "memory");
    }
    return to;
}

static uint32_t *fill(uint32_t *to, int8_t zero_point, uint32_t groups)
{
    uint32_t pair = (uint16_t)zero_point * 0x10001U;
    for (; groups > 0; groups--, to += STEP) {
        to[0] = to[1] = pair;
    }
    return to;
}

/* One row of a patch: kernel_w taps from column x of row y on. */
static uint32_t *widen_row(const es_regular *step, uint32_t y, uint32_t x,
                           uint32_t *to)
{
    const es_geometry *g = step->geometry;
    const es_map *map = &step->input.map;
    uint32_t groups = g->in_c / 4U;
    bool dense = g->dilation_w == 1 && map->place->pitch == g->in_c &&
                 !map->ring_columns;
    if (y >= g->in_h) {
        return fill(to, map->place->zero_point, groups * g->kernel_w);
    }
    for (uint32_t kx = 0; kx < g->kernel_w;) {
        uint32_t at = x + kx * g->dilation_w, taps = 1;
        if (at >= g->in_w) {
            to = fill(to, map->place->zero_point, groups);
        } else {
            if (dense) { /* all taps inside at once */
                uint32_t rest = g->in_w - at;
                taps = g->kernel_w - kx < rest ? g->kernel_w - kx : rest;
            }
            int32_t column = (int32_t)(y * g->in_w + at);
            to = widen(to, step->input.base + es_nwc_column_at(map, column),
                       groups * taps);
        }
        kx += taps;
    }
    return to;
}

/* A patch whose inputs stand side by side; zeros up to a whole group. */
static void widen_bytes(const int8_t *from, uint32_t bytes, uint32_t *to)
{
    to = widen(to, from, bytes / 4);
    if (bytes % 4) {
        int8_t last[4] = {0, 0, 0, 0};
        memcpy(last, from + bytes / 4 * 4, bytes % 4);
        (void)widen(to, last, 1);
    }
}

static void widen_column(const es_regular *step, uint32_t column, uint32_t *to,
                         int8_t *bytes)
{
    const es_geometry *g = step->geometry;
    if (step->in_place || g->in_c % 4) {
        widen_bytes(es_regular_patch(step, column, bytes), step->patch, to);
        return;
    }
    corner at = corner_of(g, column);
    for (uint32_t ky = 0; ky < g->kernel_h; ky++, at.y += g->dilation_h) {
        to = widen_row(step, at.y, at.x, to);
    }
}

enum { WORDS = 16 }; /* bytes of four registers */

/* So many words of a column of a ring, which may start anywhere, to an address
 * that is a multiple of four. Returns the place after the last. */
static inline int8_t *copy_words(int8_t *to, const int8_t *from, uint32_t bytes)
{
    __asm volatile("1:\n\tldr r4, [%[from]], #4\n\tldr r5, [%[from]], #4\n\t"
                   "ldr r6, [%[from]], #4\n\tldr r7, [%[from]], #4\n\t"
                   "subs %[bytes], #16\n\tstmia %[to]!, {r4-r7}\n\tbne 1b\n\t"
                   : [to] "+&r"(to), [from] "+&r"(from), [bytes] "+&r"(bytes)
                   :
                   : "r4", "r5", "r6", "r7", "memory", "cc");
    return to;
}

const int8_t *es_dsp_patch(const es_regular *step, uint32_t column, int8_t *to)
{
    const es_geometry *g = step->geometry;
    const uint32_t bytes = g->in_c;
    if (step->in_place || bytes % WORDS || (uintptr_t)to % 4) {
        return es_regular_patch(step, column, to);
    }
    /* what a copy leaves as it is, and compilers do not know to */
    const es_map *map = &step->input.map;
    const uint32_t pitch = map->place->pitch, by = g->dilation_w;
    const uint32_t ring = ES_HAS_RINGS ? map->ring_columns * pitch : 0;
    const uintptr_t base = (uintptr_t)step->input.base;
    const uintptr_t wraps = ring ? base + ring : UINTPTR_MAX;
    const uint32_t taps = g->kernel_w;
    corner at = corner_of(g, column);
    int8_t *tap = to;
    for (uint32_t ky = 0; ky < g->kernel_h; ky++, at.y += g->dilation_h) {
        uint32_t inside = at.y < g->in_h ? g->in_w : 0, x = at.x;
        uintptr_t from = base + (map->first + at.y * g->in_w + x) * pitch;
        for (uint32_t kx = taps; kx > 0; kx--, x += by, from += by * pitch) {
            if (x < inside) {
                uintptr_t place = from >= wraps ? from - ring : from;
                tap = copy_words(tap, (const int8_t *)place, bytes);
            } else {
                memset(tap, map->place->zero_point, bytes);
                tap += bytes;
            }
        }
    }
    return to;
}

void es_dsp_widen(const es_regular *step, uint32_t first, uint32_t *to)
{
    int8_t *bytes = (int8_t *)(to + STEP * es_dsp_groups(step));
    uint32_t last = step->columns - 1;
    for (uint32_t p = 0; p < ES_TILE_COLUMNS; p++) {
        uint32_t column = first + p < last ? first + p : last;
        widen_column(step, column, to + 2 * p, bytes);
    }
}

/* ---- two columns in a word ---- */

#define PAIR(word)                                                             \
    "ldrsb " word ", [%[a]], #1\n\tldrsb %[x], [%[b]], #1\n\t"                 \
    "add " word ", " word ", %[x], lsl %[bits]\n\t"

static int32_t *pair(int32_t *to, const int8_t *a, const int8_t *b, uint32_t n)
{
    int32_t x;
    for (; n >= 4; n -= 4) {
        __asm volatile(
            PAIR("r4") PAIR("r5") PAIR("r6") PAIR("r7") "stmia %[to]!, {r4-r7}"
            : [a] "+&r"(a), [b] "+&r"(b), [to] "+&r"(to), [x] "=&r"(x)
            : [bits] "i"(ES_DSP_PAIR_BITS)
            : "r4", "r5", "r6", "r7", "memory");
    }
    for (; n > 0; n--) {
        *to++ = *a++ + *b++ * (1 << ES_DSP_PAIR_BITS);
    }
    return to;
}

void es_dsp_pair(const es_regular *step, uint32_t first, int32_t *to)
{
    const es_geometry *g = step->geometry;
    uint32_t second = first + 1 < step->columns ? first + 1 : first;
    int32_t none = step->input.map.place->zero_point;
    corner one = corner_of(g, first), two = corner_of(g, second);
    for (uint32_t ky = 0; ky < g->kernel_h; ky++) {
        uint32_t y = ky * g->dilation_h;
        for (uint32_t kx = 0; kx < g->kernel_w; kx++) {
            uint32_t x = kx * g->dilation_w;
            const int8_t *a = tap_at(step, one.y + y, one.x + x);
            const int8_t *b = tap_at(step, two.y + y, two.x + x);
            if (a && b) {
                to = pair(to, a, b, g->in_c);
                continue;
            }
            for (uint32_t c = 0; c < g->in_c; c++) {
                *to++ = (a ? a[c] : none) +
                        (b ? b[c] : none) * (1 << ES_DSP_PAIR_BITS);
            }
        }
    }
}
