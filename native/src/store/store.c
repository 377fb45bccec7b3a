/* What is asked of the store between two uploads. */
#include "edgesparse/store.h"

#include <string.h>

#include "store/decide.h"
#include "store/log.h"
#include "store/rules.h"
#include "store/slot.h"

/* Region i of the flash: log sectors, then slots. */
static uint32_t region(const es_flash *f, uint32_t i, uint32_t *size)
{
    bool log = i < ES_STORE_LOGS;
    *size = log ? f->sector_size : f->slot_size;
    return log ? f->log[i] : f->slot[i - ES_STORE_LOGS];
}

/* Nothing overlaps, everything starts at a sector. */
static bool is_layout(const es_flash *f)
{
    uint32_t sector = f->sector_size, unit = f->write_unit, size, other_size;
    if (!f->read || !f->program || !f->erase ||
        (unit != 4 && unit != 8 && unit != 16) || sector < 256 ||
        (sector & (sector - 1)) || f->slot_size == 0 || f->slot_size % sector) {
        return false;
    }
    for (uint32_t i = 0; i < ES_STORE_LOGS + 2; i++) {
        uint32_t address = region(f, i, &size);
        if (address % sector || address > UINT32_MAX - size) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            uint32_t other = region(f, j, &other_size);
            if (address < other + other_size && other < address + size) {
                return false;
            }
        }
    }
    return true;
}

es_store_status es_store_mount(es_store *store, const es_flash *flash,
                               const es_store_hooks *hooks)
{
    if (!store || !flash || !is_layout(flash)) {
        return ES_STORE_ARG;
    }
    memset(store, 0, sizeof *store);
    store->flash = flash;
    store->hooks = hooks;
    store->running = ES_STORE_NO_SLOT;
    store->upload.slot = ES_STORE_NO_SLOT;
    return es_log_mount(store);
}

static bool is_sound(const es_store *store, uint32_t slot)
{
    return es_slot_has_hash(store->flash, slot, store->state.slot[slot].size,
                            store->state.slot[slot].sha);
}

es_store_status es_store_boot(es_store *store)
{
    es_store_decision d;
    es_store_status status = ES_STORE_OK;
    uint32_t damaged = 0;
    /* Hashing takes time: only what is about to run is hashed. */
    for (;;) {
        es_store_decide(&store->state, ES_STORE_BOOT, damaged, &d);
        if (d.run == ES_STORE_NO_SLOT || is_sound(store, d.run)) {
            break;
        }
        damaged |= 1U << d.run;
    }
    if (d.writes) { /* R8: the try is spent before the plan runs */
        if (ES_RULE(8)) {
            status = es_log_append(store, &d.next);
        } else {
            store->state = d.next;
        }
    }
    if (status && d.run != store->state.confirmed) {
        d.run = store->state.confirmed;
        if (d.run > 1 || damaged >> d.run & 1 || !is_sound(store, d.run)) {
            d.run = ES_STORE_NO_SLOT;
        }
    }
    store->running = d.run;
    return status                      ? status
           : d.run == ES_STORE_NO_SLOT ? ES_STORE_SAFE_MODE
                                       : ES_STORE_OK;
}

es_store_status es_store_running(const es_store *store, const uint8_t **bytes,
                                 uint32_t *size)
{
    if (store->running == ES_STORE_NO_SLOT) {
        return ES_STORE_SAFE_MODE;
    }
    *bytes = store->flash->bytes[store->running];
    *size = store->state.slot[store->running].size;
    return ES_STORE_OK;
}

/* Nothing is durable before the log says so. */
static es_store_status settle(es_store *store, const es_store_decision *d)
{
    return d->status || !d->writes ? d->status : es_log_append(store, &d->next);
}

static uint32_t find(const es_store *store, const uint8_t *sha)
{
    for (uint32_t slot = 0; slot < 2; slot++) {
        if (store->state.slot[slot].size > 0 &&
            !memcmp(store->state.slot[slot].sha, sha, ES_STORE_SHA)) {
            return slot;
        }
    }
    return ES_STORE_NO_SLOT;
}

es_store_status es_store_test(es_store *store, const uint8_t *sha,
                              uint32_t tries)
{
    es_store_decision d;
    if (!sha || tries < 1 || tries > UINT8_MAX) {
        return ES_STORE_ARG;
    }
    uint32_t slot = find(store, sha);
    es_store_decide(&store->state, ES_STORE_TEST, slot, &d);
    if (!d.status && slot != d.next.confirmed &&
        d.next.slot[slot].version < d.next.min_version) {
        return ES_STORE_OLDER;
    }
    if (d.next.phase == ES_STORE_TRIAL_REQUESTED &&
        d.next.tries != (uint8_t)tries) {
        d.next.tries = (uint8_t)tries;
        d.writes = true;
    }
    return settle(store, &d);
}

es_store_status es_store_confirm(es_store *store, const uint8_t *sha)
{
    es_store_decision d;
    es_store_decide(&store->state, ES_STORE_CONFIRM, 0, &d);
    if (!d.status &&
        (store->running != d.next.confirmed ||
         (sha && memcmp(sha, d.next.slot[store->running].sha, ES_STORE_SHA)))) {
        return ES_STORE_NOT_RUNNING;
    }
    return settle(store, &d);
}

static es_store_status perform(es_store *store, es_store_event event,
                               uint32_t argument)
{
    es_store_decision d;
    es_store_decide(&store->state, event, argument, &d);
    return settle(store, &d);
}

es_store_status es_store_revert(es_store *store)
{
    return perform(store, ES_STORE_REVERT, 0);
}

es_store_status es_store_set_minimum(es_store *store, uint32_t version)
{
    return perform(store, ES_STORE_MINIMUM, version);
}

es_store_slot es_store_slot_of(const es_store *store, uint32_t slot)
{
    const es_store_state *state = &store->state;
    es_store_slot row;
    slot &= 1;
    row.version = state->slot[slot].version;
    row.size = state->slot[slot].size;
    row.sha = state->slot[slot].sha;
    row.active = store->running == slot;
    row.pending =
        state->trial == slot && state->phase == ES_STORE_TRIAL_REQUESTED;
    row.confirmed = state->confirmed == slot;
    row.good = state->good >> slot & 1;
    return row;
}

const es_store_state *es_store_state_of(const es_store *store)
{
    return &store->state;
}
