/* The flash driver refuses what NOR flash does not do, and then changes
 * nothing. Runs on the boards, over their PSRAM. */
#include "firmware.h"

#include <stdio.h>
#include <string.h>

enum { SECTOR = 4096, UNIT = 8 };

void es_watchdog_feed(void)
{
}

static int failed;
static uint8_t there[UNIT];

static void check(bool fine, const char *what)
{
    if (!fine) {
        printf("FAIL %s\n", what);
        failed = 1;
    }
}

static bool reads(uint32_t address, const uint8_t *bytes)
{
    return es_nvm.read(NULL, address, there, UNIT) == 0 &&
           memcmp(there, bytes, UNIT) == 0;
}

static int program(uint32_t address, const uint8_t *bytes, uint32_t size)
{
    return es_nvm.program(NULL, address, bytes, size);
}

int main(void)
{
    static const uint8_t some[UNIT] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t none[UNIT] = {0}, both[2 * UNIT] = {9};
    static const uint8_t blank[UNIT] = {255, 255, 255, 255, 255, 255, 255, 255};
    uint32_t size = es_nvm.slot[1] + es_nvm.slot_size;

    check(es_nvm.erase(NULL, 0) == 0 && es_nvm.erase(NULL, SECTOR) == 0,
          "erase");
    check(reads(0, blank) && reads(2 * SECTOR - UNIT, blank), "erased");
    check(program(8, some, UNIT) == 0 && reads(8, some), "program");
    check(program(8, none, UNIT) != 0 && reads(8, some), "twice");
    check(program(16, blank, UNIT) == 0 && program(16, some, UNIT) != 0 &&
              reads(16, blank),
          "twice, although the first left it blank");
    check(program(0, both, 2 * UNIT) != 0 && reads(8, some),
          "over a unit that is programmed");
    check(program(28, some, UNIT) != 0 && program(24, some, 4) != 0 &&
              reads(24, blank),
          "across units");
    check(program(size - UNIT + 8, some, UNIT) != 0 &&
              es_nvm.erase(NULL, size) != 0 && es_nvm.erase(NULL, 8) != 0 &&
              es_nvm.read(NULL, size - 4, there, UNIT) != 0,
          "outside");
    check(es_nvm.erase(NULL, 0) == 0 && reads(8, blank) &&
              program(8, none, UNIT) == 0 && reads(8, none),
          "programmed after an erase");
    check(program(SECTOR, some, UNIT) == 0, "another sector");
    return failed;
}
