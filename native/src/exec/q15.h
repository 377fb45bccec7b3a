/* Logistic and tanh of int16 numbers: PLAN_FORMAT.md section 6. `Qk` means k
 * integer bits in int16. */
#ifndef ES_Q15_H
#define ES_Q15_H

#include <stdint.h>

/* 1 / (1 + exp(-a)) in Q0 of a in Q3. */
int32_t es_logistic_i16(int32_t a);
/* tanh(a) in Q0 of a in Q`bits`, 0 to 6. */
int32_t es_tanh_i16(int32_t a, int bits);

#endif /* ES_Q15_H */
