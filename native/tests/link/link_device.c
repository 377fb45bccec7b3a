/* A device that is a process: link_device [--lockstep] [--store] BUF_SIZE
 * [PLAN]
 *
 * The link over stdin and stdout, a plan store in RAM (with --store the real
 * one, over flash in RAM), a session of PLAN. A reset starts the link anew,
 * with a session of the plan that runs then, and keeps the store; bytes that
 * are no plan leave the session as it was. With --lockstep, each piece of input
 * is a u16 and so many bytes, and is answered by a u32 and so many bytes: a
 * test then needs no clock to know that nothing more will come. */
#include "edgesparse/link.h"
#include "flash_images.h"
#include "ram_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RING = 1024, OUTPUT = 1 << 18 };

typedef struct device {
    es_link link;
    es_link_config config;
    es_ram_images images;
    es_flash_images flash;
    es_session session;
    es_plan plan;
    es_step_counter *counters;
    uint8_t *bytes; /* of the plan */
    void *arena;
    uint32_t arena_size;
    size_t output_size;
    uint8_t output[OUTPUT];
    bool restart;
} device;

static void check(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "link_device: %s\n", what);
        exit(2);
    }
}

static void *allocate(size_t size)
{
    void *block = NULL;
    check(posix_memalign(&block, ES_ALIGN, size + ES_ALIGN) == 0, "memory");
    return block;
}

static void send(void *user, const uint8_t *bytes, size_t size)
{
    device *d = user;
    check(size <= OUTPUT - d->output_size, "output");
    if (size != 0) {
        memcpy(d->output + d->output_size, bytes, size);
    }
    d->output_size += size;
}

static void reset(void *user)
{
    device *d = user;
    d->restart = true;
}

static uint32_t micros(void *user)
{
    struct timespec now;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000000u + (uint32_t)(now.tv_nsec / 1000);
}

static uint32_t ticks(void)
{
    return micros(NULL);
}

static void start(device *d)
{
    if (d->config.session != NULL) {
        check(es_session_init(&d->session, &d->plan, d->arena, d->arena_size) ==
                  ES_OK,
              "session");
        es_set_clock(&d->session, ticks);
        es_set_counters(&d->session, d->counters);
    }
    check(es_link_init(&d->link, &d->config) == ES_OK, "link");
    d->restart = false;
}

/* False: they are no plan. Counters and arena are as large as they have to be,
 * so that a sanitizer sees one byte more. */
static bool open_plan(device *d, const uint8_t *bytes, size_t size)
{
    es_info info;
    uint8_t *copy = allocate(size);

    memcpy(copy, bytes, size);
    if (es_plan_open(&d->plan, copy, size, NULL) != ES_OK) {
        free(copy);
        return false;
    }
    free(d->bytes);
    free(d->arena);
    free(d->counters);
    check(es_plan_info(&d->plan, &info) == ES_OK, "plan");
    d->bytes = copy;
    d->arena_size = info.ram_bytes;
    d->arena = allocate(info.ram_bytes);
    d->counters = calloc(info.steps + 1, sizeof *d->counters);
    check(d->counters != NULL, "memory");
    d->config.session = &d->session;
    d->config.counters = d->counters;
    return true;
}

/* After a reset: the plan that runs now. */
static void switch_over(device *d)
{
    const uint8_t *bytes = NULL;
    uint32_t size = 0;

    es_ram_images_reset(&d->images);
    es_flash_images_reset(&d->flash);
    if (d->config.images == &d->flash.table) {
        if (es_store_running(&d->flash.store, &bytes, &size) != ES_STORE_OK) {
            bytes = NULL;
        }
    } else if (d->images.running != ES_RAM_NONE) {
        bytes = d->images.slot[d->images.running].bytes;
        size = d->images.slot[d->images.running].size;
    }
    if (bytes != NULL) {
        (void)open_plan(d, bytes, size);
    }
    start(d);
}

static uint32_t load_plan(device *d, const char *path, uint8_t **bytes)
{
    FILE *file = fopen(path, "rb");
    long size;

    check(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
    size = ftell(file);
    check(size > 0 && size <= ES_RAM_SLOT_SIZE, path);
    rewind(file);
    *bytes = allocate((size_t)size);
    check(fread(*bytes, 1, (size_t)size, file) == (size_t)size, path);
    fclose(file);
    check(open_plan(d, *bytes, (size_t)size), "plan");
    return (uint32_t)size;
}

static void put(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t done = write(1, at, size);
        if (done <= 0) {
            exit(0);
        }
        at += done;
        size -= (size_t)done;
    }
}

static void get(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t done = read(0, at, size);
        if (done <= 0) {
            exit(0);
        }
        at += done;
        size -= (size_t)done;
    }
}

static void feed(device *d, const uint8_t *bytes, size_t size)
{
    d->output_size = 0;
    for (size_t i = 0; i < size; i++) {
        es_link_feed(&d->link, bytes[i]);
        if (d->restart) {
            switch_over(d);
            return; /* what the UART holds is lost */
        }
    }
}

static void serve(device *d, bool lockstep)
{
    uint8_t bytes[65536];

    for (;;) {
        size_t size;
        if (lockstep) {
            get(bytes, 2);
            size = (size_t)bytes[0] | (size_t)bytes[1] << 8;
            get(bytes, size);
        } else {
            ssize_t got = read(0, bytes, sizeof bytes);
            if (got <= 0) {
                return;
            }
            size = (size_t)got;
        }
        feed(d, bytes, size);
        if (lockstep) {
            uint8_t head[4];
            for (int i = 0; i < 4; i++) {
                head[i] = (uint8_t)(d->output_size >> (8 * i));
            }
            put(head, sizeof head);
        }
        put(d->output, d->output_size);
    }
}

int main(int count, char **words)
{
    bool lockstep = count > 1 && strcmp(words[1], "--lockstep") == 0;
    bool store =
        count > 1 + lockstep && strcmp(words[1 + lockstep], "--store") == 0;
    device *d = calloc(1, sizeof *d);
    uint8_t *plan = NULL;
    uint32_t size = 0;

    words += lockstep + store;
    count -= lockstep + store;
    check(count >= 2 && d != NULL, "[--lockstep] [--store] BUF_SIZE [PLAN]");
    d->config.buf_size = (uint32_t)strtoul(words[1], NULL, 10);
    /* Of exactly the promised size, so that a sanitizer sees one byte more. */
    d->config.rx = malloc(d->config.buf_size + ES_LINK_CHECK);
    d->config.tx = malloc(d->config.buf_size + ES_LINK_CHECK);
    d->config.ring = malloc(RING);
    d->config.ring_size = RING;
    d->config.send = send;
    d->config.reset = reset;
    d->config.micros = micros;
    d->config.ticks_per_second = 1000000;
    d->config.user = d;
    d->config.images = store ? &d->flash.table : &d->images.table;
    if (count > 2) {
        size = load_plan(d, words[2], &plan);
    }
    es_ram_images_init(&d->images, plan, size);
    es_flash_images_init(&d->flash, plan, size);
    start(d);
    serve(d, lockstep);
    return 0;
}
