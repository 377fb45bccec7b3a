/* The real plan store for the test device, over flash in RAM that ends the
 * process when a rule of NOR flash is broken. */
#ifndef ES_TEST_FLASH_IMAGES_H
#define ES_TEST_FLASH_IMAGES_H

#include "edgesparse/link.h"
#include "edgesparse/store.h"

enum {
    ES_FLASH_UNIT = 8,
    ES_FLASH_SECTOR = 4096,
    ES_FLASH_SLOT = 128 * 1024,
    ES_FLASH_SIZE = ES_STORE_LOGS * ES_FLASH_SECTOR + 2 * ES_FLASH_SLOT
};

typedef struct es_flash_images {
    es_link_images table;
    es_store store;
    es_flash flash;
    uint8_t bytes[ES_FLASH_SIZE];
    uint8_t erased[ES_FLASH_SIZE / ES_FLASH_UNIT];
} es_flash_images;

/* Empty, or with a plan that is confirmed and runs. */
void es_flash_images_init(es_flash_images *images, const uint8_t *plan,
                          uint32_t size);
void es_flash_images_reset(es_flash_images *images);

#endif /* ES_TEST_FLASH_IMAGES_H */
