#include "store/log.h"

#include <string.h>

#include "store/rules.h"

/* Sectors of the newest records, while the log is searched. */
typedef struct survey {
    es_record_body newest;
    bool found, marked;
    uint32_t sector, index; /* of the newest */
    bool follows;           /* something stands behind it in its sector */
    /* R6: what a copy of the newest must not destroy. */
    bool copy_marked;
    uint32_t copy, copy_seq, oldest, oldest_seq;
    bool older, older_marked;
    uint32_t older_sector, older_seq;
} survey;

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

static void find_newest(const es_store *store, survey *found)
{
    es_record record;
    for (uint32_t sector = 0; sector < ES_STORE_LOGS; sector++) {
        for (uint32_t index = 0; index < records_of(store); index++) {
            read_at(store, sector, index, &record);
            if (record.valid &&
                (!found->found ||
                 es_record_newer(record.body.seq, found->newest.seq))) {
                found->newest = record.body;
                found->found = true;
                found->marked = record.marked;
                found->sector = sector;
                found->index = index;
                found->follows = false;
            } else if (found->found && found->sector == sector) {
                found->follows |= !record.blank;
            }
        }
    }
}

/* A record of the newest state. The newest one with a mark must stay: half
 * erased it could still look like the state that counts. Without a mark the
 * oldest is the one that may have counted. */
static void note_copy(survey *found, const es_record *record, uint32_t sector)
{
    if (es_record_newer(found->oldest_seq, record->body.seq)) {
        found->oldest = sector;
        found->oldest_seq = record->body.seq;
    }
    if (record->marked > found->copy_marked ||
        (record->marked == found->copy_marked &&
         (record->marked
              ? es_record_newer(record->body.seq, found->copy_seq)
              : es_record_newer(found->copy_seq, record->body.seq)))) {
        found->copy_marked = record->marked;
        found->copy = sector;
        found->copy_seq = record->body.seq;
    }
}

/* A record of an earlier state: the newest one that is marked, if any is. */
static void note_older(survey *found, const es_record *record, uint32_t sector)
{
    if (!found->older || record->marked > found->older_marked ||
        (record->marked == found->older_marked &&
         es_record_newer(record->body.seq, found->older_seq))) {
        found->older = true;
        found->older_marked = record->marked;
        found->older_sector = sector;
        found->older_seq = record->body.seq;
    }
}

/* Bit i: sector i may not be erased before the newest state is durable. */
static uint8_t sectors_to_keep(const es_store *store, survey *found)
{
    es_record record;
    if (found->marked || !ES_RULE(6)) {
        return (uint8_t)(1 << found->sector);
    }
    found->copy = found->oldest = found->sector;
    found->copy_seq = found->oldest_seq = found->newest.seq;
    for (uint32_t sector = 0; sector < ES_STORE_LOGS; sector++) {
        for (uint32_t index = 0; index < records_of(store); index++) {
            read_at(store, sector, index, &record);
            if (!record.valid) {
                continue;
            }
            if (record.body.gen == found->newest.gen) {
                note_copy(found, &record, sector);
            } else if (es_record_newer(found->newest.gen, record.body.gen)) {
                note_older(found, &record, sector);
            }
        }
    }
    /* Where both are in one sector there is room for another copy. */
    uint32_t second = found->sector;
    if (found->older && found->older_sector != found->copy) {
        second = found->older_sector;
    } else if (found->oldest != found->copy) {
        second = found->oldest;
    }
    return (uint8_t)(1 << found->copy | 1 << second);
}

/* R2: the first record of a session goes to a sector that this session has
 * erased; what looks blank may have been half written. R3: the others must not
 * come back either. */
static es_store_status open_sector(es_store *store)
{
    uint32_t next = ES_STORE_LOGS;
    for (uint32_t i = 1; i <= ES_STORE_LOGS; i++) {
        uint32_t sector = (store->sector + i) % ES_STORE_LOGS;
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
    store->fresh = 1;
    store->seq += step;
    store->seq += store->seq == 0; /* 0 is no gen */
    body.seq = store->seq;
    body.gen = gen ? gen : body.seq;
    body.state = *state;
    body.log_erases = store->log_erases;
    if (es_record_write(store->flash,
                        store->flash->log[store->sector] +
                            store->used++ * ES_RECORD_STRIDE,
                        &body)) {
        store->fresh = 0; /* go on in another sector */
        return ES_STORE_FLASH;
    }
    store->gen = body.gen;
    store->state = *state;
    store->keep = (uint8_t)(1 << store->sector);
    return ES_STORE_OK;
}

es_store_status es_log_append(es_store *store, const es_store_state *next)
{
    return commit(store, next, 0);
}

es_store_status es_log_mount(es_store *store)
{
    survey found;
    memset(&found, 0, sizeof found);
    find_newest(store, &found);
    if (!found.found) {
        store->sector = ES_STORE_LOGS - 1;
        store->state.confirmed = ES_STORE_NO_SLOT;
        store->state.trial = ES_STORE_NO_SLOT;
        return ES_STORE_OK;
    }
    store->state = found.newest.state;
    store->seq = found.newest.seq;
    store->gen = found.newest.gen;
    store->log_erases = found.newest.log_erases;
    store->sector = (uint8_t)found.sector;
    store->used = found.index + 1;
    store->keep = sectors_to_keep(store, &found);
    /* R5: a record that may be gone the next time is written again before
     * anything acts on it. */
    if (ES_RULE(5) && (!found.marked || found.follows)) {
        es_store_state state = store->state;
        return commit(store, &state, store->gen);
    }
    return ES_STORE_OK;
}
