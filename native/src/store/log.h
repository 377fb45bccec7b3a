/* The log: three sectors of records, the newest is the state. */
#ifndef ES_STORE_LOG_H
#define ES_STORE_LOG_H

#include "store/record.h"

/* Find the state and make sure of it. ES_STORE_FLASH: that failed. */
es_store_status es_log_mount(es_store *store);

/* Make `next` the state, durably. */
es_store_status es_log_append(es_store *store, const es_store_state *next);

#endif /* ES_STORE_LOG_H */
