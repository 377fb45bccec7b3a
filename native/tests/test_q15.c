/* q15.h over every int16 number: the functions of PLAN_FORMAT.md section 6. */
#include <stdio.h>

#include "exec/q15.h"
#include "plan/crc32.h"

/* tests/test_fixedpoint.py has the same number from the twin in Python. */
enum { MOST_BITS = 6 };
static const uint32_t expected = 0xcfcb7944;

static uint32_t add(uint32_t crc, int32_t value)
{
    uint8_t bytes[2] = {(uint8_t)(value & 255), (uint8_t)(value >> 8 & 255)};
    return es_crc32(crc, bytes, sizeof bytes);
}

int main(void)
{
    uint32_t crc = 0;
    int failures = 0;
    for (int32_t a = INT16_MIN; a <= INT16_MAX; a++) {
        int32_t y = es_logistic_i16(a);
        failures += y < 0 || y > INT16_MAX;
        crc = add(crc, y);
    }
    for (int bits = 0; bits <= MOST_BITS; bits++) {
        for (int32_t a = INT16_MIN; a <= INT16_MAX; a++) {
            int32_t y = es_tanh_i16(a, bits);
            failures += y < -INT16_MAX || y > INT16_MAX;
            crc = add(crc, y);
        }
    }
    if (failures || crc != expected) {
        printf("%d values outside; checksum %08lx instead of %08lx\n", failures,
               (unsigned long)crc, (unsigned long)expected);
        return 1;
    }
    return 0;
}
