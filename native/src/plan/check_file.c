/* The trailer and the checksum: PLAN_FORMAT.md section 1. */
#include <string.h>

#include "plan/check.h"
#include "plan/crc32.h"
#include "plan/fb.h"

enum {
    TRAILER = 64,
    AT_FORMAT = 4,
    AT_SIZE = 8,
    AT_CRC = 12,
    AT_RESERVED = 48,
    /* The FlatBuffer starts with the offset of its root and its identifier. */
    HEADER = 8
};

static bool all_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

uint32_t es_file_crc(const uint8_t *bytes, size_t size)
{
    return es_fb_read_u32(bytes + (size - TRAILER) + AT_CRC);
}

bool es_check_file(es_check *check, const uint8_t *bytes, size_t size)
{
    const uint8_t *trailer;
    uint32_t n, padded;

    if ((uintptr_t)bytes % ES_ALIGN != 0) {
        check->status = ES_ERR_ARG;
        return es_refuse(check, 1, -1);
    }
    if (size < TRAILER + 16) {
        return es_refuse(check, 1, -1);
    }
    trailer = bytes + (size - TRAILER);
    if (memcmp(trailer, "ESPT", 4) != 0 ||
        !all_zero(trailer + AT_RESERVED, TRAILER - AT_RESERVED)) {
        return es_refuse(check, 1, -1);
    }
    if (es_fb_read_u32(trailer + AT_FORMAT) != ES_PLAN_FORMAT) {
        check->status = ES_ERR_VERSION;
        return es_refuse(check, 2, -1);
    }
    /* N < 2^31, so positions and their sums fit 32 bits everywhere. */
    n = es_fb_read_u32(trailer + AT_SIZE);
    if (n < HEADER || n > INT32_MAX) {
        return es_refuse(check, 2, -1);
    }
    padded = (n + 15) / 16 * 16;
    if (padded != size - TRAILER || !all_zero(bytes + n, padded - n)) {
        return es_refuse(check, 2, -1);
    }
    if (es_crc32(0, bytes, n) != es_file_crc(bytes, size)) {
        return es_refuse(check, 3, -1);
    }
    if (memcmp(bytes + 4, "ESPL", 4) != 0) {
        return es_refuse(check, 4, -1);
    }
    check->status = ES_ERR_FORMAT;
    check->plan.bytes = bytes;
    check->plan.size = n;
    check->plan.root = es_fb_read_u32(bytes);
    if (check->plan.root >= n) { /* its alignment is checked with its table */
        return es_refuse(check, 4, -1);
    }
    return true;
}
