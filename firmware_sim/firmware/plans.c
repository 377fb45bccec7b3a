/* Which plans this device takes. */
#include "firmware.h"

#include <string.h>

/* Sample rate of the device's sensor, millihertz; 0: whatever a plan wants. */
#ifndef ES_SENSOR_MHZ
#define ES_SENSOR_MHZ 0
#endif

uint32_t es_plan_ram(const es_info *info)
{
    return (info->ram_bytes + ES_ALIGN - 1) / ES_ALIGN * ES_ALIGN +
           info->steps * (uint32_t)sizeof(es_step_counter);
}

es_store_status es_plan_fits(const uint8_t *bytes, uint32_t size, es_plan *plan,
                             es_info *info)
{
    uint32_t arena;
    es_status status = es_plan_open(plan, bytes, size, NULL);

    if (status == ES_ERR_VERSION) {
        return ES_STORE_PLAN_FORMAT;
    }
    if (status != ES_OK || es_plan_info(plan, info) != ES_OK) {
        return ES_STORE_PLAN_DAMAGED;
    }
    if (info->config != 0) { /* made for an NPU, and there is none */
        return ES_STORE_PLAN_TARGET;
    }
    (void)es_arena(&arena);
    if (es_plan_ram(info) > arena) {
        return ES_STORE_PLAN_RAM;
    }
    if (ES_SENSOR_MHZ != 0 && info->rate_mhz != 0 &&
        info->rate_mhz != ES_SENSOR_MHZ) {
        return ES_STORE_PLAN_RATE;
    }
    return ES_STORE_OK;
}

static es_store_status accept(void *user, const uint8_t *bytes, uint32_t size,
                              uint32_t *version)
{
    es_plan plan;
    es_info info;

    (void)user, (void)version; /* a plan has none: it stays 0 */
    return es_plan_fits(bytes, size, &plan, &info);
}

/* No `verify`: a product puts its check of a signature there. */
const es_store_hooks es_plan_hooks = {.accept = accept};
