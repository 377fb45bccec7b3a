/* What the groups of commands share. */
#ifndef ES_LINK_LINK_H
#define ES_LINK_LINK_H

#include "edgesparse/link.h"
#include "link/cbor.h"

enum { ES_SMP_HEADER = 8 };

enum { ES_GROUP_OS = 0, ES_GROUP_IMAGE = 1, ES_GROUP_EDGESPARSE = 64 };

/* What SMP itself refuses with. */
enum {
    ES_SMP_UNKNOWN = 1,
    ES_SMP_INVALID = 3,
    ES_SMP_NO_ENTRY = 5,
    ES_SMP_BAD_STATE = 6,
    ES_SMP_TOO_LONG = 7,
    ES_SMP_NOT_SUPPORTED = 8
};

/* What our own group refuses with. */
enum {
    ES_LINK_BAD_SID = 1,
    ES_LINK_GAP = 2,
    ES_LINK_BUSY = 3,
    ES_LINK_NO_PLAN = 4,
    ES_LINK_BAD_FORMAT = 5,
    ES_LINK_BAD_CRC = 6,
    ES_LINK_SELF_TEST = 7,
    ES_LINK_LOST = 8
};

typedef struct es_request {
    es_cbor_map map;
    uint32_t group, command;
    bool write;
    bool checked; /* carries a right CRC-32, `c` */
} es_request;

/* A command: writes its reply's map and returns 0, or returns what it refuses
 * with: an SMP code, or ES_GROUP_RC + the code of its group. */
enum { ES_GROUP_RC = 0x100 };
typedef int es_command(es_link *link, const es_request *request,
                       es_cbor_out *reply);

es_command es_link_os, es_link_image, es_link_edgesparse;

/* Group 64 by topic. */
es_command es_link_info, es_link_self_test, es_link_profile, es_link_latency,
    es_link_stats_read, es_link_run, es_link_memory_read;
es_command es_link_open, es_link_push, es_link_poll, es_link_close;

/* Microseconds now, and count what has passed since. */
uint32_t es_link_micros(const es_link *link);
typedef struct es_link_moment {
    uint32_t micros;
    uint32_t ticks; /* of the session's clock; 0 without one */
} es_link_moment;

es_link_moment es_link_now(const es_link *link);
uint32_t es_link_timed(es_link *link, es_link_moment since);

/* Little-endian. */
void es_put_u32(uint8_t *at, uint32_t value);
void es_put_u64(uint8_t *at, uint64_t value);

#endif /* ES_LINK_LINK_H */
