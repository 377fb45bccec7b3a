/* What a C test says of itself: each CHECK that fails is printed and counted;
 * main returns whether there were any. */
#ifndef ES_TESTS_CHECK_H
#define ES_TESTS_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);             \
            failures++;                                                        \
        }                                                                      \
    } while (0)

#endif /* ES_TESTS_CHECK_H */
