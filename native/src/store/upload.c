/* A plan on its way into the free slot, and that slot's erasure. */
#include "edgesparse/store.h"

#include <string.h>

#include "store/decide.h"
#include "store/log.h"
#include "store/rules.h"
#include "store/slot.h"

/* R7: the log says that the slot has no plan before its bytes change; R9: what
 * follows is this session's alone. */
static es_store_status empty(es_store *store, es_store_event event)
{
    es_store_decision d;
    uint32_t slot = es_store_free_slot(&store->state);
    es_store_decide(&store->state, event, 0, &d);
    if (d.status) {
        return d.status;
    }
    if (store->running == slot) { /* a trial that was reverted */
        return ES_STORE_IN_USE;
    }
    store->upload.slot = ES_STORE_NO_SLOT;
    if (!ES_RULE(7) && store->state.slot[slot].size == 0) {
        return ES_STORE_OK;
    }
    return es_log_append(store, &d.next);
}

es_store_status es_store_erase(es_store *store)
{
    const es_flash *flash = store->flash;
    es_store_status status = empty(store, ES_STORE_ERASE);
    uint32_t slot = flash->slot[es_store_free_slot(&store->state)];
    for (uint32_t at = 0; at < flash->slot_size && !status;
         at += flash->sector_size) {
        status =
            flash->erase(flash->user, slot + at) ? ES_STORE_FLASH : ES_STORE_OK;
    }
    return status;
}

es_store_status es_store_begin(es_store *store, uint32_t size,
                               const uint8_t *sha)
{
    if (!sha || size == 0) {
        return ES_STORE_ARG;
    }
    if (size > store->flash->slot_size) {
        return ES_STORE_TOO_LARGE;
    }
    if (store->upload.slot != ES_STORE_NO_SLOT && store->upload.size == size &&
        !memcmp(store->upload.sha, sha, ES_STORE_SHA)) {
        return ES_STORE_OK;
    }
    es_store_status status = empty(store, ES_STORE_BEGIN);
    if (status) {
        return status;
    }
    memset(&store->upload, 0, sizeof store->upload);
    store->upload.slot = (uint8_t)es_store_free_slot(&store->state);
    store->upload.size = size;
    memcpy(store->upload.sha, sha, ES_STORE_SHA);
    return ES_STORE_OK;
}

uint32_t es_store_offset(const es_store *store)
{
    return store->upload.slot == ES_STORE_NO_SLOT ? 0 : store->upload.offset;
}

/* R9: every sector is erased by the session that fills it, when it gets there:
 * the wait is spread over the upload. */
static bool erase_at(es_store *store, uint32_t at)
{
    const es_flash *flash = store->flash;
    uint32_t address = flash->slot[store->upload.slot] + at;
    uint8_t first[ES_STORE_WRITE_UNIT];
    store->upload.erased = at + flash->sector_size;
    if (!ES_RULE(9) &&
        !flash->read(flash->user, address, first, sizeof first) &&
        first[0] == 0xFF && first[15] == 0xFF) {
        return true;
    }
    return !flash->erase(flash->user, address);
}

/* The tail is a whole unit, or the last one. */
static bool program_tail(es_store *store)
{
    const es_flash *flash = store->flash;
    uint32_t at = store->upload.offset - store->upload.tail_size;
    if (at == store->upload.erased && !erase_at(store, at)) {
        return false;
    }
    memset(store->upload.tail + store->upload.tail_size, 0xFF,
           flash->write_unit - store->upload.tail_size);
    store->upload.tail_size = 0;
    return !flash->program(flash->user, flash->slot[store->upload.slot] + at,
                           store->upload.tail, flash->write_unit);
}

es_store_status es_store_write(es_store *store, uint32_t offset,
                               const void *bytes, uint32_t size)
{
    const uint8_t *from = bytes;
    if (store->upload.slot == ES_STORE_NO_SLOT) {
        return ES_STORE_BADSTATE;
    }
    if (offset != store->upload.offset) {
        return ES_STORE_OFFSET;
    }
    if ((!bytes && size > 0) || size > store->upload.size - offset) {
        return ES_STORE_ARG;
    }
    for (uint32_t i = 0; i < size; i++) {
        store->upload.tail[store->upload.tail_size++] = from[i];
        store->upload.offset++;
        if (store->upload.tail_size == store->flash->write_unit &&
            !program_tail(store)) {
            store->upload.slot = ES_STORE_NO_SLOT;
            return ES_STORE_FLASH;
        }
    }
    return ES_STORE_OK;
}

/* R10: what counts is what stands in flash. */
static es_store_status examine(const es_store *store, uint32_t slot,
                               uint32_t *version)
{
    const es_store_hooks *hooks = store->hooks;
    const uint8_t *bytes = store->flash->bytes[slot];
    uint32_t size = store->upload.size;
    *version = 0;
    if (ES_RULE(10) &&
        !es_slot_has_hash(store->flash, slot, size, store->upload.sha)) {
        return ES_STORE_MISMATCH;
    }
    if (hooks && hooks->verify &&
        hooks->verify(hooks->user, store->upload.sha, bytes, size)) {
        return ES_STORE_SIGNATURE;
    }
    if (hooks && hooks->accept) {
        es_store_status status =
            hooks->accept(hooks->user, bytes, size, version);
        if (status) {
            return status;
        }
    }
    return *version < store->state.min_version ? ES_STORE_OLDER : ES_STORE_OK;
}

es_store_status es_store_finish(es_store *store)
{
    es_store_decision d;
    uint32_t slot = store->upload.slot, version;
    if (slot == ES_STORE_NO_SLOT) {
        return ES_STORE_BADSTATE;
    }
    if (store->upload.offset < store->upload.size) {
        return ES_STORE_OFFSET;
    }
    bool whole = store->upload.tail_size == 0 || program_tail(store);
    store->upload.slot = ES_STORE_NO_SLOT;
    es_store_status status =
        whole ? examine(store, slot, &version) : ES_STORE_FLASH;
    if (status) {
        return status;
    }
    es_store_decide(&store->state, ES_STORE_STAGE, 0, &d);
    d.next.slot[slot].version = version;
    d.next.slot[slot].size = store->upload.size;
    memcpy(d.next.slot[slot].sha, store->upload.sha, ES_STORE_SHA);
    return d.status ? d.status : es_log_append(store, &d.next);
}
