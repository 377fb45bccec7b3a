#include "ram_images.h"

#include <string.h>

/* ---- SHA-256 (FIPS 180-4) ---- */

static uint32_t rotate(uint32_t x, uint32_t bits)
{
    return x >> bits | x << (32 - bits);
}

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void take_block(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                     ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
        uint32_t u = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                     ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++) {
        h[i] += s[i];
    }
}

void es_sha256_of(const uint8_t *bytes, size_t size, uint8_t digest[32])
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t whole = size / 64 * 64, rest = size - whole;
    size_t tail = rest < 56 ? 64 : 128;

    for (size_t at = 0; at < whole; at += 64) {
        take_block(h, bytes + at);
    }
    if (rest != 0) {
        memcpy(last, bytes + whole, rest);
    }
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        last[tail - 1 - i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    }
    for (size_t at = 0; at < tail; at += 64) {
        take_block(h, last + at);
    }
    for (int i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(h[i / 4] >> (24 - i % 4 * 8));
    }
}

/* ---- the store ---- */

static bool in_trial(const es_ram_images *images)
{
    return images->running != images->confirmed;
}

static int spare(const es_ram_images *images)
{
    return images->confirmed == 0 ? 1 : 0;
}

static int slot(void *user, uint32_t number, es_link_slot *info)
{
    const es_ram_images *images = user;
    int n = (int)number;

    if (images->slot[n].size == 0) {
        return ES_IMAGE_EMPTY;
    }
    memset(info, 0, sizeof *info);
    memcpy(info->hash, images->slot[n].hash, 32);
    info->version = images->slot[n].size;
    info->bootable = true;
    info->pending = images->requested == n;
    info->confirmed = images->confirmed == n;
    info->active = images->running == n;
    return ES_IMAGE_OK;
}

static int begin(void *user, uint32_t size, const uint8_t hash[32])
{
    es_ram_images *images = user;
    int target = spare(images);

    if (in_trial(images)) {
        return ES_IMAGE_PENDING;
    }
    if (size > ES_RAM_SLOT_SIZE || size == 0) {
        return ES_IMAGE_TOO_LARGE;
    }
    if (images->upload.slot == target && images->upload.size == size &&
        memcmp(images->upload.hash, hash, 32) == 0) {
        return ES_IMAGE_OK;
    }
    images->slot[target].size = 0;
    images->requested = ES_RAM_NONE;
    images->upload.slot = target;
    images->upload.size = size;
    images->upload.offset = 0;
    memcpy(images->upload.hash, hash, 32);
    return ES_IMAGE_OK;
}

static uint32_t offset(void *user)
{
    const es_ram_images *images = user;
    return images->upload.offset;
}

static int write(void *user, const uint8_t *bytes, uint32_t size)
{
    es_ram_images *images = user;

    if (size > images->upload.size - images->upload.offset) {
        return ES_IMAGE_OVERRUN;
    }
    memcpy(images->slot[images->upload.slot].bytes + images->upload.offset,
           bytes, size);
    images->upload.offset += size;
    return ES_IMAGE_OK;
}

static int finish(void *user)
{
    es_ram_images *images = user;
    int target = images->upload.slot;
    uint8_t hash[32];

    images->upload.slot = ES_RAM_NONE;
    es_sha256_of(images->slot[target].bytes, images->upload.size, hash);
    if (memcmp(hash, images->upload.hash, 32) != 0) {
        return ES_IMAGE_HASH;
    }
    memcpy(images->slot[target].hash, hash, 32);
    images->slot[target].size = images->upload.size;
    return ES_IMAGE_OK;
}

static int test(void *user, const uint8_t hash[32])
{
    es_ram_images *images = user;

    if (in_trial(images)) {
        return ES_IMAGE_PENDING;
    }
    for (int n = 0; n < ES_RAM_SLOTS; n++) {
        if (images->slot[n].size != 0 &&
            memcmp(images->slot[n].hash, hash, 32) == 0) {
            images->requested = n == images->confirmed ? ES_RAM_NONE : n;
            return ES_IMAGE_OK;
        }
    }
    return ES_IMAGE_NO_HASH;
}

static int confirm(void *user, const uint8_t *hash)
{
    es_ram_images *images = user;
    int n = images->running;

    if (n == ES_RAM_NONE ||
        (hash != NULL && memcmp(images->slot[n].hash, hash, 32) != 0)) {
        return ES_IMAGE_CONFIRM;
    }
    images->confirmed = n;
    return ES_IMAGE_OK;
}

static int erase(void *user, int32_t number)
{
    es_ram_images *images = user;
    int target = spare(images);

    if (in_trial(images) || (number >= 0 && number != target)) {
        return ES_IMAGE_PENDING;
    }
    images->slot[target].size = 0;
    images->requested = ES_RAM_NONE;
    images->upload.slot = ES_RAM_NONE;
    return ES_IMAGE_OK;
}

void es_ram_images_init(es_ram_images *images, const uint8_t *plan,
                        uint32_t size)
{
    static const es_link_images table = {
        ES_RAM_SLOTS, ES_RAM_SLOT_SIZE, slot,  begin, offset, write, finish,
        test,         confirm,          erase, NULL};

    memset(images, 0, sizeof *images);
    images->table = table;
    images->table.user = images;
    images->confirmed = images->requested = ES_RAM_NONE;
    images->running = images->upload.slot = ES_RAM_NONE;
    if (size != 0) {
        memcpy(images->slot[0].bytes, plan, size);
        images->slot[0].size = size;
        es_sha256_of(plan, size, images->slot[0].hash);
        images->confirmed = images->running = 0;
    }
}

void es_ram_images_reset(es_ram_images *images)
{
    images->running = images->requested != ES_RAM_NONE ? images->requested
                                                       : images->confirmed;
    images->requested = ES_RAM_NONE;
    images->upload.slot = ES_RAM_NONE;
}
