#ifndef ES_PLAN_CRC32_H
#define ES_PLAN_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 of IEEE 802.3 (reflected, polynomial 0x04C11DB7), as zlib's crc32:
 * `crc` is that of the bytes before, 0 when there are none. */
uint32_t es_crc32(uint32_t crc, const void *data, size_t size);

#endif /* ES_PLAN_CRC32_H */
