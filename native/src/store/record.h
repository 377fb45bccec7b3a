/* One record of the log: body, then a commit mark of one write unit. */
#ifndef ES_STORE_RECORD_H
#define ES_STORE_RECORD_H

#include <stdbool.h>

#include "edgesparse/store.h"

enum { ES_RECORD_STRIDE = 128 };

/* docs/STORE.md section 2, in the order of the bytes in flash. */
typedef struct es_record_body {
    uint32_t magic;
    uint32_t seq; /* the newest one counts */
    es_store_state state;
    uint32_t log_erases; /* since the store is new */
    uint32_t gen;        /* seq of the first record with this state */
    uint32_t crc;
} es_record_body;

typedef struct es_record {
    es_record_body body;
    bool valid;  /* the body is whole */
    bool marked; /* and so is the mark: the body will stay so */
    bool blank;  /* every byte reads as erased */
} es_record;

/* An error of a read is no record, and not blank. */
void es_record_read(const es_flash *flash, uint32_t address, es_record *record);

/* Completes magic and CRC. On ES_STORE_OK the record is durable. */
es_store_status es_record_write(const es_flash *flash, uint32_t address,
                                es_record_body *body);

/* `a` is newer than `b`: numbers wrap around. */
bool es_record_newer(uint32_t a, uint32_t b);

#endif /* ES_STORE_RECORD_H */
