/* The plan store on a flash that never loses power: the rows of the state table
 * (docs/STORE.md section 4), refusals, bit rot, a log that fills up. Power cuts
 * are native/fuzz/cut_store.c's. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "edgesparse/store.h"

enum { SECTOR = 512, SLOT = 1024, LOG = 3 * SECTOR, SIZE = LOG + 2 * SLOT };

static uint8_t memory[SIZE];
static uint32_t fails_at; /* program fails there; 0: nowhere */
static es_flash flash;
static es_store store;

static int read_flash(void *user, uint32_t address, void *bytes, uint32_t size)
{
    (void)user;
    memcpy(bytes, memory + address, size);
    return 0;
}

static int program(void *user, uint32_t address, const void *bytes,
                   uint32_t size)
{
    const uint8_t *from = bytes;
    (void)user;
    if (fails_at > 0 && address <= fails_at && fails_at < address + size) {
        return 1;
    }
    for (uint32_t i = 0; i < size; i++) {
        if (memory[address + i] != 0xFF) {
            failures++;
        }
        memory[address + i] = from[i];
    }
    return 0;
}

static int erase(void *user, uint32_t address)
{
    (void)user;
    memset(memory + address, 0xFF, SECTOR);
    return 0;
}

/* Plan `which` is `which` times its number; its first byte is its version. */
static uint32_t size_of(uint32_t which)
{
    return 100 + 37 * which;
}

static const uint8_t *bytes_of(uint32_t which)
{
    static uint8_t bytes[SLOT];
    memset(bytes, (int)which, sizeof bytes);
    return bytes;
}

static const uint8_t *sha_of(uint32_t which)
{
    static uint8_t digest[ES_STORE_SHA];
    es_sha256 sha;
    es_sha256_start(&sha);
    es_sha256_add(&sha, bytes_of(which), size_of(which));
    es_sha256_end(&sha, digest);
    return digest;
}

static es_store_status accept(void *user, const uint8_t *bytes, uint32_t size,
                              uint32_t *version)
{
    (void)user;
    *version = bytes[0];
    return size == size_of(9) ? ES_STORE_PLAN_RAM : ES_STORE_OK;
}

static int verify(void *user, const uint8_t *sha, const uint8_t *bytes,
                  uint32_t size)
{
    (void)user;
    return memcmp(sha, sha_of(bytes[0]), ES_STORE_SHA) ||
           size == size_of(8); /* which nobody has signed */
}

static const es_store_hooks hooks = {accept, verify, NULL};

static es_store_status reset(void)
{
    CHECK(es_store_mount(&store, &flash, &hooks) == ES_STORE_OK);
    return es_store_boot(&store);
}

static void start(uint32_t unit)
{
    memset(memory, 0x5A, sizeof memory);
    memset(&flash, 0, sizeof flash);
    flash.read = read_flash;
    flash.program = program;
    flash.erase = erase;
    flash.write_unit = unit;
    flash.sector_size = SECTOR;
    flash.slot_size = SLOT;
    for (uint32_t i = 0; i < ES_STORE_LOGS; i++) {
        flash.log[i] = i * SECTOR;
    }
    for (uint32_t i = 0; i < 2; i++) {
        flash.slot[i] = LOG + i * SLOT;
        flash.bytes[i] = memory + flash.slot[i];
    }
    CHECK(reset() == ES_STORE_SAFE_MODE);
}

static es_store_status upload(uint32_t which)
{
    uint32_t size = size_of(which), part = 7;
    es_store_status status = es_store_begin(&store, size, sha_of(which));
    for (uint32_t at = 0; at < size && !status; at += part) {
        part = size - at < 7 ? size - at : 7;
        status = es_store_write(&store, at, bytes_of(which) + at, part);
    }
    return status ? status : es_store_finish(&store);
}

/* Up to a trial that runs. */
static void try_out(uint32_t which)
{
    CHECK(upload(which) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(which), 1) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK);
}

static void install(uint32_t which)
{
    try_out(which);
    CHECK(es_store_confirm(&store, NULL) == ES_STORE_OK);
}

static bool runs(uint32_t which)
{
    const uint8_t *bytes;
    uint32_t size;
    return es_store_running(&store, &bytes, &size) == ES_STORE_OK &&
           size == size_of(which) && !memcmp(bytes, bytes_of(which), size);
}

static void test_empty(void)
{
    start(4);
    CHECK(!runs(1));
    CHECK(es_store_confirm(&store, NULL) == ES_STORE_BADSTATE);
    CHECK(es_store_revert(&store) == ES_STORE_OK);
    CHECK(es_store_erase(&store) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(1), 1) == ES_STORE_NONE);
    CHECK(es_store_finish(&store) == ES_STORE_BADSTATE);
    CHECK(es_store_write(&store, 0, bytes_of(1), 1) == ES_STORE_BADSTATE);
    CHECK(upload(1) == ES_STORE_OK);
    CHECK(es_store_slot_of(&store, 0).size == size_of(1));
    CHECK(reset() == ES_STORE_SAFE_MODE); /* never without a test */
}

static void test_idle(void)
{
    start(8);
    install(1);
    CHECK(reset() == ES_STORE_OK && runs(1));
    CHECK(es_store_confirm(&store, sha_of(1)) == ES_STORE_OK);
    CHECK(es_store_confirm(&store, sha_of(2)) == ES_STORE_NOT_RUNNING);
    CHECK(es_store_revert(&store) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(1), 1) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_NONE);
    CHECK(es_store_test(&store, sha_of(1), 0) == ES_STORE_ARG);
    CHECK(es_store_test(&store, sha_of(1), 256) == ES_STORE_ARG);
    es_store_slot row = es_store_slot_of(&store, 0);
    CHECK(row.active && row.confirmed && row.good && !row.pending);
    CHECK(row.version == 1 && !memcmp(row.sha, sha_of(1), ES_STORE_SHA));
    uint8_t before[LOG];
    memcpy(before, memory, LOG);
    CHECK(reset() == ES_STORE_OK && runs(1));
    CHECK(!memcmp(before, memory, LOG)); /* a plain boot writes nothing */
}

static void test_requested(void)
{
    start(16);
    install(1);
    CHECK(upload(2) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(es_store_slot_of(&store, 1).pending);
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(es_store_confirm(&store, NULL) == ES_STORE_BADSTATE);
    CHECK(es_store_test(&store, sha_of(1), 1) == ES_STORE_OK); /* cancels */
    CHECK(!es_store_slot_of(&store, 1).pending);
    CHECK(reset() == ES_STORE_OK && runs(1));
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(es_store_revert(&store) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK && runs(1));
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(es_store_erase(&store) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK && runs(1));
    CHECK(es_store_slot_of(&store, 1).size == 0);
}

static void test_trial(void)
{
    start(4);
    install(1);
    try_out(2);
    CHECK(runs(2) && es_store_slot_of(&store, 0).confirmed);
    CHECK(upload(3) == ES_STORE_TRIAL);
    CHECK(es_store_erase(&store) == ES_STORE_TRIAL);
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_TRIAL);
    CHECK(reset() == ES_STORE_OK && runs(1)); /* its try is spent */
    CHECK(es_store_state_of(&store)->why == ES_STORE_WHY_TRIED);
    CHECK(es_store_slot_of(&store, 1).size == size_of(2));
    CHECK(!es_store_slot_of(&store, 1).good);
    CHECK(es_store_test(&store, sha_of(2), 2) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK && runs(2));
    CHECK(reset() == ES_STORE_OK && runs(2));
    CHECK(es_store_revert(&store) == ES_STORE_OK);
    CHECK(runs(2)); /* until the reset */
    CHECK(upload(3) == ES_STORE_IN_USE);
    CHECK(es_store_erase(&store) == ES_STORE_IN_USE);
    CHECK(es_store_confirm(&store, NULL) == ES_STORE_NOT_RUNNING);
    CHECK(reset() == ES_STORE_OK && runs(1));
    install(3);
    CHECK(reset() == ES_STORE_OK && runs(3));
}

static void test_upload(void)
{
    start(8);
    install(1);
    CHECK(es_store_begin(&store, 0, sha_of(2)) == ES_STORE_ARG);
    CHECK(es_store_begin(&store, SLOT + 1, sha_of(2)) == ES_STORE_TOO_LARGE);
    CHECK(es_store_begin(&store, size_of(2), sha_of(2)) == ES_STORE_OK);
    CHECK(es_store_write(&store, 0, bytes_of(2), 30) == ES_STORE_OK);
    CHECK(es_store_write(&store, 0, bytes_of(2), 30) == ES_STORE_OFFSET);
    CHECK(es_store_write(&store, 30, bytes_of(2), SLOT) == ES_STORE_ARG);
    CHECK(es_store_finish(&store) == ES_STORE_OFFSET);
    CHECK(es_store_begin(&store, size_of(2), sha_of(2)) == ES_STORE_OK);
    CHECK(es_store_offset(&store) == 30); /* resumed */
    CHECK(es_store_write(&store, 30, bytes_of(3), size_of(2) - 30) ==
          ES_STORE_OK);
    CHECK(es_store_finish(&store) == ES_STORE_MISMATCH);
    CHECK(es_store_slot_of(&store, 1).size == 0);
    CHECK(upload(9) == ES_STORE_PLAN_RAM);
    CHECK(upload(8) == ES_STORE_SIGNATURE);
    CHECK(es_store_set_minimum(&store, 5) == ES_STORE_OK);
    CHECK(es_store_set_minimum(&store, 4) == ES_STORE_OLDER);
    CHECK(upload(4) == ES_STORE_OLDER);
    CHECK(es_store_slot_of(&store, 1).size == 0);
    install(5);
    CHECK(es_store_test(&store, sha_of(1), 1) == ES_STORE_OLDER);
    CHECK(reset() == ES_STORE_OK && runs(5));
    CHECK(es_store_state_of(&store)->min_version == 5);
    /* A minimum above a requested plan takes the request back. */
    CHECK(upload(6) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(6), 1) == ES_STORE_OK);
    CHECK(es_store_set_minimum(&store, 7) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK && runs(5));
}

static void test_rot(void)
{
    start(16);
    install(1);
    install(2);
    CHECK(upload(3) == ES_STORE_OK);
    memory[flash.slot[1] + 5] ^= 1;
    CHECK(reset() == ES_STORE_SAFE_MODE); /* plan 3 was never confirmed */
    memory[flash.slot[1] + 5] ^= 1;
    CHECK(reset() == ES_STORE_OK && runs(2));
    CHECK(es_store_test(&store, sha_of(3), 1) == ES_STORE_OK);
    memory[flash.slot[0] + 5] ^= 1;
    CHECK(reset() == ES_STORE_OK && runs(2)); /* a trial that is damaged */
    CHECK(es_store_slot_of(&store, 0).size == 0);
    install(4);
    memory[flash.slot[0] + 5] ^= 1;
    CHECK(reset() == ES_STORE_OK && runs(2)); /* was confirmed once */
    CHECK(es_store_state_of(&store)->why == ES_STORE_WHY_DAMAGED);
    CHECK(es_store_slot_of(&store, 1).confirmed);
    CHECK(reset() == ES_STORE_OK && runs(2));
}

static void test_flash_errors(void)
{
    start(4);
    install(1);
    fails_at = flash.slot[1] + 20;
    CHECK(upload(2) == ES_STORE_FLASH);
    CHECK(es_store_offset(&store) == 0);
    fails_at = 0;
    CHECK(upload(2) == ES_STORE_OK);
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(es_store_mount(&store, &flash, &hooks) == ES_STORE_OK);
    flash.erase = NULL;
    CHECK(es_store_mount(&store, &flash, &hooks) == ES_STORE_ARG);
    flash.erase = erase;
    CHECK(es_store_mount(&store, &flash, &hooks) == ES_STORE_OK);
    uint32_t next = (store.sector + 1U) % ES_STORE_LOGS;
    fails_at = flash.log[next] + 3;
    /* The try cannot be spent: no trial, the confirmed plan. */
    CHECK(es_store_boot(&store) == ES_STORE_FLASH && runs(1));
    fails_at = 0;
    CHECK(reset() == ES_STORE_OK && runs(2));
}

static void test_full_log(void)
{
    start(8);
    install(1);
    CHECK(upload(2) == ES_STORE_OK);
    for (uint32_t i = 0; i < 50; i++) { /* a sector has 4 records */
        CHECK(es_store_test(&store, sha_of(2), 1 + i % 3) == ES_STORE_OK);
        CHECK(es_store_test(&store, sha_of(1), 1) == ES_STORE_OK);
    }
    CHECK(es_store_test(&store, sha_of(2), 1) == ES_STORE_OK);
    CHECK(reset() == ES_STORE_OK && runs(2));
}

static void test_layout(void)
{
    start(4);
    flash.slot[1] = flash.slot[0] + SECTOR;
    CHECK(es_store_mount(&store, &flash, NULL) == ES_STORE_ARG);
    start(4);
    flash.write_unit = 5;
    CHECK(es_store_mount(&store, &flash, NULL) == ES_STORE_ARG);
    start(4);
    flash.log[2] = flash.log[1];
    CHECK(es_store_mount(&store, &flash, NULL) == ES_STORE_ARG);
}

/* FIPS 180-4: "abc", and a million times "a". */
static void test_sha256(void)
{
    static const uint8_t abc[4] = {0xBA, 0x78, 0x16, 0xBF};
    static const uint8_t million[4] = {0xCD, 0xC7, 0x6E, 0x5C};
    uint8_t digest[ES_STORE_SHA];
    es_sha256 sha;
    es_sha256_start(&sha);
    es_sha256_add(&sha, "abc", 3);
    es_sha256_end(&sha, digest);
    CHECK(!memcmp(digest, abc, 4) && digest[31] == 0xAD);
    es_sha256_start(&sha);
    for (uint32_t i = 0; i < 1000000 / 50; i++) {
        es_sha256_add(&sha,
                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 50);
    }
    es_sha256_end(&sha, digest);
    CHECK(!memcmp(digest, million, 4) && digest[31] == 0xD0);
}

static void test_texts(void)
{
#define ES_STORE_STATUS(name, value, text)                                     \
    CHECK(!strcmp(es_store_status_text(name), text));
#include "edgesparse/store_status.inc"
#undef ES_STORE_STATUS
    CHECK(!strcmp(es_store_status_text((es_store_status)99), "unknown"));
}

int main(void)
{
    test_empty();
    test_idle();
    test_requested();
    test_trial();
    test_upload();
    test_rot();
    test_flash_errors();
    test_full_log();
    test_layout();
    test_sha256();
    test_texts();
    return failures != 0;
}
