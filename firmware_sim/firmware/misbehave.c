/* In images of the tests, linked in front of es_link_init: a plan that is on
 * trial (or any, with ES_TEST_ALL) takes the device down. */
#include "firmware.h"

es_status __wrap_es_link_init(es_link *link, const es_link_config *config);
es_status __real_es_link_init(es_link *link, const es_link_config *config);

static inline void hang(void)
{
    for (;;) {
    }
}

static inline void fault(void)
{
    *(volatile int *)0xF0000000u = 1;
}

static inline uint32_t deeper(uint32_t levels)
{
    volatile uint32_t here[64] = {levels};
    return levels == 0 ? 0 : deeper(levels - 1) + here[0];
}

static inline void overflow(void)
{
    (void)deeper(1 << 20);
}

#if !defined(ES_TEST_ALL)
#define ES_TEST_ALL false
#endif

es_status __wrap_es_link_init(es_link *link, const es_link_config *config)
{
    const es_store *store = config->images->user;
    bool trial = es_store_state_of(store)->phase == ES_STORE_TRIAL_RUNNING;

    if (trial || (ES_TEST_ALL && config->session != NULL)) {
        ES_TEST_TRIAL();
    }
    return __real_es_link_init(link, config);
}
