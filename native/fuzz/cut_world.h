/* A device with the plan store on a simulated flash, and what must hold on it:
 * the invariants I1 to I7 of docs/STORE.md, checked after every act. */
#ifndef CUT_WORLD_H
#define CUT_WORLD_H

#include "nor_flash.h"

enum { PLANS = 6, STATES = 64, NONE = 99 };

typedef enum act {
    MOUNT,
    BOOT,
    BEGIN,
    WRITE,
    FINISH,
    TEST,
    CONFIRM,
    REVERT,
    ERASE,
    MINIMUM,
    ACTS
} act;

/* Everything that a run is: a copy of it is the whole past. */
typedef struct world {
    nor_flash flash;
    es_store store;
    es_store_state may[STATES]; /* what a mount may find, oldest first */
    uint32_t states;
    uint32_t sent;  /* plan of the upload */
    bool wrong;     /* of which one byte is not sent right */
    uint32_t acked; /* plan whose confirm was answered, or NONE */
    uint32_t starts[PLANS], tries[PLANS];
    bool is_mounted;
} world;

typedef struct tally {
    unsigned long acts, cuts, boots, second, done[ACTS];
} tally;

typedef struct move {
    act act;
    uint32_t plan, amount;
} move;

extern world now;
extern tally total;
extern uint64_t choice;  /* of the random acts and cuts */
extern bool independent; /* see nor_flash */
extern unsigned long sequence;

/* The run ends with what does not hold. */
void cut_check(bool fine, const char *what);

void cut_make_plans(void);
/* Number of the plan with this hash, or NONE. */
uint32_t cut_plan_of(const uint8_t *sha);
uint32_t cut_confirmed_plan(const es_store_state *state);

void cut_start_world(uint32_t unit, uint64_t seed);

/* One act as it goes when nothing fails; returns its flash operations and
 * leaves the world as it was. */
uint32_t cut_rehearse(const move *m);

/* The act just rehearsed, with the power cut at flash operation `cut_at` of it;
 * whether it was. */
bool cut_act(const move *m, uint32_t cut_at);

/* Rehearse and act, without a cut. */
bool cut_act_whole(act what, uint32_t which, uint32_t amount);

/* Power on until a plan runs; one start in `cuts` is cut (0: none). */
void cut_start_up(uint32_t cuts, bool any_tear);

#endif /* CUT_WORLD_H */
