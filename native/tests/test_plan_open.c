/* es_plan_open on a plan that has one of everything: whole, cut, changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "edgesparse/edgesparse.h"
#include "plan/crc32.h"
#include "plan_everything.h"

enum { SIZE = sizeof plan_everything, TRAILER = 64 };

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static uint32_t flatbuffer_size(void)
{
    uint32_t size;
    memcpy(&size, plan_everything + SIZE - TRAILER + 8, 4);
    return size;
}

static int opens(void)
{
    es_plan plan;
    es_info info;
    CHECK(es_plan_open(&plan, plan_everything, SIZE, NULL) == ES_OK);
    CHECK(plan.bytes == plan_everything && plan.size == flatbuffer_size());
    CHECK(es_plan_info(&plan, &info) == ES_OK);
    CHECK(info.flash_bytes == SIZE);
    CHECK(info.steps == 10 && info.inputs == 2 && info.outputs == 5);
    CHECK(info.state_bytes == 128 && info.ram_bytes > info.state_bytes);
    CHECK(info.config == 0x1234);
    for (uint8_t i = 0; i < 32; i++) {
        CHECK(info.source_sha256[i] == i);
    }
    return 0;
}

static int refuses_arguments(void)
{
    es_plan plan = {NULL, 7, 8};
    es_info info;
    es_fault fault = {0, 0, 0};
    const uint8_t *odd = plan_everything + 4;

    CHECK(es_plan_open(NULL, plan_everything, SIZE, &fault) == ES_ERR_ARG);
    CHECK(es_plan_open(&plan, NULL, SIZE, &fault) == ES_ERR_ARG);
    CHECK(fault.invariant == 0);
    CHECK(es_plan_open(&plan, odd, SIZE - 4, &fault) == ES_ERR_ARG);
    CHECK(fault.invariant == 1 && fault.step == -1 && fault.index == -1);
    CHECK(es_plan_open(&plan, plan_everything, SIZE - 16, &fault) ==
          ES_ERR_FILE);
    CHECK(es_plan_open(&plan, plan_everything, 0, NULL) == ES_ERR_FILE);
    CHECK(plan.bytes == NULL && plan.size == 7 && plan.root == 8);
    CHECK(es_plan_info(NULL, &info) == ES_ERR_ARG);
    CHECK(es_plan_info(&plan, NULL) == ES_ERR_ARG);
    return 0;
}

/* A copy in a heap block of its own size, so that a sanitizer sees one byte
 * too many; aligned as far as needed. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size, void **block)
{
    uint8_t *copy = malloc(size + ES_ALIGN);
    *block = copy;
    if (copy == NULL) {
        puts("out of memory");
        exit(1);
    }
    copy += (ES_ALIGN - (uintptr_t)copy % ES_ALIGN) % ES_ALIGN;
    memcpy(copy, bytes, size);
    return copy;
}

static int refuses_every_shorter_file(void)
{
    for (size_t size = 0; size < SIZE; size += 1 + size % 3) {
        es_plan plan;
        void *block;
        uint8_t *copy = copy_of(plan_everything, size, &block);
        es_status status = es_plan_open(&plan, copy, size, NULL);
        free(block);
        CHECK(status == ES_ERR_FILE);
    }
    return 0;
}

/* Put another value in every byte, with the checksum of the result: whatever
 * it means then, opening it reads nothing outside and names an invariant. */
static int survives_every_change(void)
{
    const uint32_t size = flatbuffer_size();
    unsigned accepted = 0, refused = 0;
    void *block;
    uint8_t *copy = copy_of(plan_everything, SIZE, &block);

    for (uint32_t at = 0; at < size; at++) {
        for (unsigned change = 1; change <= 0x80; change += 0x7F) {
            es_plan plan;
            es_fault fault = {0, 0, 0};
            uint32_t crc;
            copy[at] = (uint8_t)(copy[at] + change);
            crc = es_crc32(0, copy, size);
            memcpy(copy + SIZE - TRAILER + 12, &crc, 4);
            if (es_plan_open(&plan, copy, SIZE, &fault) == ES_OK) {
                accepted++;
            } else {
                refused++;
                CHECK(fault.invariant > 3 && fault.invariant <= 82);
                CHECK(fault.step >= -1 && fault.step < 10);
            }
            copy[at] = plan_everything[at];
        }
    }
    free(block);
    printf("%u changes accepted, %u refused\n", accepted, refused);
    /* Weights, biases and names may be anything; most other bytes may not. */
    CHECK(accepted > size / 4 && refused > size / 4);
    return 0;
}

static int crc_is_that_of_the_standard(void)
{
    CHECK(es_crc32(0, "123456789", 9) == 0xCBF43926u);
    CHECK(es_crc32(es_crc32(0, "1234", 4), "56789", 5) == 0xCBF43926u);
    CHECK(es_crc32(0, "", 0) == 0);
    return 0;
}

int main(void)
{
    return opens() || refuses_arguments() || refuses_every_shorter_file() ||
           survives_every_change() || crc_is_that_of_the_standard();
}
