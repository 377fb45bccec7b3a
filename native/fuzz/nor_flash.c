#include "nor_flash.h"

#include <string.h>

jmp_buf nor_power_off;

uint32_t nor_random(uint64_t *state)
{
    /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ z >> 31) >> 16);
}

uint32_t nor_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)((uint64_t)nor_random(state) * limit >> 32);
}

static bool coin(const nor_flash *flash, uint32_t tear)
{
    uint64_t state =
        (uint64_t)flash->boot << 32 | (flash->independent ? tear : 0);
    return nor_random(&state) & 1;
}

static uint8_t byte_now(nor_flash *flash, uint32_t at)
{
    uint32_t unit = at / flash->unit;
    uint8_t differs = flash->bytes[at] ^ flash->other[at];
    if (flash->kind[unit] == NOR_BY_BOOT) {
        return coin(flash, flash->tear_of[unit]) ? flash->other[at]
                                                 : flash->bytes[at];
    }
    return differs ? flash->bytes[at] ^
                         (differs & (uint8_t)nor_random(&flash->random))
                   : flash->bytes[at];
}

static int nor_read(void *user, uint32_t address, void *bytes, uint32_t size)
{
    nor_flash *flash = user;
    uint8_t *to = bytes;
    if (address > NOR_SIZE || size > NOR_SIZE - address) {
        nor_forbidden("a read outside");
    }
    for (uint32_t i = 0; i < size; i++) {
        to[i] = byte_now(flash, address + i);
    }
    return flash->ecc && !nor_is_stable(flash, address, size) &&
           nor_below(&flash->random, 4) == 0;
}

/* The unit at `at` becomes `to`, or something on the way there. */
static void change(nor_flash *flash, uint32_t at, const uint8_t *to,
                   const nor_tear *tear)
{
    uint32_t unit = at / flash->unit;
    flash->erased[unit] = false;
    for (uint32_t i = at; i < at + flash->unit; i++) {
        uint8_t old = byte_now(flash, i), new = to[i - at];
        uint8_t some = (uint8_t)nor_random(&flash->random);
        uint8_t loose = (uint8_t)nor_random(&flash->random);
        flash->bytes[i] = flash->other[i] = new;
        if (!tear || *tear == NOR_ALL) {
            continue;
        }
        flash->bytes[i] = flash->other[i] = old;
        if (*tear == NOR_BY_BOOT) {
            flash->other[i] = new;
        } else if (*tear != NOR_NOTHING) {
            flash->bytes[i] = old ^ ((old ^ new) & some);
            flash->other[i] = *tear == NOR_SOME ? flash->bytes[i]
                              : *tear == NOR_UNSTABLE
                                  ? flash->bytes[i] ^ ((old ^ new) & loose)
                                  : flash->bytes[i] ^ loose;
        }
    }
    flash->kind[unit] = 0;
    if (tear && *tear >= NOR_UNSTABLE) {
        flash->kind[unit] = (uint8_t)*tear;
        flash->tear_of[unit] = flash->tears;
    }
}

/* The tear of this operation, or NULL: it will end. */
static const nor_tear *next(nor_flash *flash)
{
    nor_watch();
    flash->tears++;
    return flash->operations++ == flash->cut_at ? &flash->tear : NULL;
}

static void stick(nor_flash *flash, uint32_t at)
{
    uint32_t bit = nor_below(&flash->random, flash->unit * 8);
    uint8_t mask = (uint8_t)(1 << bit % 8);
    flash->bytes[at + bit / 8] |= mask;
    flash->other[at + bit / 8] |= mask;
}

static int nor_program(void *user, uint32_t address, const void *bytes,
                       uint32_t size)
{
    nor_flash *flash = user;
    if (address % flash->unit || size % flash->unit || address > NOR_SIZE ||
        size > NOR_SIZE - address) {
        nor_forbidden("a program outside or across units");
    }
    const nor_tear *tear = NULL;
    for (uint32_t i = 0; i < size; i += flash->unit) {
        if (i == 0 || !flash->pages) {
            tear = next(flash);
        }
        if (!flash->erased[(address + i) / flash->unit]) {
            nor_forbidden("I6: a unit programmed that was not erased");
        }
        change(flash, address + i, (const uint8_t *)bytes + i, tear);
        if (tear && !flash->pages) {
            longjmp(nor_power_off, 1);
        }
        if (flash->stuck && nor_below(&flash->random, flash->stuck) == 0) {
            stick(flash, address + i);
        }
    }
    if (tear) {
        longjmp(nor_power_off, 1);
    }
    return 0;
}

static int nor_erase(void *user, uint32_t address)
{
    nor_flash *flash = user;
    const nor_tear *tear = next(flash);
    uint8_t blank[ES_STORE_WRITE_UNIT];
    memset(blank, 0xFF, sizeof blank);
    if (address % NOR_SECTOR || address >= NOR_SIZE) {
        nor_forbidden("an erase outside");
    }
    for (uint32_t at = address; at < address + NOR_SECTOR; at += flash->unit) {
        change(flash, at, blank, tear);
        flash->erased[at / flash->unit] = !tear;
    }
    if (tear) {
        longjmp(nor_power_off, 1);
    }
    return 0;
}

void nor_start(nor_flash *flash, uint32_t unit, uint64_t seed)
{
    memset(flash, 0, sizeof *flash);
    flash->unit = unit;
    flash->random = seed;
    flash->cut_at = UINT32_MAX;
    bool noise = nor_random(&flash->random) & 1;
    for (uint32_t i = 0; i < NOR_SIZE; i++) {
        flash->bytes[i] = noise ? (uint8_t)nor_random(&flash->random) : 0xFF;
        flash->other[i] = flash->bytes[i];
    }
    nor_reset(flash);
}

es_flash nor_driver(nor_flash *flash)
{
    es_flash driver;
    memset(&driver, 0, sizeof driver);
    driver.read = nor_read;
    driver.program = nor_program;
    driver.erase = nor_erase;
    driver.user = flash;
    driver.write_unit = flash->unit;
    driver.sector_size = NOR_SECTOR;
    driver.slot_size = NOR_SLOT;
    for (uint32_t i = 0; i < ES_STORE_LOGS; i++) {
        driver.log[i] = i * NOR_SECTOR;
    }
    for (uint32_t i = 0; i < 2; i++) {
        driver.slot[i] = ES_STORE_LOGS * NOR_SECTOR + i * NOR_SLOT;
        driver.bytes[i] = flash->bytes + driver.slot[i];
    }
    return driver;
}

void nor_reset(nor_flash *flash)
{
    flash->boot = nor_random(&flash->random);
}

bool nor_is_stable(const nor_flash *flash, uint32_t address, uint32_t size)
{
    for (uint32_t unit = address / flash->unit;
         unit * flash->unit < address + size; unit++) {
        if (flash->kind[unit]) {
            return false;
        }
    }
    return true;
}
