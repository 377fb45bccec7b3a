#include "store/record.h"

#include <stddef.h>
#include <string.h>

#include "plan/crc32.h"
#include "store/rules.h"

enum { MAGIC = 0x31535345, BODY = 112, BLANK = 0xFF }; /* "ESS1" */

/* The bytes in flash are the struct, the core is little-endian. */
typedef char body_has_no_gaps[sizeof(es_record_body) == BODY ? 1 : -1];

static const uint8_t mark[ES_STORE_WRITE_UNIT] = {
    0x5A, 0x96, 0x3C, 0xC3, 0x69, 0xA5, 0x0F, 0xF0,
    0x33, 0xCC, 0x55, 0xAA, 0x99, 0x66, 0xC3, 0x3C};

static uint32_t crc_of(const es_record_body *body)
{
    return es_crc32(0, body, offsetof(es_record_body, crc));
}

static bool names_plan(const es_store_state *state, uint32_t slot)
{
    return slot == ES_STORE_NO_SLOT || (slot < 2 && state->slot[slot].size > 0);
}

/* A state that decide.c may meet. A CRC proves who wrote it, not that it was
 * written for this layout. */
static bool is_sane(const es_store_state *state, uint32_t slot_size)
{
    bool trial = state->trial != ES_STORE_NO_SLOT;
    return names_plan(state, state->confirmed) &&
           names_plan(state, state->trial) &&
           state->slot[0].size <= slot_size &&
           state->slot[1].size <= slot_size &&
           state->phase <= ES_STORE_TRIAL_RUNNING &&
           trial == (state->phase != ES_STORE_TRIAL_NONE) &&
           !(trial && state->trial == state->confirmed);
}

static bool is_blank(const void *bytes, uint32_t size)
{
    const uint8_t *at = bytes;
    while (size > 0 && at[size - 1] == BLANK) {
        size--;
    }
    return size == 0;
}

void es_record_read(const es_flash *flash, uint32_t address, es_record *record)
{
    uint8_t unit[ES_STORE_WRITE_UNIT];
    es_record_body *body = &record->body;
    bool read = !flash->read(flash->user, address, body, BODY);
    bool read_mark =
        !flash->read(flash->user, address + BODY, unit, flash->write_unit);
    record->valid = read && body->magic == MAGIC && body->crc == crc_of(body) &&
                    is_sane(&body->state, flash->slot_size);
    record->marked =
        record->valid && read_mark && !memcmp(unit, mark, flash->write_unit);
    record->blank = read && read_mark && is_blank(body, BODY) &&
                    is_blank(unit, flash->write_unit);
}

es_store_status es_record_write(const es_flash *flash, uint32_t address,
                                es_record_body *body)
{
    es_record back;
    body->magic = MAGIC;
    body->crc = crc_of(body);
    if (!ES_RULE(1)) {
        return flash->program(flash->user, address + BODY, mark,
                              flash->write_unit) ||
                       flash->program(flash->user, address, body, BODY)
                   ? ES_STORE_FLASH
                   : ES_STORE_OK;
    }
    /* R1: an interrupted body never has a mark, and nobody acts on a record
     * before it has been seen. */
    if (flash->program(flash->user, address, body, BODY) ||
        flash->program(flash->user, address + BODY, mark, flash->write_unit)) {
        return ES_STORE_FLASH;
    }
    es_record_read(flash, address, &back);
    return back.marked && !memcmp(&back.body, body, BODY) ? ES_STORE_OK
                                                          : ES_STORE_FLASH;
}

bool es_record_newer(uint32_t a, uint32_t b)
{
    return (a - b) - 1 < UINT32_MAX / 2;
}
