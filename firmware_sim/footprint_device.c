/* The smallest image with the RAM of link and plan store. */
#include "edgesparse/link.h"
#include "edgesparse/store.h"

#include "footprint.c"

enum { BUFFER = 1024, RING = 512 };

/* Beyond this file, so that they stay. */
extern es_link footprint_link;
extern es_store footprint_state;
extern uint8_t footprint_buffers[2][BUFFER + ES_LINK_CHECK];
extern uint8_t footprint_ring[RING];

es_link footprint_link;
es_store footprint_state;
uint8_t footprint_buffers[2][BUFFER + ES_LINK_CHECK];
uint8_t footprint_ring[RING];
