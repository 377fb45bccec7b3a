#include "cut_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

world now;
static es_flash driver;
tally total;
uint64_t choice;
bool independent;
unsigned long sequence;
static act doing;
static uint8_t plan[PLANS][NOR_SLOT], plan_sha[PLANS][ES_STORE_SHA];
static uint32_t plan_size[PLANS];
/* States that the act goes through when nothing disturbs it. */
static es_store_state way[STATES];
static uint32_t way_states;

void nor_forbidden(const char *what)
{
    fprintf(stderr, "sequence %lu, act %d, unit %u, tear %d: %s\n", sequence,
            (int)doing, (unsigned)now.flash.unit, (int)now.flash.tear, what);
    exit(2);
}

void cut_check(bool fine, const char *what)
{
    if (!fine) {
        nor_forbidden(what);
    }
}

static bool same(const es_store_state *a, const es_store_state *b)
{
    return !memcmp(a, b, sizeof *a);
}

static void add(es_store_state *list, uint32_t *count,
                const es_store_state *state)
{
    if (*count == 0 || !same(&list[*count - 1], state)) {
        cut_check(*count < STATES, "the simulator's list is too short");
        list[(*count)++] = *state;
    }
}

void nor_watch(void)
{
    if (doing != MOUNT) {
        add(way, &way_states, &now.store.state);
    }
}

uint32_t cut_plan_of(const uint8_t *sha)
{
    for (uint32_t i = 0; i < PLANS; i++) {
        if (!memcmp(sha, plan_sha[i], ES_STORE_SHA)) {
            return i;
        }
    }
    return NONE;
}

void cut_make_plans(void)
{
    uint64_t random = 1;
    for (uint32_t i = 0; i < PLANS; i++) {
        es_sha256 sha;
        plan_size[i] = 200 + 170 * i + (i % 3);
        for (uint32_t k = 0; k < plan_size[i]; k++) {
            plan[i][k] = (uint8_t)nor_random(&random);
        }
        plan[i][0] = (uint8_t)(i + 1); /* its version */
        es_sha256_start(&sha);
        es_sha256_add(&sha, plan[i], plan_size[i]);
        es_sha256_end(&sha, plan_sha[i]);
    }
}

static es_store_status accept(void *user, const uint8_t *bytes, uint32_t size,
                              uint32_t *version)
{
    (void)user;
    (void)size;
    *version = bytes[0];
    return ES_STORE_OK;
}

/* I1 */
static void check_slots(void)
{
    for (uint32_t slot = 0; slot < 2; slot++) {
        uint32_t size = now.store.state.slot[slot].size;
        if (size == 0) {
            continue;
        }
        uint32_t which = cut_plan_of(now.store.state.slot[slot].sha);
        cut_check(which != NONE && size == plan_size[which] &&
                      !memcmp(driver.bytes[slot], plan[which], size),
                  "I1: a listed slot has other bytes");
        cut_check(nor_is_stable(&now.flash, driver.slot[slot], size),
                  "I1: a listed slot is not stable");
    }
}

uint32_t cut_confirmed_plan(const es_store_state *state)
{
    return state->confirmed > 1
               ? NONE
               : cut_plan_of(state->slot[state->confirmed].sha);
}

/* I3, I4, I7: what is found is what may be, and nothing before it may be found
 * from now on. */
static void check_found(void)
{
    uint32_t i = 0;
    while (i < now.states && !same(&now.may[i], &now.store.state)) {
        i++;
    }
    cut_check(i < now.states, "I3, I4: a state that cannot be");
    memmove(now.may, now.may + i, (now.states - i) * sizeof now.may[0]);
    now.states -= i;
    cut_check(now.acked == NONE ||
                  cut_confirmed_plan(&now.store.state) == now.acked,
              "I7: a confirm that was answered is lost");
}

/* I2, I5 */
static void check_running(es_store_status status)
{
    const es_store_state *state = &now.store.state;
    uint32_t slot = now.store.running;
    total.boots++;
    if (slot == ES_STORE_NO_SLOT) {
        cut_check(state->confirmed == ES_STORE_NO_SLOT,
                  "I2: nothing runs, but a plan is confirmed");
        return;
    }
    cut_check(slot < 2 && state->slot[slot].size > 0, "I2: an empty slot runs");
    if (slot != state->confirmed) {
        uint32_t which = cut_plan_of(state->slot[slot].sha);
        cut_check(slot == state->trial &&
                      state->phase == ES_STORE_TRIAL_RUNNING &&
                      status == ES_STORE_OK,
                  "I2: a plan runs that is neither confirmed nor on trial");
        cut_check(++now.starts[which] <= now.tries[which],
                  "I5: a trial runs too often");
    }
}

static es_store_status write_some(uint32_t amount)
{
    uint32_t at = es_store_offset(&now.store);
    uint8_t bytes[NOR_SLOT];
    uint32_t left = now.store.upload.size - at;
    amount = amount < left ? amount : left;
    memcpy(bytes, plan[now.sent] + at, amount);
    if (now.wrong && amount > 0) {
        bytes[amount / 2] ^= 16;
        now.wrong = at + amount < now.store.upload.size;
    }
    return es_store_write(&now.store, at, bytes, amount);
}

static es_store_status perform(const move *m)
{
    static const es_store_hooks hooks = {accept, NULL, NULL};
    es_store *store = &now.store;
    switch (m->act) {
    case MOUNT:
        return es_store_mount(store, &driver, &hooks);
    case BOOT:
        return es_store_boot(store);
    case BEGIN:
        now.sent = m->plan;
        now.wrong = m->amount % 8 == 1;
        return es_store_begin(store, plan_size[m->plan], plan_sha[m->plan]);
    case WRITE:
        return store->upload.slot == ES_STORE_NO_SLOT ? ES_STORE_OK
                                                      : write_some(m->amount);
    case FINISH:
        return es_store_finish(store);
    case TEST:
        return es_store_test(store, plan_sha[m->plan], 1 + m->amount % 3);
    case CONFIRM:
        return es_store_confirm(store, NULL);
    case REVERT:
        return es_store_revert(store);
    case ERASE:
        return es_store_erase(store);
    case MINIMUM:
        return es_store_set_minimum(store, 1 + m->amount % 2);
    case ACTS:
        break;
    }
    return ES_STORE_ARG;
}

/* What the promises are about is known before the act. */
static void foresee(const move *m)
{
    if (m->act == TEST && now.store.state.phase != ES_STORE_TRIAL_RUNNING) {
        now.starts[m->plan] = 0;
        uint32_t tries = 1 + m->amount % 3;
        if (now.tries[m->plan] < tries) {
            now.tries[m->plan] = tries;
        }
    }
    if (m->act == CONFIRM) {
        now.acked = NONE;
    }
}

static void conclude(const move *m, es_store_status status)
{
    if (status == ES_STORE_FLASH) {
        if (m->act != MOUNT) {
            for (uint32_t i = 0; i < way_states; i++) {
                add(now.may, &now.states, &way[i]);
            }
        }
    } else if (m->act == MOUNT) {
        check_found();
    } else if (!same(&now.may[0], &now.store.state)) {
        now.may[0] = now.store.state;
        now.states = 1;
    }
    if (m->act == TEST && status == ES_STORE_OK) {
        now.tries[m->plan] = 1 + m->amount % 3;
    }
    if (m->act == CONFIRM && status == ES_STORE_OK) {
        now.acked = cut_confirmed_plan(&now.store.state);
    }
    if (m->act == BOOT) {
        check_running(status);
    }
    now.is_mounted = m->act != MOUNT || status == ES_STORE_OK;
    check_slots();
}

/* One act as it goes when nothing fails; returns its flash operations, leaves
 * its states in `way` and the world as it was. */
uint32_t cut_rehearse(const move *m)
{
    static world before;
    before = now;
    way_states = 0;
    doing = m->act;
    now.flash.cut_at = UINT32_MAX;
    now.flash.stuck = 0;
    now.flash.operations = 0;
    (void)perform(m);
    nor_watch();
    uint32_t operations = now.flash.operations;
    now = before;
    return operations;
}

/* The act, with the power cut at flash operation `cut_at` of it; whether it
 * was. `way` is from a rehearsal. */
bool cut_act(const move *m, uint32_t cut_at)
{
    static es_store_state planned[STATES];
    static uint32_t count;
    static const move *acted;
    acted = m;
    count = way_states;
    memcpy(planned, way, sizeof way);
    foresee(m);
    doing = m->act;
    total.acts++;
    total.done[m->act]++;
    now.flash.operations = 0;
    now.flash.cut_at = cut_at;
    if (setjmp(nor_power_off)) {
        total.cuts++;
        if (acted->act != MOUNT) {
            for (uint32_t i = 0; i < count; i++) {
                add(now.may, &now.states, &planned[i]);
            }
        }
        now.flash.cut_at = UINT32_MAX;
        return true;
    }
    way_states = 0;
    es_store_status status = perform(m);
    way_states = count;
    memcpy(way, planned, sizeof way);
    now.flash.cut_at = UINT32_MAX;
    conclude(m, status);
    return false;
}

bool cut_act_whole(act what, uint32_t which, uint32_t amount)
{
    move m = {what, which, amount};
    cut_rehearse(&m);
    return cut_act(&m, UINT32_MAX);
}

/* Power on until the plan runs; one start in `cuts` is cut (0: none). */
void cut_start_up(uint32_t cuts, bool any_tear)
{
    for (;;) {
        bool cut = false;
        nor_reset(&now.flash);
        for (act what = MOUNT; what <= BOOT && !cut; what++) {
            move m = {what, 0, 0};
            uint32_t operations = cut_rehearse(&m);
            uint32_t at = UINT32_MAX;
            if (operations > 0 && cuts > 0 && nor_below(&choice, cuts) == 0) {
                at = nor_below(&choice, operations);
                total.second++;
                if (any_tear) {
                    now.flash.tear = nor_below(&choice, NOR_TEARS);
                }
            }
            cut = cut_act(&m, at) || !now.is_mounted;
        }
        if (!cut) {
            return;
        }
    }
}

void cut_start_world(uint32_t unit, uint64_t seed)
{
    memset(&now, 0, sizeof now);
    nor_start(&now.flash, unit, seed);
    now.flash.independent = independent;
    driver = nor_driver(&now.flash);
    now.acked = NONE;
    now.may[0].confirmed = now.may[0].trial = ES_STORE_NO_SLOT;
    now.states = 1;
}
