/* The state table of docs/STORE.md section 4 as one function. */
#ifndef ES_STORE_DECIDE_H
#define ES_STORE_DECIDE_H

#include <stdbool.h>

#include "edgesparse/store.h"

typedef enum es_store_event {
    ES_STORE_BEGIN,   /* of an upload */
    ES_STORE_STAGE,   /* the plan of the upload is in its slot */
    ES_STORE_TEST,    /* argument: slot, or ES_STORE_NO_SLOT */
    ES_STORE_BOOT,    /* argument: bit i: slot i has not its hash */
    ES_STORE_CONFIRM, /* of what runs */
    ES_STORE_REVERT,
    ES_STORE_ERASE,
    ES_STORE_MINIMUM, /* argument: the least version from now on */
    ES_STORE_EVENTS
} es_store_event;

typedef struct es_store_decision {
    es_store_status status;
    bool writes;         /* `next` is to be made durable */
    uint8_t run;         /* BOOT: slot to run, or ES_STORE_NO_SLOT */
    es_store_state next; /* `now` where nothing changes */
} es_store_decision;

/* Total: every state that a record may hold has an answer to every event. */
void es_store_decide(const es_store_state *now, es_store_event event,
                     uint32_t argument, es_store_decision *decision);

/* The slot for the next upload: not the confirmed one. */
uint32_t es_store_free_slot(const es_store_state *now);

#endif /* ES_STORE_DECIDE_H */
