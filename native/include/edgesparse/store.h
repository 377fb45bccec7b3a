/* The A/B plan store: two slots and a log in NOR flash, safe against a power
 * cut at any moment. No allocation, no global state; docs/STORE.md is its law.
 *
 * After a reset: es_store_mount, es_store_boot, es_store_running. An update:
 * begin, write ..., finish, test, reset; then confirm, or reset once more to
 * have the old plan back. Plans run where they stand, nothing is ever copied.
 *
 * What a function has answered is durable. On any other status than ES_STORE_OK
 * the state is the old one, or after a flash error perhaps the new one; the
 * next mount decides which. One caller at a time. */
#ifndef EDGESPARSE_STORE_H
#define EDGESPARSE_STORE_H

#include <stdint.h>

#include "edgesparse/edgesparse.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum es_store_status {
#define ES_STORE_STATUS(name, value, text) name = (value),
#include "edgesparse/store_status.inc"
#undef ES_STORE_STATUS
} es_store_status;

/* Text of a status; never NULL. */
const char *es_store_status_text(es_store_status status);

enum {
    ES_STORE_LOGS = 3,       /* log sectors */
    ES_STORE_NO_SLOT = 255,  /* neither slot 0 (A) nor slot 1 (B) */
    ES_STORE_SHA = 32,       /* bytes of a SHA-256 */
    ES_STORE_WRITE_UNIT = 16 /* the largest write unit */
};

/* The flash and where the store lies in it. Functions return 0 when all is
 * well. A program or erase must touch nothing beside its units or sector (no
 * translation layer below); a unit is programmed once between two erases. */
typedef struct es_flash {
    /* Any address and size; an error (ECC) means: no record, a wrong hash. */
    int (*read)(void *user, uint32_t address, void *bytes, uint32_t size);
    /* Address and size are multiples of the write unit. */
    int (*program)(void *user, uint32_t address, const void *bytes,
                   uint32_t size);
    int (*erase)(void *user, uint32_t address); /* the sector there; to 0xFF */
    void *user;
    uint32_t write_unit;         /* bytes: 4, 8 or 16 */
    uint32_t sector_size;        /* bytes, a power of two from 256 */
    uint32_t log[ES_STORE_LOGS]; /* addresses of the log sectors */
    uint32_t slot[2];            /* addresses of the slots */
    uint32_t slot_size;          /* bytes, a multiple of sector_size */
    const uint8_t *bytes[2];     /* where the CPU reads the slots */
} es_flash;

/* What the firmware adds; any of them may be NULL. */
typedef struct es_store_hooks {
    /* May this plan run here? bytes [size] stand in flash and have the
     * announced hash. Sets the plan's version (0 before the call). Returns
     * ES_STORE_OK or a reason. */
    es_store_status (*accept)(void *user, const uint8_t *bytes, uint32_t size,
                              uint32_t *version);
    /* Is the signature right? sha [32] of bytes [size]. Returns 0: yes. */
    int (*verify)(void *user, const uint8_t *sha, const uint8_t *bytes,
                  uint32_t size);
    void *user;
} es_store_hooks;

typedef enum es_store_trial {
    ES_STORE_TRIAL_NONE,
    ES_STORE_TRIAL_REQUESTED, /* from the next reset on */
    ES_STORE_TRIAL_RUNNING    /* it has been started at least once */
} es_store_trial;

/* Why the state is what it is, for people. */
typedef enum es_store_why {
    ES_STORE_WHY_NONE,
    ES_STORE_WHY_BEGIN,
    ES_STORE_WHY_STAGED,
    ES_STORE_WHY_REQUESTED,
    ES_STORE_WHY_CANCELLED,
    ES_STORE_WHY_STARTED,
    ES_STORE_WHY_CONFIRMED,
    ES_STORE_WHY_REVERTED, /* by command */
    ES_STORE_WHY_TRIED,    /* not confirmed in all of its tries */
    ES_STORE_WHY_DAMAGED,  /* a slot no longer had its hash */
    ES_STORE_WHY_ERASED,
    ES_STORE_WHY_MINIMUM
} es_store_why;

/* The whole state, as a record of the log holds it. */
typedef struct es_store_state {
    uint8_t confirmed; /* slot, or ES_STORE_NO_SLOT */
    uint8_t trial;     /* slot, or ES_STORE_NO_SLOT */
    uint8_t phase;     /* es_store_trial */
    uint8_t tries;     /* starts the trial has left */
    uint8_t why;       /* es_store_why */
    uint8_t good;      /* bit i: the plan in slot i was confirmed once */
    uint8_t zero[2];
    uint32_t min_version;
    struct {
        uint32_t version;
        uint32_t size; /* 0: no plan */
        uint8_t sha[ES_STORE_SHA];
    } slot[2];
} es_store_state;

/* Content private, size public. What is used most comes first: short offsets
 * are short instructions. */
typedef struct es_store {
    const es_flash *flash;
    const es_store_hooks *hooks;
    uint8_t running;
    uint8_t sector; /* that this session fills, or the newest record's before */
    uint8_t keep;   /* bit i: log sector i may not be erased now */
    uint8_t fresh;  /* this session has erased `sector` */
    struct {
        uint8_t slot; /* or ES_STORE_NO_SLOT: no upload */
        uint8_t tail_size;
        uint32_t size, offset, erased; /* announced, received, erased bytes */
        uint8_t sha[ES_STORE_SHA];
        uint8_t tail[ES_STORE_WRITE_UNIT]; /* received, not yet programmed */
    } upload;
    uint32_t seq, gen, log_erases;
    uint32_t used; /* records of the log sector that this session fills */
    es_store_state state;
} es_store;

/* Read the log; must be done after every reset before anything else. flash and
 * hooks (or NULL) must outlive the store. Returns ES_STORE_OK, ARG or FLASH;
 * after FLASH the store may be used, its state is durable at the next mount.
 */
ES_MUST_CHECK es_store_status es_store_mount(es_store *store,
                                             const es_flash *flash,
                                             const es_store_hooks *hooks);

/* Decide once after a mount which plan runs, having hashed it; a trial has
 * spent a try then. Returns ES_STORE_OK, SAFE_MODE (nothing may run) or FLASH
 * (the confirmed plan runs if it can, no trial does). */
ES_MUST_CHECK es_store_status es_store_boot(es_store *store);

/* The plan that boot has chosen, where it stands.
 * Returns ES_STORE_OK or SAFE_MODE. */
ES_MUST_CHECK es_store_status es_store_running(const es_store *store,
                                               const uint8_t **bytes,
                                               uint32_t *size);

/* ---- upload ---- */

/* Start an upload of `size` bytes with this SHA-256, or go on with the same one
 * of this session. The slot that is not confirmed is no longer listed, a
 * requested trial is cancelled.
 * Returns ES_STORE_OK, ARG, TOO_LARGE, TRIAL, IN_USE or FLASH. */
ES_MUST_CHECK es_store_status es_store_begin(es_store *store, uint32_t size,
                                             const uint8_t *sha);

/* Bytes received; where the next write has to start. 0 without an upload. */
uint32_t es_store_offset(const es_store *store);

/* Any size, in order. Returns ES_STORE_OK, BADSTATE (no upload), OFFSET, ARG
 * (more than was announced) or FLASH, which ends the upload. */
ES_MUST_CHECK es_store_status es_store_write(es_store *store, uint32_t offset,
                                             const void *bytes, uint32_t size);

/* Hash what is in flash, ask the hooks, list the slot. Ends the upload, except
 * with OFFSET (bytes are missing) and BADSTATE (no upload). Returns
 * ES_STORE_OK, OFFSET, BADSTATE, MISMATCH, SIGNATURE, OLDER, FLASH or what
 * accept said. */
ES_MUST_CHECK es_store_status es_store_finish(es_store *store);

/* ---- decisions ---- */

/* Run the plan with this hash after the next reset, and so often before it is
 * reverted unless confirmed (tries 1..255). The confirmed plan's hash cancels a
 * request. Returns ES_STORE_OK, ARG, NONE, OLDER, TRIAL or FLASH. */
ES_MUST_CHECK es_store_status es_store_test(es_store *store, const uint8_t *sha,
                                            uint32_t tries);

/* Keep the running plan for good. sha NULL: whichever it is.
 * Returns ES_STORE_OK, BADSTATE, NOT_RUNNING or FLASH. */
ES_MUST_CHECK es_store_status es_store_confirm(es_store *store,
                                               const uint8_t *sha);

/* Give up the trial, requested or running; the confirmed plan runs after the
 * next reset. Never erases. Returns ES_STORE_OK or FLASH. */
ES_MUST_CHECK es_store_status es_store_revert(es_store *store);

/* Forget and erase the slot that is not confirmed.
 * Returns ES_STORE_OK, TRIAL, IN_USE or FLASH. */
ES_MUST_CHECK es_store_status es_store_erase(es_store *store);

/* Refuse plans below this version from now on. Never goes back.
 * Returns ES_STORE_OK, OLDER (than the minimum now) or FLASH. */
ES_MUST_CHECK es_store_status es_store_set_minimum(es_store *store,
                                                   uint32_t version);

/* One row of an SMP image state. */
typedef struct es_store_slot {
    uint32_t version;
    uint32_t size;      /* bytes; 0: no plan, the rest means nothing */
    const uint8_t *sha; /* [32], in the store: read it before the next call */
    uint8_t active;     /* runs now */
    uint8_t pending;    /* requested: runs after the next reset */
    uint8_t confirmed;
    uint8_t good; /* it was confirmed once */
} es_store_slot;

/* Slot 0 or 1. */
es_store_slot es_store_slot_of(const es_store *store, uint32_t slot);

/* The state now, and why; in the store. */
const es_store_state *es_store_state_of(const es_store *store);

/* ---- SHA-256 (FIPS 180-4), for whoever needs it besides ---- */

typedef struct es_sha256 {
    uint32_t hash[8];
    uint32_t size; /* bytes taken: below 4 GiB */
    uint32_t block[16];
} es_sha256;

void es_sha256_start(es_sha256 *sha);
void es_sha256_add(es_sha256 *sha, const void *bytes, uint32_t size);
void es_sha256_end(es_sha256 *sha, uint8_t *digest); /* [32] */

#ifdef __cplusplus
}
#endif
#endif /* EDGESPARSE_STORE_H */
