/* Group 1: the plan store, as SMP's image management. */
#include "link/link.h"

#include <string.h>

enum { STATE = 0, UPLOAD = 1, ERASE = 5, SLOT_INFO = 6, HASH = 32 };

static int refused(int rc)
{
    return rc == ES_IMAGE_OK ? 0 : ES_GROUP_RC + rc;
}

/* Version n is "n.0.0": plans have one number, SMP wants three. */
static void put_version(es_cbor_out *reply, uint32_t version)
{
    char text[16];
    uint32_t at = sizeof text;

    memcpy(text + (at -= 4), ".0.0", 4);
    do {
        text[--at] = (char)('0' + version % 10);
        version /= 10;
    } while (version != 0);
    (void)es_cbor_put_string(reply, "version");
    es_cbor_put_text(reply, text + at, (uint32_t)sizeof text - at);
}

static void put_slot(es_cbor_out *reply, uint32_t number,
                     const es_link_slot *slot)
{
    es_cbor_put_map(reply, 7);
    es_cbor_put_uint(reply, "slot", number);
    put_version(reply, slot->version);
    es_cbor_put_bytes(reply, "hash", slot->hash, HASH);
    es_cbor_put_bool(reply, "bootable", slot->bootable);
    es_cbor_put_bool(reply, "pending", slot->pending);
    es_cbor_put_bool(reply, "confirmed", slot->confirmed);
    es_cbor_put_bool(reply, "active", slot->active);
}

static int read_state(const es_link_images *images, es_cbor_out *reply)
{
    es_link_slot slot;
    uint32_t count = 0;

    for (uint32_t i = 0; i < images->slots; i++) {
        count += images->slot(images->user, i, &slot) == ES_IMAGE_OK;
    }
    es_cbor_put_map(reply, 1);
    (void)es_cbor_put_string(reply, "images");
    es_cbor_put_array(reply, count);
    for (uint32_t i = 0; i < images->slots; i++) {
        if (images->slot(images->user, i, &slot) == ES_IMAGE_OK) {
            put_slot(reply, i, &slot);
        }
    }
    return 0;
}

static int write_state(const es_link_images *images, const es_request *request,
                       es_cbor_out *reply)
{
    const uint8_t *hash = NULL;
    uint32_t size = HASH;
    bool confirm = false;
    es_cbor_found found = es_cbor_bytes(&request->map, "hash", &hash, &size);
    int rc;

    if (found == ES_CBOR_WRONG || size != HASH ||
        es_cbor_bool(&request->map, "confirm", &confirm) == ES_CBOR_WRONG ||
        (hash == NULL && !confirm)) {
        return ES_SMP_INVALID;
    }
    rc = confirm ? images->confirm(images->user, hash)
                 : images->test(images->user, hash);
    return rc != ES_IMAGE_OK ? refused(rc) : read_state(images, reply);
}

/* The first piece of an upload says how long it is and what its hash is. */
static int begin(es_link *link, const es_request *request)
{
    const es_link_images *images = link->config.images;
    const uint8_t *hash = NULL;
    uint32_t length, size = 0;
    int rc;

    if (es_cbor_uint(&request->map, "len", &length) != ES_CBOR_FOUND) {
        return ES_GROUP_RC + ES_IMAGE_NO_LENGTH;
    }
    if (es_cbor_bytes(&request->map, "sha", &hash, &size) != ES_CBOR_FOUND ||
        size != HASH) {
        return ES_GROUP_RC + ES_IMAGE_HASH;
    }
    rc = images->begin(images->user, length, hash);
    link->upload.open = rc == ES_IMAGE_OK;
    link->upload.size = length;
    return refused(rc);
}

static int write_piece(es_link *link, uint32_t offset, const uint8_t *data,
                       uint32_t size)
{
    const es_link_images *images = link->config.images;
    int rc = ES_IMAGE_OVERRUN;

    if (offset != images->offset(images->user)) {
        return 0; /* the reply says where to go on */
    }
    if (size <= link->upload.size - offset) {
        rc = images->write(images->user, data, size);
    }
    link->upload.open = rc == ES_IMAGE_OK;
    return refused(rc);
}

static int upload(es_link *link, const es_request *request, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;
    const uint8_t *data;
    uint32_t offset, size, done = 0;
    int rc = 0;
    bool all;

    if (es_cbor_uint(&request->map, "off", &offset) != ES_CBOR_FOUND) {
        return ES_GROUP_RC + ES_IMAGE_NO_OFFSET;
    }
    if (es_cbor_bytes(&request->map, "data", &data, &size) != ES_CBOR_FOUND) {
        return ES_SMP_INVALID;
    }
    if (offset == 0) {
        rc = begin(link, request);
    }
    if (rc == 0 && link->upload.open) {
        rc = write_piece(link, offset, data, size);
    }
    if (rc != 0) {
        return rc;
    }
    if (link->upload.open) {
        done = images->offset(images->user);
    }
    all = link->upload.open && done == link->upload.size;
    if (all) {
        link->upload.open = false;
        rc = images->finish(images->user);
        if (rc != ES_IMAGE_OK) {
            return refused(rc);
        }
    }
    es_cbor_put_map(reply, all ? 2 : 1);
    es_cbor_put_uint(reply, "off", done);
    if (all) {
        es_cbor_put_bool(reply, "match", true);
    }
    return 0;
}

static int erase(es_link *link, const es_request *request, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;
    uint32_t slot = 0;
    es_cbor_found found = es_cbor_uint(&request->map, "slot", &slot);
    int rc;

    if (found == ES_CBOR_WRONG || slot >= images->slots) {
        return ES_SMP_INVALID;
    }
    link->upload.open = false;
    rc = images->erase(images->user,
                       found == ES_CBOR_FOUND ? (int32_t)slot : -1);
    if (rc == ES_IMAGE_OK) {
        es_cbor_put_map(reply, 0);
    }
    return refused(rc);
}

static int slot_info(const es_link_images *images, es_cbor_out *reply)
{
    es_cbor_put_map(reply, 1);
    (void)es_cbor_put_string(reply, "images");
    es_cbor_put_array(reply, 1);
    es_cbor_put_map(reply, 3);
    es_cbor_put_uint(reply, "image", 0);
    (void)es_cbor_put_string(reply, "slots");
    es_cbor_put_array(reply, images->slots);
    for (uint32_t i = 0; i < images->slots; i++) {
        es_cbor_put_map(reply, 2);
        es_cbor_put_uint(reply, "slot", i);
        es_cbor_put_uint(reply, "size", images->slot_size);
    }
    es_cbor_put_uint(reply, "max_image_size", images->slot_size);
    return 0;
}

int es_link_image(es_link *link, const es_request *request, es_cbor_out *reply)
{
    const es_link_images *images = link->config.images;

    if (images == NULL) {
        return ES_SMP_NOT_SUPPORTED;
    }
    if (request->command == STATE) {
        return request->write ? write_state(images, request, reply)
                              : read_state(images, reply);
    }
    if (request->command == SLOT_INFO && !request->write) {
        return slot_info(images, reply);
    }
    if (!request->write) {
        return ES_SMP_NOT_SUPPORTED;
    }
    return request->command == UPLOAD  ? upload(link, request, reply)
           : request->command == ERASE ? erase(link, request, reply)
                                       : ES_SMP_NOT_SUPPORTED;
}
