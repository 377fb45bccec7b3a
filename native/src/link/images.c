/* Group 1: the plan store, as SMP's image management. */
#include "link/link.h"

#include <string.h>

enum { HASH = 32 };

static int refused(int rc)
{
    return rc == ES_IMAGE_OK ? 0 : ES_GROUP_RC + rc;
}

static void put_slot(es_cbor_out *reply, uint32_t number,
                     const es_link_slot *slot)
{
    /* Version n is "n.0.0": plans have one number, SMP wants three. */
    char text[10 + 4];
    uint32_t at = 10, version = slot->version;

    memcpy(text + at, ".0.0", 4);
    do {
        text[--at] = (char)('0' + version % 10);
        version /= 10;
    } while (version != 0);
    es_cbor_put(
        reply,
        ES_UINT("slot") ES_TEXT("version") ES_BYTES("hash") ES_BOOL("bootable")
            ES_BOOL("pending") ES_BOOL("confirmed") ES_BOOL("active"),
        number, text + at, (uint32_t)sizeof text - at, slot->hash,
        (uint32_t)HASH, (uint32_t)slot->bootable, (uint32_t)slot->pending,
        (uint32_t)slot->confirmed, (uint32_t)slot->active);
}

int es_link_state(es_link *link, const es_argument *none, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;
    uint8_t *head;

    (void)none;
    es_cbor_put(reply, ES_ARRAY("images"), (uint32_t)0);
    head = reply->at - 1;
    for (uint32_t i = 0; i < images->slots; i++) {
        es_link_slot slot;
        if (images->slot(images->user, i, &slot) == ES_IMAGE_OK) {
            ++*head; /* one more item of the array */
            put_slot(reply, i, &slot);
        }
    }
    return 0;
}

int es_link_set_state(es_link *link, const es_argument *arguments,
                      es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;
    const es_argument *hash = &arguments[0], *confirm = &arguments[1];
    int rc;

    if (hash->bytes != NULL ? hash->value != HASH : !confirm->value) {
        return ES_SMP_INVALID;
    }
    rc = (confirm->value ? images->confirm : images->test)(images->user,
                                                           hash->bytes);
    return rc != ES_IMAGE_OK ? refused(rc) : es_link_state(link, NULL, reply);
}

/* The first piece of an upload says how long it is and what its hash is. */
static int begin(es_link *link, const es_argument *length,
                 const es_argument *hash)
{
    const es_link_images *images = link->config.images;
    int rc;

    if (length->bytes == NULL) {
        return ES_IMAGE_NO_LENGTH;
    }
    if (hash->value != HASH) {
        return ES_IMAGE_HASH;
    }
    rc = images->begin(images->user, length->value, hash->bytes);
    link->upload = rc == ES_IMAGE_OK ? length->value : 0;
    return rc;
}

/* Takes a piece if it is the next one; otherwise the reply says where to go
 * on. `done`: of the upload, so far. */
static int write_piece(es_link *link, uint32_t offset, const es_argument *data,
                       uint32_t *done)
{
    const es_link_images *images = link->config.images;
    int rc = ES_IMAGE_OK;

    *done = images->offset(images->user);
    if (offset == *done) {
        rc = data->value > link->upload - offset
                 ? ES_IMAGE_OVERRUN
                 : images->write(images->user, data->bytes, data->value);
        *done += data->value;
    }
    if (rc != ES_IMAGE_OK || *done == link->upload) {
        link->upload = 0;
        rc = rc != ES_IMAGE_OK ? rc : images->finish(images->user);
    }
    return rc;
}

int es_link_upload(es_link *link, const es_argument *arguments,
                   es_cbor_out *reply)
{
    const es_argument *offset = &arguments[0];
    uint32_t done = 0;
    int rc = offset->bytes != NULL ? ES_IMAGE_OK : ES_IMAGE_NO_OFFSET;
    bool all = false;

    if (rc == ES_IMAGE_OK && offset->value == 0) {
        rc = begin(link, &arguments[2], &arguments[3]);
    }
    if (rc == ES_IMAGE_OK && link->upload != 0) {
        rc = write_piece(link, offset->value, &arguments[1], &done);
        all = link->upload == 0;
    }
    /* Without `match`, the format ends before it. */
    es_cbor_put(reply, all ? ES_UINT("off") ES_BOOL("match") : ES_UINT("off"),
                done, (uint32_t)1);
    return refused(rc);
}

int es_link_erase(es_link *link, const es_argument *slot, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;

    if (slot->value >= images->slots) {
        return ES_SMP_INVALID;
    }
    link->upload = 0;
    es_cbor_put(reply, "");
    return refused(images->erase(
        images->user, slot->bytes != NULL ? (int32_t)slot->value : -1));
}

int es_link_slots(es_link *link, const es_argument *none, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;

    (void)none;
    es_cbor_put(reply, ES_ARRAY("images"), (uint32_t)1);
    es_cbor_put(reply,
                ES_UINT("image") ES_UINT("max_image_size") ES_ARRAY("slots"),
                (uint32_t)0, images->slot_size, images->slots);
    for (uint32_t i = 0; i < images->slots; i++) {
        es_cbor_put(reply, ES_UINT("slot") ES_UINT("size"), i,
                    images->slot_size);
    }
    return 0;
}
