/* A plan store in RAM for the test device: the rules of the image group
 * without flash below them. */
#ifndef ES_TEST_RAM_IMAGES_H
#define ES_TEST_RAM_IMAGES_H

#include "edgesparse/link.h"

enum { ES_RAM_SLOTS = 2, ES_RAM_SLOT_SIZE = 128 * 1024, ES_RAM_NONE = -1 };

typedef struct es_ram_images {
    es_link_images table;
    struct {
        uint32_t size; /* 0: empty */
        uint8_t hash[32];
        uint8_t bytes[ES_RAM_SLOT_SIZE];
    } slot[ES_RAM_SLOTS];
    int confirmed, requested, running;
    struct {
        int slot;
        uint32_t size, offset;
        uint8_t hash[32];
    } upload;
} es_ram_images;

void es_sha256_of(const uint8_t *bytes, size_t size, uint8_t digest[32]);

/* Empty, or with a plan in slot 0 that is confirmed and runs. */
void es_ram_images_init(es_ram_images *images, const uint8_t *plan,
                        uint32_t size);
/* A reset: a requested trial runs once, an unconfirmed one is over. */
void es_ram_images_reset(es_ram_images *images);

#endif /* ES_TEST_RAM_IMAGES_H */
