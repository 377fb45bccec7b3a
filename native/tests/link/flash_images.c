#include "flash_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "flash: %s\n", what);
        exit(2);
    }
}

static int flash_read(void *user, uint32_t address, void *bytes, uint32_t size)
{
    const es_flash_images *images = user;
    check(address + size <= ES_FLASH_SIZE, "read outside");
    memcpy(bytes, images->bytes + address, size);
    return 0;
}

static int flash_program(void *user, uint32_t address, const void *bytes,
                         uint32_t size)
{
    es_flash_images *images = user;
    check(address % ES_FLASH_UNIT == 0 && size % ES_FLASH_UNIT == 0 &&
              address + size <= ES_FLASH_SIZE,
          "program outside or across units");
    for (uint32_t at = address; at < address + size; at += ES_FLASH_UNIT) {
        uint8_t *erased = images->erased + at / ES_FLASH_UNIT;
        check(*erased, "a unit programmed that was not erased");
        *erased = 0;
    }
    memcpy(images->bytes + address, bytes, size);
    return 0;
}

static int flash_erase(void *user, uint32_t address)
{
    es_flash_images *images = user;
    check(address % ES_FLASH_SECTOR == 0 && address < ES_FLASH_SIZE,
          "erase outside");
    memset(images->bytes + address, 0xFF, ES_FLASH_SECTOR);
    memset(images->erased + address / ES_FLASH_UNIT, 1,
           ES_FLASH_SECTOR / ES_FLASH_UNIT);
    return 0;
}

static void install(es_flash_images *images, const uint8_t *plan, uint32_t size)
{
    es_store *store = &images->store;
    uint8_t sha[ES_STORE_SHA];
    es_sha256 hash;

    es_sha256_start(&hash);
    es_sha256_add(&hash, plan, size);
    es_sha256_end(&hash, sha);
    check(es_store_begin(store, size, sha) == ES_STORE_OK &&
              es_store_write(store, 0, plan, size) == ES_STORE_OK &&
              es_store_finish(store) == ES_STORE_OK &&
              es_store_test(store, sha, 1) == ES_STORE_OK,
          "install");
    es_flash_images_reset(images);
    check(es_store_confirm(store, sha) == ES_STORE_OK, "confirm");
}

void es_flash_images_init(es_flash_images *images, const uint8_t *plan,
                          uint32_t size)
{
    es_flash *flash = &images->flash;

    memset(images, 0, sizeof *images);
    memset(images->bytes, 0x5A, sizeof images->bytes);
    flash->read = flash_read;
    flash->program = flash_program;
    flash->erase = flash_erase;
    flash->user = images;
    flash->write_unit = ES_FLASH_UNIT;
    flash->sector_size = ES_FLASH_SECTOR;
    flash->slot_size = ES_FLASH_SLOT;
    for (uint32_t i = 0; i < ES_STORE_LOGS; i++) {
        flash->log[i] = i * ES_FLASH_SECTOR;
    }
    for (uint32_t i = 0; i < 2; i++) {
        flash->slot[i] = ES_STORE_LOGS * ES_FLASH_SECTOR + i * ES_FLASH_SLOT;
        flash->bytes[i] = images->bytes + flash->slot[i];
    }
    es_flash_images_reset(images);
    if (size != 0) {
        install(images, plan, size);
    }
    images->table = es_link_store_images(&images->store);
}

void es_flash_images_reset(es_flash_images *images)
{
    es_store_status status;

    check(es_store_mount(&images->store, &images->flash, NULL) == ES_STORE_OK,
          "mount");
    status = es_store_boot(&images->store);
    check(status == ES_STORE_OK || status == ES_STORE_SAFE_MODE, "boot");
}
