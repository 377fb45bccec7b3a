/* The program a plan carries, from the plan of tests/everything.py. */
#include <stdio.h>
#include <string.h>

#include "edgesparse/npu_plan.h"
#include "plan_everything.h"

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
            return 1;                                                          \
        }                                                                      \
    } while (0)

enum { BLOBS = 7 };

int main(void)
{
    es_plan plan, closed = {NULL, 0, 0};
    es_info info;
    es_npu_blob blobs[BLOBS];
    es_npu_program program;
    /* values, index, bias, multipliers, a shift, a table, a constant */
    static const uint32_t sizes[BLOBS] = {48, 6 + 9, 40, 24, 1, 256, 4};

    CHECK(es_plan_open(&plan, plan_everything, sizeof plan_everything, NULL) ==
          ES_OK);
    CHECK(es_plan_info(&plan, &info) == ES_OK);
    CHECK(es_npu_program_of(NULL, blobs, BLOBS, &program) == ES_ERR_ARG);
    CHECK(es_npu_program_of(&closed, blobs, BLOBS, &program) == ES_ERR_ARG);
    CHECK(es_npu_program_of(&plan, blobs, BLOBS, NULL) == ES_ERR_ARG);
    CHECK(es_npu_program_of(&plan, NULL, BLOBS, &program) == ES_ERR_ARG);
    CHECK(es_npu_program_of(&plan, blobs, BLOBS - 1, &program) == ES_ERR_ARG);
    CHECK(es_npu_program_of(&plan, blobs, BLOBS, &program) == ES_OK);
    CHECK(program.instructions == 3 && program.prologue == 1);
    CHECK(program.config == info.config && program.steps == info.steps);
    CHECK(program.dram_bytes == info.ram_bytes);
    CHECK(program.state_bytes == info.state_bytes);
    CHECK(program.blobs == blobs && program.blob_count == BLOBS);
    for (uint32_t i = 0; i < BLOBS; i++) {
        printf("blob %u: %u bytes\n", (unsigned)i, (unsigned)blobs[i].size);
        CHECK(blobs[i].data > plan_everything);
        CHECK(blobs[i].data + blobs[i].size <
              plan_everything + sizeof plan_everything);
        CHECK(blobs[i].size == sizes[i]);
    }
    return 0;
}
