/* Power cuts in the plan store: cut_store [-n SEQUENCES] [-s SEED] [-x] [-i]
 *
 * -x cuts a script of five installs at every flash operation, in every way, for
 * every write unit; else random operations with random cuts, and cuts in the
 * recovery from them. After every operation and every boot the invariants I1 to
 * I7 of docs/STORE.md are checked; the first that fails ends the run with
 * status 2. -i: bits that read differently from boot to boot do so each
 * tear for itself, not all alike. The same seed gives the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cut_world.h"

/* ---- every operation of a script ---- */

static void install(uint32_t which, bool keep)
{
    if (now.store.state.phase == ES_STORE_TRIAL_RUNNING) {
        cut_act_whole(REVERT, 0, 0);
        cut_start_up(0, false);
    }
    cut_act_whole(BEGIN, which, 0);
    cut_act_whole(WRITE, which, NOR_SLOT);
    cut_act_whole(FINISH, which, 0);
    cut_act_whole(TEST, which, 0);
    cut_start_up(0, false);
    if (keep) {
        cut_act_whole(CONFIRM, 0, 0);
        cut_check(cut_confirmed_plan(&now.store.state) == which,
                  "an install does not work any more");
    }
}

/* The act with every cut that there is, each followed by three starts, a second
 * cut among them, and an install; then as if nothing had been. */
static void cut_everywhere(const move *m)
{
    static world before;
    uint32_t operations = cut_rehearse(m);
    before = now;
    for (uint32_t at = 0; at < operations; at++) {
        for (uint32_t tear = 0; tear < NOR_TEARS; tear++) {
            now.flash.tear = (nor_tear)tear;
            now.flash.random += at * NOR_TEARS + tear;
            cut_rehearse(m);
            cut_check(cut_act(m, at), "a cut that did not come");
            cut_start_up(0, false);
            if (nor_below(&choice, 2)) {
                cut_act_whole(TEST, m->plan, 0);
            }
            cut_start_up(0, false);
            cut_start_up(4, false);
            cut_start_up(0, false);
            install(5, true);
            now = before;
        }
    }
    cut_rehearse(m);
    cut_act(m, UINT32_MAX);
}

static void cut_each(act what, uint32_t which)
{
    move m = {what, which, what == WRITE ? NOR_SLOT : 0};
    cut_everywhere(&m);
}

static void reset_and_cut(void)
{
    nor_reset(&now.flash);
    cut_each(MOUNT, 0);
    cut_each(BOOT, 0);
}

/* Five installs: kept, kept, never confirmed, given up, kept. */
static void cut_script(uint32_t unit, bool ecc, bool pages)
{
    cut_start_world(unit, unit);
    now.flash.ecc = ecc;
    now.flash.pages = pages;
    reset_and_cut();
    for (uint32_t i = 0; i < 5; i++) {
        sequence = i;
        cut_each(BEGIN, i);
        cut_each(WRITE, i);
        cut_each(FINISH, i);
        cut_each(TEST, i);
        reset_and_cut();
        if (i == 3) {
            cut_each(REVERT, i);
        } else if (i != 2) {
            cut_each(CONFIRM, i);
        }
        reset_and_cut();
    }
    cut_each(ERASE, 0);
}

/* ---- random acts ---- */

static uint32_t pick_listed(void)
{
    uint32_t slot = nor_below(&choice, 2);
    uint32_t which = cut_plan_of(now.store.state.slot[slot].sha);
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
    cut_start_world(units[nor_below(&choice, 3)], seed ^ 0x5EED);
    bool any_tear = nor_below(&choice, 6) == 0;
    now.flash.tear = NOR_BY_BOOT;
    now.flash.ecc = nor_below(&choice, 2);
    now.flash.pages = nor_below(&choice, 2);
    now.flash.stuck = nor_below(&choice, 8) == 0 ? 1000 : 0;
    cut_start_up(3, any_tear);
    for (uint32_t i = 0; i < 40; i++) {
        move m = pick();
        bool cut = m.act <= BOOT; /* a reset */
        if (!cut) {
            uint32_t operations = cut_rehearse(&m);
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
            cut = cut_act(&m, at);
        }
        if (cut) {
            cut_start_up(3, any_tear);
        }
    }
    now.flash.stuck = 0;
    cut_start_up(0, false);
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
            fprintf(stderr, "cut_store [-n SEQUENCES] [-s SEED] [-x] [-i]\n");
            return 1;
        }
    }
    cut_make_plans();
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
