#include "store/slot.h"

#include <string.h>

bool es_slot_has_hash(const es_flash *flash, uint32_t slot, uint32_t size,
                      const uint8_t *sha)
{
    es_sha256 hash;
    uint8_t part[64], digest[ES_STORE_SHA];
    es_sha256_start(&hash);
    for (uint32_t at = 0; at < size; at += sizeof part) {
        uint32_t count = size - at < sizeof part ? size - at : sizeof part;
        if (flash->read(flash->user, flash->slot[slot] + at, part, count)) {
            return false;
        }
        es_sha256_add(&hash, part, count);
    }
    es_sha256_end(&hash, digest);
    return !memcmp(digest, sha, ES_STORE_SHA);
}
