/* Checks of our own mistakes: on in tests (ES_ASSERT in CMake), gone in a
 * release. Never a check of plan bytes or of a caller's arguments. */
#ifndef ES_ASSERT_H
#define ES_ASSERT_H

#if defined(ES_BUILD_ASSERT) && defined(__GNUC__)
#define ES_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define ES_ASSERT(condition) ((void)0)
#endif

#endif /* ES_ASSERT_H */
