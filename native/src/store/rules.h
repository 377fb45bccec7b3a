/* The rules R1 to R10 of docs/STORE.md, where the code follows them:
 * `if (ES_RULE(4))` is always true. Only the simulator's mutants leave one out,
 * to show that it is needed; they say so twice (native/CMakeLists.txt). */
#ifndef ES_STORE_RULES_H
#define ES_STORE_RULES_H

#ifndef ES_STORE_WITHOUT
#define ES_RULE(number) 1
#elif defined(ES_STORE_SIMULATED)
#define ES_RULE(number) ((number) != ES_STORE_WITHOUT)
#else
#error "ES_STORE_WITHOUT is for the simulator of the store alone"
#endif

#endif /* ES_STORE_RULES_H */
