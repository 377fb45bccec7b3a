#include "store/log.h"

#include <string.h>

#include "store/rules.h"

/* The sector of the best record of a kind. */
typedef struct choice {
    uint32_t sector, rank;
    bool marked;
} choice;

static uint32_t records_of(const es_store *store)
{
    return store->flash->sector_size / ES_RECORD_STRIDE;
}

static void read_at(const es_store *store, uint32_t sector, uint32_t index,
                    es_record *record)
{
    es_record_read(store->flash,
                   store->flash->log[sector] + index * ES_RECORD_STRIDE,
                   record);
}

/* Takes over the newest record; gen 0: there is none. Returns whether it is
 * marked; `follows`: something stands behind it in its sector. */
static bool find_newest(es_store *store, bool *follows)
{
    es_record record;
    bool marked = false;
    for (uint32_t sector = 0; sector < ES_STORE_LOGS; sector++) {
        for (uint32_t index = 0; index < records_of(store); index++) {
            read_at(store, sector, index, &record);
            if (record.valid &&
                (store->gen == 0 ||
                 es_record_newer(record.body.seq, store->seq))) {
                store->state = record.body.state;
                store->seq = record.body.seq;
                store->gen = record.body.gen;
                store->log_erases = record.body.log_erases;
                store->sector = (uint8_t)sector;
                store->used = index + 1;
                marked = record.marked;
                *follows = false;
            } else if (store->sector == sector) {
                *follows |= !record.blank;
            }
        }
    }
    return marked;
}

/* Marked before not; then the newer rank. */
static void choose(choice *best, uint32_t sector, uint32_t rank, bool marked)
{
    if (best->sector == ES_STORE_LOGS || marked > best->marked ||
        (marked == best->marked && es_record_newer(rank, best->rank))) {
        best->sector = sector;
        best->rank = rank;
        best->marked = marked;
    }
}

/* R6: bit i: sector i may not be erased before the newest state, which has no
 * mark, is durable. Of its copies the newest one with a mark must stay: half
 * erased it could still look like the state that counts. Without a mark the
 * oldest is the one that may have counted. And of the states before it, the
 * newest that is marked, if any is. */
static uint8_t sectors_to_keep(const es_store *store)
{
    choice copy = {store->sector, ~store->seq, false}, oldest = copy;
    choice older = {ES_STORE_LOGS, 0, false};
    es_record record;
    for (uint32_t sector = 0; sector < ES_STORE_LOGS; sector++) {
        for (uint32_t index = 0; index < records_of(store); index++) {
            read_at(store, sector, index, &record);
            uint32_t seq = record.body.seq;
            if (!record.valid) {
                continue;
            }
            if (record.body.gen == store->gen) {
                choose(&oldest, sector, ~seq, false);
                choose(&copy, sector, record.marked ? seq : ~seq,
                       record.marked);
            } else if (es_record_newer(store->gen, record.body.gen)) {
                choose(&older, sector, seq, record.marked);
            }
        }
    }
    /* Where both are in one sector there is room for another copy. */
    uint32_t second = store->sector;
    if (older.sector < ES_STORE_LOGS && older.sector != copy.sector) {
        second = older.sector;
    } else if (oldest.sector != copy.sector) {
        second = oldest.sector;
    }
    return (uint8_t)(1 << copy.sector | 1 << second);
}

/* R2: the first record of a session goes to a sector that this session has
 * erased; what looks blank may have been half written. R3: the others must not
 * come back either. */
static es_store_status open_sector(es_store *store)
{
    uint32_t next = ES_STORE_LOGS, sector = store->sector;
    for (uint32_t i = 0; i < ES_STORE_LOGS; i++) {
        sector = sector == ES_STORE_LOGS - 1 ? 0 : sector + 1;
        if (store->keep >> sector & 1 ||
            (!ES_RULE(3) && next < ES_STORE_LOGS)) {
            continue;
        }
        if (store->flash->erase(store->flash->user,
                                store->flash->log[sector])) {
            return ES_STORE_FLASH;
        }
        store->log_erases++;
        next = next < ES_STORE_LOGS ? next : sector;
    }
    store->sector = (uint8_t)next;
    store->used = 0;
    store->fresh = 1;
    return ES_STORE_OK;
}

static bool may_reuse(es_store *store)
{
    es_record record;
    if (ES_RULE(2) || store->fresh || store->gen == 0 ||
        store->used == records_of(store)) {
        return false;
    }
    read_at(store, store->sector, store->used, &record);
    return record.blank;
}

/* gen 0: a new state. */
static es_store_status commit(es_store *store, const es_store_state *state,
                              uint32_t gen)
{
    es_record_body body;
    uint32_t step = 1;
    if ((!store->fresh && !may_reuse(store)) ||
        store->used == records_of(store)) {
        es_store_status status = open_sector(store);
        if (status) {
            return status;
        }
        /* R4: above whatever an interrupted record may carry. */
        step = ES_RULE(4) ? 2 * records_of(store) : 1;
    }
    store->seq += step;
    store->seq += store->seq == 0; /* 0 is no gen */
    body.seq = store->seq;
    body.gen = gen ? gen : body.seq;
    body.state = *state;
    body.log_erases = store->log_erases;
    uint32_t index = store->used++;
    store->fresh = !es_record_write(
        store->flash,
        store->flash->log[store->sector] + index * ES_RECORD_STRIDE, &body);
    if (!store->fresh) { /* go on in another sector */
        return ES_STORE_FLASH;
    }
    store->gen = body.gen;
    store->state = body.state;
    store->keep = (uint8_t)(1 << store->sector);
    return ES_STORE_OK;
}

es_store_status es_log_append(es_store *store, const es_store_state *next)
{
    return commit(store, next, 0);
}

es_store_status es_log_mount(es_store *store)
{
    bool follows = false;
    store->sector = ES_STORE_LOGS - 1;
    store->state.confirmed = ES_STORE_NO_SLOT;
    store->state.trial = ES_STORE_NO_SLOT;
    bool marked = find_newest(store, &follows);
    if (store->gen == 0) {
        return ES_STORE_OK;
    }
    store->keep = (uint8_t)(1 << store->sector);
    if (!marked && ES_RULE(6)) {
        store->keep = sectors_to_keep(store);
    }
    /* R5: a record that may be gone the next time is written again before
     * anything acts on it. */
    return ES_RULE(5) && (!marked || follows)
               ? commit(store, &store->state, store->gen)
               : ES_STORE_OK;
}
