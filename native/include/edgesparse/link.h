/* edgesparse: the link to a device, SMP v2 over a serial line (docs/LINK.md).
 *
 * Bytes in, bytes out: feed what the line brings, and replies leave through
 * `send`. No allocation, no global state, no clock needed: what a request asks
 * for has been done, and its reply sent, when es_link_feed returns. Received
 * bytes are not trusted. Both framings are understood, per frame, and a reply
 * leaves in the framing of its request. */
#ifndef EDGESPARSE_LINK_H
#define EDGESPARSE_LINK_H

#include "edgesparse/edgesparse.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Least and greatest es_link_config.buf_size, in bytes. */
#define ES_LINK_MIN_BUFFER 256
#define ES_LINK_MAX_BUFFER 32768
/* Bytes a buffer needs beyond buf_size: the check of the frame. */
#define ES_LINK_CHECK 2

/* What the image group answers when it refuses (docs/LINK.md, group 1). The
 * numbers are those of SMP's image group, so that any client can name them. */
typedef enum es_image_rc {
    ES_IMAGE_OK = 0,
    ES_IMAGE_UNKNOWN = 1,
    ES_IMAGE_EMPTY = 3,     /* the slot has no plan */
    ES_IMAGE_SIGNATURE = 4, /* missing or wrong */
    ES_IMAGE_NO_HASH = 8,   /* no plan has this hash */
    ES_IMAGE_FLASH = 12,
    ES_IMAGE_IN_USE = 14, /* the slot runs until the next reset */
    ES_IMAGE_RAM = 15,    /* the plan needs more than there is */
    ES_IMAGE_NO_OFFSET = 20,
    ES_IMAGE_NO_LENGTH = 21,
    ES_IMAGE_FORMAT = 22,  /* a plan of another format version */
    ES_IMAGE_DAMAGED = 23, /* not a plan, or it breaks an invariant */
    ES_IMAGE_HASH = 24,    /* missing, or not that of the bytes in flash */
    ES_IMAGE_RATE = 25,    /* another sample rate or number of channels */
    ES_IMAGE_OLDER = 27,   /* a version below the least allowed */
    ES_IMAGE_PENDING = 28, /* a trial needs both slots */
    ES_IMAGE_TARGET = 29,  /* the plan was made for another target */
    ES_IMAGE_TOO_LARGE = 30,
    ES_IMAGE_OVERRUN = 31, /* more bytes than announced */
    ES_IMAGE_CONFIRM = 32  /* only the plan that runs can be confirmed */
} es_image_rc;

typedef struct es_link_slot {
    uint8_t hash[32]; /* SHA-256 of the plan */
    uint32_t version;
    bool bootable;  /* may be run */
    bool pending;   /* runs at the next start, as a trial */
    bool confirmed; /* runs at every start */
    bool active;    /* runs now */
} es_link_slot;

/* The plan store as the link sees it; the firmware fills this table. Each
 * function returns an es_image_rc. Bytes of an upload come in order and
 * without a gap, any number at a time. */
typedef struct es_link_images {
    uint32_t slots;     /* numbered from 0 */
    uint32_t slot_size; /* bytes */
    /* ES_IMAGE_EMPTY: it has no plan. */
    int (*slot)(void *user, uint32_t slot, es_link_slot *info);
    /* An upload of `size` bytes begins, or goes on where the last one with the
     * same size and hash stopped. */
    int (*begin)(void *user, uint32_t size, const uint8_t hash[32]);
    uint32_t (*offset)(void *user); /* bytes received of the upload */
    int (*write)(void *user, const uint8_t *bytes, uint32_t size);
    /* All bytes are written: hash them as they stand in flash, list them. */
    int (*finish)(void *user);
    int (*test)(void *user, const uint8_t hash[32]);
    int (*confirm)(void *user, const uint8_t hash[32]); /* NULL: what runs */
    int (*erase)(void *user, int32_t slot); /* -1: the one that is not used */
    void *user;
} es_link_images;

/* RAM, in bytes, and why the firmware started last. */
typedef struct es_link_memory {
    uint32_t stack, stack_max;  /* all, and the most there was in use */
    uint32_t arena, arena_used; /* all, and what the plan takes */
    uint32_t fixed;             /* of variables and buffers */
    uint32_t cause; /* 0 power or a button, 1 by command, 2 a fault, 3 the
                       watchdog */
    uint32_t pc;    /* 2, 3: where it was */
} es_link_memory;

typedef struct es_link_config {
    uint8_t *rx, *tx;   /* [buf_size + ES_LINK_CHECK] each; rx on an even
                           address */
    uint32_t buf_size;  /* longest message, header included */
    uint8_t *ring;      /* [ring_size] results wait here until acknowledged */
    uint32_t ring_size; /* 0: no streams */
    void (*send)(void *user, const uint8_t *bytes, size_t size);
    void (*reset)(void *user);      /* after the reply; NULL: refused */
    uint32_t (*micros)(void *user); /* free running; NULL: times are 0 */
    void (*memory)(void *user, es_link_memory *memory); /* NULL: refused */
    void *user;                      /* given to the four above */
    uint32_t ticks_per_second;       /* of the session's clock; 0: unknown */
    const es_link_images *images;    /* NULL: no plan store */
    es_session *session;             /* of the plan that runs; NULL: none */
    const es_step_counter *counters; /* of that session; NULL: no profile */
    const char *isa; /* of the kernels, 23 characters at most; NULL: "c" */
} es_link_config;

/* Counted since es_link_init; all wrap. */
typedef struct es_link_stats {
    uint32_t rx, tx;   /* bytes */
    uint32_t frames;   /* well formed, CRC right */
    uint32_t crc;      /* dropped: wrong CRC */
    uint32_t enc;      /* dropped: not base64, COBS or SMP */
    uint32_t too_long; /* dropped: longer than the buffer */
    uint32_t restart;  /* frames that began inside another */
    uint32_t dup;      /* writes seen before: not done again */
    uint32_t gap;      /* pushes refused: samples in between are missing */
    uint32_t overrun;  /* of the UART: es_link_overrun */
    uint32_t infer;    /* runs by command */
    uint32_t drop;     /* results lost because the ring was full */
} es_link_stats;

#define ES_LINK_BINS 24 /* of the histogram of times, by powers of two us */

typedef struct es_link_times {
    uint32_t count, max;
    uint64_t sum;
    uint32_t ticks; /* sum by the session's clock; wraps */
    uint32_t bins[ES_LINK_BINS];
} es_link_times;

/* Content private, size public. */
typedef struct es_link {
    /* What is used most comes first: short offsets are short instructions. */
    struct {
        uint8_t state, before, code, left, quad, padding, skip;
        uint32_t have, need, bits;
    } frame;
    struct {
        bool open, runs, ended;
        uint32_t id, next, made, acked, record;
    } stream;
    es_link_config config;
    es_link_stats stats;
    uint32_t upload; /* bytes announced; 0: no upload */
    struct {
        uint8_t header[8];
        uint32_t crc, reply;
    } last; /* the write that was done last */
    es_link_times times;
} es_link;

/* The plan store (store.h) as `images`: a trial has one start before it is
 * reverted. `store` has been mounted and must outlive the link. */
struct es_store;
es_link_images es_link_store_images(struct es_store *store);

/* Returns ES_OK or ES_ERR_ARG. What the pointers of `config` name must stay;
 * `config` itself is copied. */
ES_MUST_CHECK es_status es_link_init(es_link *link,
                                     const es_link_config *config);

/* Take one byte from the line. Replies leave before it returns. */
void es_link_feed(es_link *link, uint8_t byte);

/* The line has been quiet for long (0.5 s): drop what is half received. Not
 * needed, but a client that comes after one that died is heard sooner. */
void es_link_idle(es_link *link);

/* The UART has lost bytes. */
void es_link_overrun(es_link *link);

#ifdef __cplusplus
}
#endif
#endif /* EDGESPARSE_LINK_H */
