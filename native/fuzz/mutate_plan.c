/* Break plans on purpose and open them: mutate_plan [-n N] [-s SEED] PLAN...
 *
 * Makes N mutants of each plan file, with the trailer repaired, so that it is
 * the invariants that have to refuse them. Each mutant stands in a heap block
 * of exactly its size, each accepted one runs in an arena of exactly
 * ram_bytes, with samples pushed where it is a stream; the sanitizers judge.
 * Prints what was refused by which invariant. The same seed gives the same
 * mutants. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "edgesparse/edgesparse.h"
#include "plan/crc32.h"
#include "sites.h"

enum {
    TRAILER = 64,
    INVARIANTS = 90,
    FRAMES = 4096,       /* most frames pushed into a stream */
    MOST_RAM = 64 << 20, /* a bigger arena is counted and left alone */
    MOST_COST = 5000000  /* the same for a run with more work than that */
};

typedef struct es_tally {
    unsigned long mutants, accepted, ran, streamed, flushed, too_big, too_long;
    unsigned long wrong_self_test, version;
    unsigned long refused[INVARIANTS];
} es_tally;

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "%s\n", what);
        exit(2);
    }
}

static void *allocate(size_t size)
{
    void *block = NULL;
    check(posix_memalign(&block, ES_ALIGN, size) == 0, "out of memory");
    return block;
}

/* ---- random numbers: splitmix64 ---- */

static uint64_t state;

static uint64_t any(void)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t below(uint32_t limit)
{
    return (uint32_t)(any() % limit);
}

/* Numbers at the edges of what checks compare with. */
static uint32_t interesting(uint32_t now)
{
    static const uint32_t edges[] = {
        0,          1,          2,          3,          4,          5,
        7,          8,          15,         16,         17,         20,
        30,         31,         32,         62,         63,         64,
        127,        128,        255,        256,        4095,       4096,
        0x7FFF,     0x8000,     0xFFFE,     0xFFFF,     0x10000,    0xFFFFFF,
        0x1000000,  0x3FFFFFFF, 0x40000000, 0x7FFFFFFF, 0x80000000, 0x80000001,
        0xFFFFFF00, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF};
    switch (below(4)) {
    case 0:
        return edges[below(sizeof edges / sizeof edges[0])];
    case 1: /* a little more or less */
        return now + below(33) - 16;
    case 2:
        return now ^ (uint32_t)1 << below(32);
    default:
        return (uint32_t)any();
    }
}

/* ---- mutations of the FlatBuffer bytes[size] ---- */

static void put(uint8_t *bytes, uint32_t size, uint32_t at, uint32_t width)
{
    uint32_t value = 0;
    if (at < size && width <= size - at) {
        memcpy(&value, bytes + at, width);
        value = interesting(value);
        memcpy(bytes + at, &value, width);
    }
}

static void change_site(uint8_t *bytes, uint32_t size, const es_sites *sites)
{
    const es_site *site = &sites->items[below((uint32_t)sites->count)];
    const es_site *other = &sites->items[below((uint32_t)sites->count)];
    uint32_t value;

    if (site->kind == SITE_OFFSET && below(2) == 0) {
        /* to where another one leads, or where it stands itself */
        memcpy(&value, bytes + other->at, 4 <= size - other->at ? 4 : 0);
        value = other->kind == SITE_OFFSET ? other->at + value : other->at;
        value -= site->at;
        if (site->at + 4 <= size) {
            memcpy(bytes + site->at, &value, 4);
        }
    } else if (below(4) == 0 && site->size == other->size &&
               site->at + site->size <= size &&
               other->at + site->size <= size) {
        memmove(bytes + site->at, bytes + other->at, site->size);
    } else {
        put(bytes, size, site->at, site->size);
    }
}

static void copy_block(uint8_t *bytes, uint32_t size)
{
    uint32_t length = 1 + below(64);
    if (length < size) {
        memmove(bytes + below(size - length), bytes + below(size - length),
                length);
    }
}

/* Returns the new size. */
static uint32_t mutate(uint8_t *bytes, uint32_t size, const es_sites *sites)
{
    uint32_t width = (uint32_t)1 << below(3);
    switch (below(16)) {
    case 0:
        bytes[below(size)] ^= (uint8_t)(1 << below(8));
        return size;
    case 1:
        put(bytes, size, below(size) / width * width, width);
        return size;
    case 2:
        copy_block(bytes, size);
        return size;
    case 3:
        return below(4) == 0 ? 8 + below(size - 7) : size;
    default:
        change_site(bytes, size, sites);
        return size;
    }
}

/* ---- one mutant ---- */

static void look(void *user, const es_result *result)
{
    es_session *session = user;
    es_stream stream;
    es_buffer buffer;
    check(es_stream_info(session, &stream) == ES_OK, "es_stream_info");
    check(result->kind != ES_RESULT_BEAT ||
              (result->sample >= 0 && result->value < stream.classes),
          "a beat that cannot be");
    check(es_output(session, 0, &buffer) == ES_OK, "es_output");
}

/* Noise, extremes, constants and missing samples. */
static int16_t sample(int16_t last)
{
    switch (below(8)) {
    case 0:
        return ES_MISSING;
    case 1:
        return below(2) != 0 ? INT16_MAX : -INT16_MAX;
    case 2:
    case 3:
        return (int16_t)(uint16_t)any();
    default:
        return last;
    }
}

/* Push a random signal in random pieces; end the record where that is not too
 * much work: it repeats at most as many frames as the delay and the record. */
static void push(es_session *session, double cost, es_tally *tally)
{
    es_stream stream;
    int16_t frames[64], last = 0;
    uint32_t most, done = 0;

    if (es_stream_info(session, &stream) != ES_OK) {
        return;
    }
    check(es_reset(session) == ES_OK, "es_reset");
    most = cost * (FRAMES / stream.hop + 1.0) > MOST_COST ? stream.hop : FRAMES;
    while (done < most && done < FRAMES) {
        uint32_t count =
            below(64 / (stream.channels < 64 ? stream.channels : 64) + 1);
        if (stream.channels > 64) {
            break;
        }
        for (uint32_t i = 0; i < count * stream.channels; i++) {
            frames[i] = last = sample(last);
        }
        check(es_push(session, frames, count, look, session) == ES_OK,
              "es_push");
        done += count;
    }
    tally->streamed++;
    if (stream.delay < FRAMES &&
        cost * ((2.0 * FRAMES + stream.delay) / stream.hop) < MOST_COST) {
        check(es_flush(session, look, session) == ES_OK, "es_flush");
        tally->flushed++;
    }
}

static void run(const es_plan *plan, es_tally *tally)
{
    es_session session;
    es_info info;
    es_buffer buffer;
    es_status status;
    void *arena;
    double cost = es_plan_cost(plan);

    check(es_plan_info(plan, &info) == ES_OK, "es_plan_info");
    if (info.ram_bytes > MOST_RAM) {
        tally->too_big++;
        return;
    }
    if (cost > MOST_COST) {
        tally->too_long++;
        return;
    }
    arena = allocate(info.ram_bytes);
    check(es_session_init(&session, plan, arena, info.ram_bytes) == ES_OK,
          "es_session_init");
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < info.inputs; i++) {
            check(es_input(&session, i, &buffer) == ES_OK, "es_input");
            for (uint32_t k = 0; k < buffer.size; k++) {
                buffer.data[k] = (int8_t)(uint8_t)any();
            }
        }
        check(es_run(&session) == ES_OK, "es_run");
    }
    for (uint32_t i = 0; i < info.outputs; i++) {
        check(es_output(&session, i, &buffer) == ES_OK, "es_output");
    }
    push(&session, cost, tally);
    status = es_self_test(&session);
    check(status == ES_OK || status == ES_ERR_NO_GOLDEN ||
              status == ES_ERR_SELF_TEST,
          "es_self_test");
    tally->wrong_self_test += status == ES_ERR_SELF_TEST;
    tally->ran++;
    free(arena);
}

static uint32_t padded(uint32_t size)
{
    return (size + 15) / 16 * 16;
}

/* Padding and trailer for the FlatBuffer bytes[size]. */
static void seal(uint8_t *bytes, uint32_t size, const uint8_t *trailer)
{
    uint8_t *end = bytes + padded(size);
    uint32_t crc = es_crc32(0, bytes, size);
    memset(bytes + size, 0, padded(size) - size);
    memcpy(end, trailer, TRAILER);
    memcpy(end + 8, &size, 4);
    memcpy(end + 12, &crc, 4);
}

static void try_one(const es_plan *original, const es_sites *sites,
                    es_tally *tally)
{
    uint8_t *work = allocate(padded(original->size) + TRAILER), *exact;
    uint32_t size = original->size, changes = 1 + below(3);
    es_plan plan;
    es_fault fault = {0, 0, 0};
    es_status status;

    memcpy(work, original->bytes, size);
    while (changes-- > 0) {
        size = mutate(work, size, sites);
    }
    exact = allocate(padded(size) + TRAILER);
    memcpy(exact, work, size);
    seal(exact, size, original->bytes + padded(original->size));
    status = es_plan_open(&plan, exact, padded(size) + TRAILER, &fault);
    tally->mutants++;
    if (status == ES_OK) {
        tally->accepted++;
        run(&plan, tally);
    } else {
        check(status == ES_ERR_BUILD
                  ? fault.invariant == 0
                  : fault.invariant > 0 && fault.invariant < INVARIANTS,
              "a refusal without an invariant");
        tally->refused[fault.invariant]++;
        tally->version += status == ES_ERR_VERSION;
    }
    free(exact);
    free(work);
}

/* ---- files ---- */

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long length;
    check(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    length = ftell(file);
    check(length > 0, path);
    rewind(file);
    *size = (size_t)length;
    bytes = allocate(*size);
    check(fread(bytes, 1, *size, file) == *size, path);
    fclose(file);
    return bytes;
}

static void mutate_file(const char *path, unsigned long count, es_tally *tally)
{
    size_t size;
    uint8_t *bytes = read_file(path, &size);
    es_plan plan;
    es_fault fault = {0, 0, 0};
    es_sites sites;

    if (es_plan_open(&plan, bytes, size, &fault) != ES_OK) {
        fprintf(stderr, "%s: refused by I-%u, step %d, index %ld\n", path,
                (unsigned)fault.invariant, fault.step, (long)fault.index);
        exit(1);
    }
    sites = es_sites_find(&plan);
    for (unsigned long i = 0; i < count; i++) {
        try_one(&plan, &sites, tally);
    }
    es_sites_free(&sites);
    free(bytes);
}

static void report(const es_tally *tally)
{
    printf("mutants %lu\naccepted %lu (%.1f %%)\n", tally->mutants,
           tally->accepted,
           100.0 * (double)tally->accepted /
               (double)(tally->mutants ? tally->mutants : 1));
    printf("ran %lu, self test differed %lu, arena too big %lu, too long %lu\n",
           tally->ran, tally->wrong_self_test, tally->too_big, tally->too_long);
    printf("streamed %lu\nflushed %lu\n", tally->streamed, tally->flushed);
    printf("other version %lu\n", tally->version);
    for (int i = 0; i < INVARIANTS; i++) {
        if (tally->refused[i] > 0) {
            printf("I-%d %lu\n", i, tally->refused[i]);
        }
    }
}

int main(int argc, char **argv)
{
    static es_tally tally;
    unsigned long count = 10000;
    int i = 1;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "-n") == 0) {
            count = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "-s") == 0) {
            state = strtoull(argv[i + 1], NULL, 10);
        } else {
            break;
        }
    }
    if (i >= argc || argv[i][0] == '-') {
        fputs("use: mutate_plan [-n MUTANTS] [-s SEED] PLAN...\n", stderr);
        return 2;
    }
    for (; i < argc; i++) {
        mutate_file(argv[i], count, &tally);
    }
    report(&tally);
    return 0;
}
