/* What the groups of commands share. */
#ifndef ES_LINK_LINK_H
#define ES_LINK_LINK_H

#include "edgesparse/link.h"
#include "link/cbor.h"

/* What a firmware may leave out (CMake: ES_LINK_STREAMS, ES_LINK_CONSOLE). */
#ifdef ES_LINK_WITHOUT_CONSOLE
enum { ES_LINK_CONSOLE = 0 };
#else
enum { ES_LINK_CONSOLE = 1 };
#endif
#ifdef ES_LINK_WITHOUT_STREAMS
enum { ES_LINK_STREAMS = 0 };
#else
enum { ES_LINK_STREAMS = 1 };
#endif

enum { ES_SMP_HEADER = 8 };

enum { ES_GROUP_OS = 0, ES_GROUP_IMAGE = 1, ES_GROUP_EDGESPARSE = 64 };

/* What SMP itself refuses with. */
enum {
    ES_SMP_UNKNOWN = 1,
    ES_SMP_INVALID = 3,
    ES_SMP_TOO_LONG = 7,
    ES_SMP_NOT_SUPPORTED = 8,
    ES_SMP_BAD_STATE = 6
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

enum { ES_LINK_ARGUMENTS = 5 }; /* of a request, at most */

/* A command: finds its arguments in the order in which link.c names them,
 * writes its reply's map and returns 0, or returns what it refuses with: an SMP
 * code, or ES_GROUP_RC + the code of its group. */
enum { ES_GROUP_RC = 128 };
typedef int es_command(es_link *link, const es_argument *arguments,
                       es_cbor_out *reply);

es_command es_link_state, es_link_set_state, es_link_upload, es_link_erase,
    es_link_slots;
es_command es_link_info, es_link_stats_read, es_link_self_test, es_link_profile,
    es_link_latency, es_link_run, es_link_memory_read;
es_command es_link_open, es_link_push, es_link_poll, es_link_close;

/* Microseconds now, and count what has passed since. */
uint32_t es_link_micros(const es_link *link);
typedef struct es_link_moment {
    uint32_t micros;
    uint32_t ticks; /* of the session's clock; 0 without one */
} es_link_moment;

es_link_moment es_link_now(const es_link *link);
uint32_t es_link_timed(es_link *link, es_link_moment since);

/* Bytes of all outputs. */
uint32_t es_link_outputs(const es_session *session);

/* Little-endian; returns what is behind it. */
uint8_t *es_put_u32(uint8_t *at, uint32_t value);
uint8_t *es_put_u64(uint8_t *at, uint64_t value);

#endif /* ES_LINK_LINK_H */
