/* A signed plan, as docs/STORE.md section 5 has it: the signature stands behind
 * the plan, and `verify` looks at it before the plan is listed. The signature
 * here is a test's: SHA-256 of key, digest, key. A product checks Ed25519 or
 * what its chip has in the same place. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "edgesparse/link.h"
#include "edgesparse/store.h"

enum { SECTOR = 512, SLOT = 1024, LOG = 3 * SECTOR, SIZE = LOG + 2 * SLOT };
enum { PLAN = 300, SIGNATURE = ES_STORE_SHA, SIGNED = PLAN + SIGNATURE };

static uint8_t memory[SIZE];

static int read_flash(void *user, uint32_t address, void *bytes, uint32_t size)
{
    (void)user;
    memcpy(bytes, memory + address, size);
    return 0;
}

static int program(void *user, uint32_t address, const void *bytes,
                   uint32_t size)
{
    (void)user;
    memcpy(memory + address, bytes, size);
    return 0;
}

static int erase(void *user, uint32_t address)
{
    (void)user;
    memset(memory + address, 0xFF, SECTOR);
    return 0;
}

static void digest_of(const void *bytes, uint32_t size, uint8_t *digest)
{
    es_sha256 sha;
    es_sha256_start(&sha);
    es_sha256_add(&sha, bytes, size);
    es_sha256_end(&sha, digest);
}

static void sign(const char *key, const uint8_t *plan, uint32_t size,
                 uint8_t *signature)
{
    uint8_t digest[ES_STORE_SHA];
    es_sha256 sha;
    digest_of(plan, size, digest);
    es_sha256_start(&sha);
    es_sha256_add(&sha, key, (uint32_t)strlen(key));
    es_sha256_add(&sha, digest, sizeof digest);
    es_sha256_add(&sha, key, (uint32_t)strlen(key));
    es_sha256_end(&sha, signature);
}

/* user: the key. `sha` is that of plan and signature, and says nothing here. */
static int verify(void *user, const uint8_t *sha, const uint8_t *bytes,
                  uint32_t size)
{
    uint8_t wanted[SIGNATURE];
    (void)sha;
    if (size < SIGNATURE) {
        return 1;
    }
    sign(user, bytes, size - SIGNATURE, wanted);
    return memcmp(wanted, bytes + size - SIGNATURE, SIGNATURE);
}

/* What the link answers at the end of an upload. */
static int upload(const es_link_images *images, const uint8_t *bytes,
                  uint32_t size)
{
    uint8_t sha[ES_STORE_SHA];
    digest_of(bytes, size, sha);
    CHECK(images->begin(images->user, size, sha) == ES_IMAGE_OK);
    CHECK(images->write(images->user, bytes, size) == ES_IMAGE_OK);
    return images->finish(images->user);
}

int main(void)
{
    static char key[] = "the maker's";
    const es_flash flash = {.read = read_flash,
                            .program = program,
                            .erase = erase,
                            .write_unit = 8,
                            .sector_size = SECTOR,
                            .log = {0, SECTOR, 2 * SECTOR},
                            .slot = {LOG, LOG + SLOT},
                            .slot_size = SLOT,
                            .bytes = {memory + LOG, memory + LOG + SLOT}};
    const es_store_hooks hooks = {.verify = verify, .user = key};
    es_store store;
    es_link_images images;
    es_link_slot slot;
    uint8_t file[SIGNED];

    memset(memory, 0xFF, sizeof memory);
    CHECK(es_store_mount(&store, &flash, &hooks) == ES_STORE_OK);
    CHECK(es_store_boot(&store) == ES_STORE_SAFE_MODE);
    images = es_link_store_images(&store);
    for (uint32_t i = 0; i < PLAN; i++) {
        file[i] = (uint8_t)(i * 7);
    }

    sign("another's", file, PLAN, file + PLAN);
    CHECK(upload(&images, file, SIGNED) == ES_IMAGE_SIGNATURE);
    sign(key, file, PLAN, file + PLAN);
    CHECK(upload(&images, file, PLAN) == ES_IMAGE_SIGNATURE); /* cut off */
    CHECK(upload(&images, file, SIGNATURE - 1) == ES_IMAGE_SIGNATURE);
    for (uint32_t i = 0; i < SIGNED; i += 13) {
        file[i] ^= 1;
        CHECK(upload(&images, file, SIGNED) == ES_IMAGE_SIGNATURE);
        CHECK(images.slot(images.user, 0, &slot) == ES_IMAGE_EMPTY);
        file[i] ^= 1;
    }
    CHECK(upload(&images, file, SIGNED) == ES_IMAGE_OK);
    CHECK(images.slot(images.user, 0, &slot) == ES_IMAGE_OK);
    CHECK(images.test(images.user, slot.hash) == ES_IMAGE_OK);
    return failures != 0;
}
