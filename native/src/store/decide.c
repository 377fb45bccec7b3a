#include "store/decide.h"

#include <string.h>

uint32_t es_store_free_slot(const es_store_state *now)
{
    return now->confirmed == 0 ? 1 : 0;
}

static void end_trial(es_store_state *next, es_store_why why)
{
    next->trial = ES_STORE_NO_SLOT;
    next->phase = ES_STORE_TRIAL_NONE;
    next->tries = 0;
    next->why = (uint8_t)why;
}

static void unlist(es_store_state *next, uint32_t slot)
{
    memset(&next->slot[slot], 0, sizeof next->slot[slot]);
    next->good &= (uint8_t) ~(1U << slot);
}

/* An upload or an erase: the free slot has no plan any more. */
static void empty_free_slot(es_store_decision *d, es_store_why why)
{
    if (d->next.phase == ES_STORE_TRIAL_RUNNING) {
        d->status = ES_STORE_TRIAL;
        return;
    }
    end_trial(&d->next, why);
    unlist(&d->next, es_store_free_slot(&d->next));
    d->writes = true;
}

static void stage(es_store_decision *d)
{
    if (d->next.phase != ES_STORE_TRIAL_NONE) {
        d->status = ES_STORE_BADSTATE;
        return;
    }
    d->next.why = ES_STORE_WHY_STAGED;
    d->next.good &= (uint8_t) ~(1U << es_store_free_slot(&d->next));
    d->writes = true;
}

static void cancel(es_store_decision *d, es_store_why why)
{
    if (d->next.phase != ES_STORE_TRIAL_NONE) {
        end_trial(&d->next, why);
        d->writes = true;
    }
}

/* Returns whether it asks for the confirmed plan: that cancels a request. */
static bool test(es_store_decision *d, uint32_t slot)
{
    if (slot > 1 || d->next.slot[slot].size == 0) {
        d->status = ES_STORE_NONE;
    } else if (d->next.phase == ES_STORE_TRIAL_RUNNING) {
        d->status = ES_STORE_TRIAL;
    } else if (slot == d->next.confirmed) {
        return true;
    } else if (slot != d->next.trial) {
        d->next.trial = (uint8_t)slot;
        d->next.phase = ES_STORE_TRIAL_REQUESTED;
        d->next.why = ES_STORE_WHY_REQUESTED;
        d->writes = true;
    }
    return false;
}

/* The trial, if there is one, starts once more or ends. */
static void boot_trial(es_store_decision *d, uint32_t damaged)
{
    uint32_t slot = d->next.trial;
    if (d->next.phase == ES_STORE_TRIAL_NONE) {
        return;
    }
    d->writes = true;
    if (damaged >> slot & 1) {
        end_trial(&d->next, ES_STORE_WHY_DAMAGED);
        unlist(&d->next, slot);
    } else if (d->next.tries == 0) {
        end_trial(&d->next, ES_STORE_WHY_TRIED);
    } else {
        d->next.tries--;
        d->next.phase = ES_STORE_TRIAL_RUNNING;
        d->next.why = ES_STORE_WHY_STARTED;
        d->run = (uint8_t)slot;
    }
}

/* The confirmed plan, or one that was confirmed before it; never another. */
static void boot_confirmed(es_store_decision *d, uint32_t damaged)
{
    uint32_t slot = d->next.confirmed, other = slot ^ 1;
    if (slot > 1 || !(damaged >> slot & 1)) {
        d->run = (uint8_t)slot;
    } else if (d->next.good >> other & 1 && d->next.slot[other].size > 0 &&
               !(damaged >> other & 1)) {
        d->next.confirmed = (uint8_t)other;
        d->next.why = ES_STORE_WHY_DAMAGED;
        unlist(&d->next, slot);
        d->writes = true;
        d->run = (uint8_t)other;
    }
}

static void confirm(es_store_decision *d)
{
    if (d->next.phase == ES_STORE_TRIAL_RUNNING) {
        d->next.confirmed = d->next.trial;
        d->next.good |= (uint8_t)(1U << d->next.trial);
        end_trial(&d->next, ES_STORE_WHY_CONFIRMED);
        d->writes = true;
    } else if (d->next.phase == ES_STORE_TRIAL_REQUESTED ||
               d->next.confirmed > 1) {
        d->status = ES_STORE_BADSTATE;
    }
}

static void raise_minimum(es_store_decision *d, uint32_t version)
{
    if (version < d->next.min_version) {
        d->status = ES_STORE_OLDER;
        return;
    }
    if (d->next.phase == ES_STORE_TRIAL_REQUESTED &&
        d->next.slot[d->next.trial].version < version) {
        cancel(d, ES_STORE_WHY_MINIMUM);
    }
    d->writes |= version != d->next.min_version;
    d->next.min_version = version;
    d->next.why = ES_STORE_WHY_MINIMUM;
}

void es_store_decide(const es_store_state *now, es_store_event event,
                     uint32_t argument, es_store_decision *d)
{
    d->status = ES_STORE_OK;
    d->writes = false;
    d->run = ES_STORE_NO_SLOT;
    d->next = *now;
    switch (event) {
    case ES_STORE_BEGIN:
    case ES_STORE_ERASE:
        empty_free_slot(d, event == ES_STORE_BEGIN ? ES_STORE_WHY_BEGIN
                                                   : ES_STORE_WHY_ERASED);
        break;
    case ES_STORE_STAGE:
        stage(d);
        break;
    case ES_STORE_TEST:
    case ES_STORE_REVERT:
        if (event == ES_STORE_REVERT || test(d, argument)) {
            cancel(d, event == ES_STORE_REVERT ? ES_STORE_WHY_REVERTED
                                               : ES_STORE_WHY_CANCELLED);
        }
        break;
    case ES_STORE_BOOT:
        boot_trial(d, argument);
        if (d->run == ES_STORE_NO_SLOT) {
            boot_confirmed(d, argument);
        }
        break;
    case ES_STORE_CONFIRM:
        confirm(d);
        break;
    case ES_STORE_MINIMUM:
        raise_minimum(d, argument);
        break;
    case ES_STORE_EVENTS:
    default:
        d->status = ES_STORE_ARG;
        break;
    }
}
