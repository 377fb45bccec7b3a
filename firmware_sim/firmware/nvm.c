/* Flash for plans: the board's PSRAM, which QEMU keeps in a file, with the
 * rules of NOR flash enforced. An erase sets a sector to 0xFF; a program clears
 * bits; each write unit is programmed once between two erases. Whatever breaks
 * a rule is an error and changes nothing. Which units are erased is kept behind
 * the slots, one bit each, because a unit programmed with 0xFF looks erased. */
#include "board.h"
#include "firmware.h"

#include <string.h>

enum {
    UNIT = 8,
    SECTOR = 4096,
    SLOT = 1 << 20,
    SLOTS_AT = ES_STORE_LOGS * SECTOR,
    SIZE = SLOTS_AT + 2 * SLOT
};

/* edgesparse/device/nvm.py has the same. */
#define BYTES  ((uint8_t *)(uintptr_t)ES_NVM)
#define ERASED (BYTES + SIZE) /* [SIZE / UNIT / 8] */

static bool is_inside(uint32_t address, uint32_t size)
{
    return address <= SIZE && size <= SIZE - address;
}

static int nvm_read(void *user, uint32_t address, void *bytes, uint32_t size)
{
    (void)user;
    if (!is_inside(address, size)) {
        return 1;
    }
    es_watchdog_feed(); /* a megabyte is hashed piece by piece */
    memcpy(bytes, BYTES + address, size);
    return 0;
}

static bool may_program(uint32_t address, const uint8_t *bytes)
{
    uint32_t unit = address / UNIT;

    if ((ERASED[unit / 8] >> unit % 8 & 1) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < UNIT; i++) {
        if ((BYTES[address + i] & bytes[i]) != bytes[i]) {
            return false;
        }
    }
    return true;
}

static int nvm_program(void *user, uint32_t address, const void *bytes,
                       uint32_t size)
{
    const uint8_t *from = bytes;

    (void)user;
    if (address % UNIT || size % UNIT || !is_inside(address, size)) {
        return 1;
    }
    for (uint32_t at = 0; at < size; at += UNIT) {
        uint32_t unit = (address + at) / UNIT;
        if (!may_program(address + at, from + at)) {
            return 1;
        }
        /* In this order: power may fail in between. */
        ERASED[unit / 8] &= (uint8_t) ~(1u << unit % 8);
        memcpy(BYTES + address + at, from + at, UNIT);
    }
    return 0;
}

static int nvm_erase(void *user, uint32_t address)
{
    (void)user;
    if (address % SECTOR || !is_inside(address, SECTOR)) {
        return 1;
    }
    memset(ERASED + address / UNIT / 8, 0, SECTOR / UNIT / 8);
    memset(BYTES + address, 0xFF, SECTOR);
    memset(ERASED + address / UNIT / 8, 0xFF, SECTOR / UNIT / 8);
    return 0;
}

const es_flash es_nvm = {
    .read = nvm_read,
    .program = nvm_program,
    .erase = nvm_erase,
    .write_unit = UNIT,
    .sector_size = SECTOR,
    .log = {0, SECTOR, 2 * SECTOR},
    .slot = {SLOTS_AT, SLOTS_AT + SLOT},
    .slot_size = SLOT,
    .bytes = {(const uint8_t *)(uintptr_t)(ES_NVM + SLOTS_AT),
              (const uint8_t *)(uintptr_t)(ES_NVM + SLOTS_AT + SLOT)},
};
