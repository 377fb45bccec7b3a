/* The plan store behind the image group. */
#include "edgesparse/link.h"
#include "edgesparse/store.h"

#include <string.h>

enum { TRIES = 1 }; /* starts of a trial before it is reverted */

static int code(es_store_status status)
{
    switch (status) {
    case ES_STORE_OK:
        return ES_IMAGE_OK;
    case ES_STORE_FLASH:
        return ES_IMAGE_FLASH;
    case ES_STORE_NONE:
        return ES_IMAGE_NO_HASH;
    case ES_STORE_TRIAL:
        return ES_IMAGE_PENDING;
    case ES_STORE_IN_USE:
        return ES_IMAGE_IN_USE;
    case ES_STORE_BADSTATE:
    case ES_STORE_NOT_RUNNING:
        return ES_IMAGE_CONFIRM;
    case ES_STORE_TOO_LARGE:
        return ES_IMAGE_TOO_LARGE;
    case ES_STORE_MISMATCH:
        return ES_IMAGE_HASH;
    case ES_STORE_OLDER:
        return ES_IMAGE_OLDER;
    case ES_STORE_SIGNATURE:
        return ES_IMAGE_SIGNATURE;
    case ES_STORE_PLAN_DAMAGED:
        return ES_IMAGE_DAMAGED;
    case ES_STORE_PLAN_FORMAT:
        return ES_IMAGE_FORMAT;
    case ES_STORE_PLAN_TARGET:
        return ES_IMAGE_TARGET;
    case ES_STORE_PLAN_RAM:
        return ES_IMAGE_RAM;
    case ES_STORE_PLAN_RATE:
        return ES_IMAGE_RATE;
    default:
        return ES_IMAGE_UNKNOWN;
    }
}

static int slot(void *user, uint32_t number, es_link_slot *info)
{
    es_store_slot row = es_store_slot_of(user, number);

    if (row.size == 0) {
        return ES_IMAGE_EMPTY;
    }
    memcpy(info->hash, row.sha, sizeof info->hash);
    info->version = row.version;
    info->bootable = true;
    info->pending = row.pending;
    info->confirmed = row.confirmed;
    info->active = row.active;
    return ES_IMAGE_OK;
}

static int begin(void *user, uint32_t size, const uint8_t hash[32])
{
    return code(es_store_begin(user, size, hash));
}

static uint32_t offset(void *user)
{
    return es_store_offset(user);
}

static int write(void *user, const uint8_t *bytes, uint32_t size)
{
    return code(es_store_write(user, es_store_offset(user), bytes, size));
}

static int finish(void *user)
{
    return code(es_store_finish(user));
}

static int test(void *user, const uint8_t hash[32])
{
    return code(es_store_test(user, hash, TRIES));
}

static int confirm(void *user, const uint8_t *hash)
{
    return code(es_store_confirm(user, hash));
}

/* The store erases the one slot it can; another one has nothing to erase. */
static int erase(void *user, int32_t number)
{
    const es_store_state *state = es_store_state_of(user);

    if (number >= 0 && number == state->confirmed) {
        return ES_IMAGE_IN_USE;
    }
    if (number >= 0 && state->slot[number].size == 0) {
        return ES_IMAGE_EMPTY;
    }
    return code(es_store_erase(user));
}

es_link_images es_link_store_images(es_store *store)
{
    static const es_link_images functions = {.slots = 2,
                                             .slot = slot,
                                             .begin = begin,
                                             .offset = offset,
                                             .write = write,
                                             .finish = finish,
                                             .test = test,
                                             .confirm = confirm,
                                             .erase = erase};
    es_link_images images = functions;
    images.slot_size = store->flash->slot_size;
    images.user = store;
    return images;
}
