/* Every status of status.inc has its own text, and any other value has one. */
#include "edgesparse/edgesparse.h"
#include <stdio.h>
#include <string.h>

int main(void)
{
    int failed = 0;
#define ES_STATUS(name, value, text)                                           \
    if (strcmp(es_status_text(name), text) != 0) {                             \
        printf("FAIL %s\n", #name);                                            \
        failed = 1;                                                            \
    }
#include "edgesparse/status.inc"
#undef ES_STATUS
    return failed || strcmp(es_status_text((es_status)-127), "unknown") != 0;
}
