/* The slots' flash. */
#ifndef ES_STORE_SLOT_H
#define ES_STORE_SLOT_H

#include <stdbool.h>

#include "edgesparse/store.h"

/* Is this the SHA-256 of the slot's first `size` bytes, as flash has them now?
 * An error of a read: no. */
bool es_slot_has_hash(const es_flash *flash, uint32_t slot, uint32_t size,
                      const uint8_t *sha);

#endif /* ES_STORE_SLOT_H */
