/* What the images exact.c and soak.c have in common: QEMU has put a plan and
 * what it is to work on where the firmware's flash is. Little-endian words:
 *   bytes of the plan, a, b, c   then the plan, padded to 16 bytes, then data
 * edgesparse/device/preloaded.py makes it; a, b and c are the image's own. */
#ifndef ES_PRELOADED_H
#define ES_PRELOADED_H

#include "board.h"

#include "edgesparse/edgesparse.h"

enum { ARENA = 1 << 20 };

typedef struct preloaded {
    uint32_t plan_bytes, a, b, c;
    uint8_t bytes[];
} preloaded;

static inline const preloaded *es_preloaded(void)
{
    return (const preloaded *)(uintptr_t)ES_NVM;
}

static inline const uint8_t *es_preloaded_data(void)
{
    const preloaded *p = es_preloaded();
    return p->bytes + (p->plan_bytes + 15) / 16 * 16;
}

/* The plan, opened, on the arena. */
static inline es_status es_preloaded_start(es_plan *plan, es_session *session,
                                           uint8_t *arena)
{
    const preloaded *p = es_preloaded();
    es_status status = es_plan_open(plan, p->bytes, p->plan_bytes, NULL);
    return status == ES_OK ? es_session_init(session, plan, arena, ARENA)
                           : status;
}

#endif /* ES_PRELOADED_H */
