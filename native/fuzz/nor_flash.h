/* A simulated NOR flash that loses its power inside an operation, which is one
 * unit (or all units of a call) programmed or one sector erased.
 *
 * Nothing here is a device's: it is what a device is allowed to do at worst.
 * All of it is one plain struct, so a copy is a snapshot. */
#ifndef NOR_FLASH_H
#define NOR_FLASH_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "edgesparse/store.h"

enum {
    NOR_SECTOR = 1024,
    NOR_SLOT = 2 * NOR_SECTOR,
    NOR_SIZE = ES_STORE_LOGS * NOR_SECTOR + 2 * NOR_SLOT,
    NOR_UNITS = NOR_SIZE / 4, /* of the smallest write unit */
    NOR_TEARS = 6
};

/* What an interrupted operation leaves of the bits that it changes. */
typedef enum nor_tear {
    NOR_NOTHING,  /* none have changed */
    NOR_ALL,      /* all have, but the caller never hears of it */
    NOR_SOME,     /* some have */
    NOR_UNSTABLE, /* some have, some read differently each time */
    NOR_WORST,    /* as before, on every bit of the unit */
    NOR_BY_BOOT   /* all or none have, which one changes from boot to boot */
} nor_tear;

typedef struct nor_flash {
    uint8_t bytes[NOR_SIZE], other[NOR_SIZE]; /* unstable where they differ */
    uint8_t kind[NOR_UNITS];                  /* nor_tear, 0: stable */
    uint32_t tear_of[NOR_UNITS];              /* which tear, for its coin */
    bool erased[NOR_UNITS]; /* completely, and not programmed since */
    uint32_t unit;
    uint32_t operations, cut_at; /* counts up to it, then the power is off */
    nor_tear tear;
    uint32_t tears;
    uint64_t random;  /* what the flash does */
    uint32_t boot;    /* another one after every reset */
    bool independent; /* each tear has a coin of its own, not each boot */
    bool pages;       /* a call of program is one operation, not each unit */
    bool ecc;         /* torn units may give a read error */
    uint32_t stuck;   /* one unit in so many keeps a wrong bit; 0: none */
} nor_flash;

extern jmp_buf nor_power_off;
/* Called when a unit is programmed that was not erased. */
extern void nor_forbidden(const char *what);
/* Called before every operation. */
extern void nor_watch(void);

uint32_t nor_random(uint64_t *state);
/* Below `limit`. */
uint32_t nor_below(uint64_t *state, uint32_t limit);

/* Fill with noise and describe for the store. */
void nor_start(nor_flash *flash, uint32_t unit, uint64_t seed);
es_flash nor_driver(nor_flash *flash);
/* A reset: unstable bits may read differently from now on. */
void nor_reset(nor_flash *flash);
/* No unit of these bytes is torn. */
bool nor_is_stable(const nor_flash *flash, uint32_t address, uint32_t size);

#endif /* NOR_FLASH_H */
