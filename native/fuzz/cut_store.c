/* Power cuts in the plan store: cut_store [-n SEQUENCES] [-s SEED] [-x]
 *
 * -x cuts a script of five installs at every flash operation, in every way, for
 * every write unit; else random operations with random cuts, and cuts in the
 * recovery from them. After every operation and every boot the invariants I1 to
 * I7 of docs/STORE.md are checked; the first that fails ends the run with
 * status 2. The same seed gives the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static world now;
static es_flash driver;
static tally total;
static uint64_t choice;
static bool independent;
static unsigned long sequence;
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

static void check(bool fine, const char *what)
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
        check(*count < STATES, "the simulator's list is too short");
        list[(*count)++] = *state;
    }
}

void nor_watch(void)
{
    if (doing != MOUNT) {
        add(way, &way_states, &now.store.state);
    }
}

static uint32_t plan_of(const uint8_t *sha)
{
    for (uint32_t i = 0; i < PLANS; i++) {
        if (!memcmp(sha, plan_sha[i], ES_STORE_SHA)) {
            return i;
        }
    }
    return NONE;
}

static void make_plans(void)
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
        uint32_t which = plan_of(now.store.state.slot[slot].sha);
        check(which != NONE && size == plan_size[which] &&
                  !memcmp(driver.bytes[slot], plan[which], size),
              "I1: a listed slot has other bytes");
        check(nor_is_stable(&now.flash, driver.slot[slot], size),
              "I1: a listed slot is not stable");
    }
}

static uint32_t confirmed_plan(const es_store_state *state)
{
    return state->confirmed > 1 ? NONE
                                : plan_of(state->slot[state->confirmed].sha);
}

/* I3, I4, I7: what is found is what may be, and nothing before it may be found
 * from now on. */
static void check_found(void)
{
    uint32_t i = 0;
    while (i < now.states && !same(&now.may[i], &now.store.state)) {
        i++;
    }
    check(i < now.states, "I3, I4: a state that cannot be");
    memmove(now.may, now.may + i, (now.states - i) * sizeof now.may[0]);
    now.states -= i;
    check(now.acked == NONE || confirmed_plan(&now.store.state) == now.acked,
          "I7: a confirm that was answered is lost");
}

/* I2, I5 */
static void check_running(es_store_status status)
{
    const es_store_state *state = &now.store.state;
    uint32_t slot = now.store.running;
    total.boots++;
    if (slot == ES_STORE_NO_SLOT) {
        check(state->confirmed == ES_STORE_NO_SLOT,
              "I2: nothing runs, but a plan is confirmed");
        return;
    }
    check(slot < 2 && state->slot[slot].size > 0, "I2: an empty slot runs");
    if (slot != state->confirmed) {
        uint32_t which = plan_of(state->slot[slot].sha);
        check(slot == state->trial && state->phase == ES_STORE_TRIAL_RUNNING &&
                  status == ES_STORE_OK,
              "I2: a plan runs that is neither confirmed nor on trial");
        check(++now.starts[which] <= now.tries[which],
              "I5: a trial runs too often");
    }
}

typedef struct move {
    act act;
    uint32_t plan, amount;
} move;

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
        now.tries[m->plan] = 255;
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
        now.acked = confirmed_plan(&now.store.state);
    }
    if (m->act == BOOT) {
        check_running(status);
    }
    now.is_mounted = m->act != MOUNT || status == ES_STORE_OK;
    check_slots();
}

/* One act as it goes when nothing fails; returns its flash operations, leaves
 * its states in `way` and the world as it was. */
static uint32_t rehearse(const move *m)
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
static bool act_and_cut(const move *m, uint32_t cut_at)
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

static bool act_cleanly(act what, uint32_t which, uint32_t amount)
{
    move m = {what, which, amount};
    rehearse(&m);
    return act_and_cut(&m, UINT32_MAX);
}

/* Power on until the plan runs; one start in `cuts` is cut (0: none). */
static void start_up(uint32_t cuts, bool any_tear)
{
    for (;;) {
        bool cut = false;
        nor_reset(&now.flash);
        for (act what = MOUNT; what <= BOOT && !cut; what++) {
            move m = {what, 0, 0};
            uint32_t operations = rehearse(&m);
            uint32_t at = UINT32_MAX;
            if (operations > 0 && cuts > 0 && nor_below(&choice, cuts) == 0) {
                at = nor_below(&choice, operations);
                total.second++;
                if (any_tear) {
                    now.flash.tear = nor_below(&choice, NOR_TEARS);
                }
            }
            cut = act_and_cut(&m, at) || !now.is_mounted;
        }
        if (!cut) {
            return;
        }
    }
}

static void start_world(uint32_t unit, uint64_t seed)
{
    memset(&now, 0, sizeof now);
    nor_start(&now.flash, unit, seed);
    now.flash.independent = independent;
    driver = nor_driver(&now.flash);
    now.acked = NONE;
    now.may[0].confirmed = now.may[0].trial = ES_STORE_NO_SLOT;
    now.states = 1;
}

/* ---- every operation of a script ---- */

static void install(uint32_t which, bool keep)
{
    if (now.store.state.phase == ES_STORE_TRIAL_RUNNING) {
        act_cleanly(REVERT, 0, 0);
        start_up(0, false);
    }
    act_cleanly(BEGIN, which, 0);
    act_cleanly(WRITE, which, NOR_SLOT);
    act_cleanly(FINISH, which, 0);
    act_cleanly(TEST, which, 0);
    start_up(0, false);
    if (keep) {
        act_cleanly(CONFIRM, 0, 0);
        check(confirmed_plan(&now.store.state) == which,
              "an install does not work any more");
    }
}

/* The act with every cut that there is, each followed by three starts, a second
 * cut among them, and an install; then as if nothing had been. */
static void cut_everywhere(const move *m)
{
    static world before;
    uint32_t operations = rehearse(m);
    before = now;
    for (uint32_t at = 0; at < operations; at++) {
        for (uint32_t tear = 0; tear < NOR_TEARS; tear++) {
            now.flash.tear = (nor_tear)tear;
            now.flash.random += at * NOR_TEARS + tear;
            rehearse(m);
            check(act_and_cut(m, at), "a cut that did not come");
            start_up(0, false);
            if (nor_below(&choice, 2)) {
                act_cleanly(TEST, m->plan, 0);
            }
            start_up(0, false);
            start_up(4, false);
            start_up(0, false);
            install(5, true);
            now = before;
        }
    }
    rehearse(m);
    act_and_cut(m, UINT32_MAX);
}

static void cut_act(act what, uint32_t which)
{
    move m = {what, which, what == WRITE ? NOR_SLOT : 0};
    cut_everywhere(&m);
}

static void reset_and_cut(void)
{
    nor_reset(&now.flash);
    cut_act(MOUNT, 0);
    cut_act(BOOT, 0);
}

/* Five installs: kept, kept, never confirmed, given up, kept. */
static void cut_script(uint32_t unit, bool ecc, bool pages)
{
    start_world(unit, unit);
    now.flash.ecc = ecc;
    now.flash.pages = pages;
    reset_and_cut();
    for (uint32_t i = 0; i < 5; i++) {
        sequence = i;
        cut_act(BEGIN, i);
        cut_act(WRITE, i);
        cut_act(FINISH, i);
        cut_act(TEST, i);
        reset_and_cut();
        if (i == 3) {
            cut_act(REVERT, i);
        } else if (i != 2) {
            cut_act(CONFIRM, i);
        }
        reset_and_cut();
    }
    cut_act(ERASE, 0);
}

/* ---- random acts ---- */

static uint32_t pick_listed(void)
{
    uint32_t slot = nor_below(&choice, 2);
    uint32_t which = plan_of(now.store.state.slot[slot].sha);
    return which != NONE && nor_below(&choice, 8) > 0
               ? which
               : nor_below(&choice, PLANS);
}

/* Mostly the next step of an install, sometimes anything. */
static move pick(void)
{
    move m = {ACTS, nor_below(&choice, PLANS), nor_random(&choice) % 1024};
    const es_store *store = &now.store;
    if (nor_below(&choice, 3) == 0) {
        m.act = nor_below(&choice, ACTS);
        if (m.act == MINIMUM && nor_below(&choice, 8) > 0) {
            m.act = BOOT;
        }
    } else if (store->upload.slot != ES_STORE_NO_SLOT) {
        m.act = es_store_offset(store) < store->upload.size ? WRITE : FINISH;
        m.amount *= 1 + nor_below(&choice, 2);
    } else if (store->state.phase == ES_STORE_TRIAL_RUNNING) {
        m.act = nor_below(&choice, 3) > 0 ? CONFIRM : BOOT;
    } else if (store->state.phase == ES_STORE_TRIAL_REQUESTED) {
        m.act = BOOT;
    } else if (store->state.why == ES_STORE_WHY_STAGED) {
        m.act = TEST;
    } else {
        m.act = BEGIN;
    }
    m.plan = m.act == TEST ? pick_listed() : m.plan;
    return m;
}

static void random_sequence(uint64_t seed)
{
    static const uint32_t units[3] = {4, 8, 16};
    choice = seed;
    start_world(units[nor_below(&choice, 3)], seed ^ 0x5EED);
    bool any_tear = nor_below(&choice, 6) == 0;
    now.flash.tear = NOR_BY_BOOT;
    now.flash.ecc = nor_below(&choice, 2);
    now.flash.pages = nor_below(&choice, 2);
    now.flash.stuck = nor_below(&choice, 8) == 0 ? 1000 : 0;
    start_up(3, any_tear);
    for (uint32_t i = 0; i < 40; i++) {
        move m = pick();
        bool cut = m.act <= BOOT; /* a reset */
        if (!cut) {
            uint32_t operations = rehearse(&m);
            uint32_t at = UINT32_MAX;
            if (operations > 0 && nor_below(&choice, 5) == 0) {
                /* The end of a record, where it is nearly valid, more often. */
                uint32_t last = operations < 3 ? operations : 3;
                at = nor_below(&choice, 2)
                         ? nor_below(&choice, operations)
                         : operations - 1 - nor_below(&choice, last);
            }
            if (any_tear) {
                now.flash.tear = nor_below(&choice, NOR_TEARS);
            }
            cut = act_and_cut(&m, at);
        }
        if (cut) {
            start_up(3, any_tear);
        }
    }
    now.flash.stuck = 0;
    start_up(0, false);
    install(5, true);
}

static void print_tally(void)
{
    static const char *const name[ACTS] = {
        "mount", "boot",    "begin",  "write", "finish",
        "test",  "confirm", "revert", "erase", "minimum"};
    printf("acts %lu\ncuts %lu\ncuts in recovery %lu\nboots %lu\n", total.acts,
           total.cuts, total.second, total.boots);
    for (uint32_t i = 0; i < ACTS; i++) {
        printf("%s %lu\n", name[i], total.done[i]);
    }
}

int main(int argc, char **argv)
{
    unsigned long sequences = 1000;
    uint64_t seed = 1;
    bool exhaustive = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-n") && i + 1 < argc) {
            sequences = strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "-s") && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "-x")) {
            exhaustive = true;
        } else if (!strcmp(argv[i], "-i")) {
            independent = true;
        } else {
            fprintf(stderr, "cut_store [-n SEQUENCES] [-s SEED] [-x]\n");
            return 1;
        }
    }
    make_plans();
    if (exhaustive) {
        for (uint32_t unit = 4; unit <= ES_STORE_WRITE_UNIT; unit *= 2) {
            choice = seed + unit;
            cut_script(unit, false, false);
            cut_script(unit, true, false);
            cut_script(unit, false, true);
        }
    } else {
        for (sequence = 0; sequence < sequences; sequence++) {
            random_sequence((seed << 32) + sequence);
        }
    }
    print_tally();
    return 0;
}
