/* SHA-256 (FIPS 180-4), small: a block becomes its own schedule, a ring of
 * 16 words. */
#include "edgesparse/store.h"

#include <string.h>

static const uint32_t round_constant[64] = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1,
    0x923F82A4, 0xAB1C5ED5, 0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3,
    0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174, 0xE49B69C1, 0xEFBE4786,
    0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147,
    0x06CA6351, 0x14292967, 0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13,
    0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85, 0xA2BFE8A1, 0xA81A664B,
    0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A,
    0x5B9CCA4F, 0x682E6FF3, 0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208,
    0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};
static const uint32_t start_value[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372,
                                        0xA54FF53A, 0x510E527F, 0x9B05688C,
                                        0x1F83D9AB, 0x5BE0CD19};

static uint32_t rotate(uint32_t x, uint32_t n)
{
    return x >> n | x << (32 - n);
}

/* Word i of the schedule, in place of word i - 16. */
static uint32_t next_word(uint32_t *ring, uint32_t i)
{
    uint32_t x = ring[(i + 1) & 15], y = ring[(i + 14) & 15];
    uint32_t s0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3;
    uint32_t s1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
    return ring[i & 15] += s0 + ring[(i + 9) & 15] + s1;
}

/* The block becomes its schedule. */
static void mix(uint32_t *hash, uint32_t *block)
{
    /* a to h of all rounds, the last ones first: a round's are at v[0] to
     * v[7], and nothing moves but v. */
    uint32_t all[64 + 8], *v = all + 64;
    memcpy(v, hash, 8 * sizeof *v);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t chosen = v[6] ^ (e & (v[5] ^ v[6]));
        uint32_t majority = (a & v[1]) | (v[2] & (a | v[1]));
        uint32_t t = v[7] + s1 + chosen + round_constant[i] +
                     (i < 16 ? block[i] : next_word(block, i));
        v[3] += t;
        *--v = t + s0 + majority;
    }
    for (uint32_t i = 0; i < 8; i++) {
        hash[i] += v[i];
    }
}

void es_sha256_start(es_sha256 *sha)
{
    memcpy(sha->hash, start_value, sizeof sha->hash);
    sha->size = 0;
}

void es_sha256_add(es_sha256 *sha, const void *bytes, uint32_t size)
{
    const uint8_t *from = bytes;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t *word = &sha->block[sha->size / 4 & 15];
        *word = *word << 8 | from[i];
        if ((++sha->size & 63) == 0) {
            mix(sha->hash, sha->block);
        }
    }
}

void es_sha256_end(es_sha256 *sha, uint8_t *digest)
{
    static const uint8_t padding[2] = {0x80, 0};
    uint32_t size = sha->size, zero = 0;
    do {
        es_sha256_add(sha, padding + zero, 1);
        zero = 1;
    } while ((sha->size & 63) != 56);
    sha->block[14] = size >> 29; /* in bits */
    sha->block[15] = size << 3;
    mix(sha->hash, sha->block);
    for (uint32_t i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(sha->hash[i / 4] >> (24 - 8 * (i & 3)));
    }
}
