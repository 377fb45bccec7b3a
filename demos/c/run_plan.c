/* Run a plan from C: everything the public header asks for, once.
 *
 *     run_plan PLAN INPUT > OUTPUT
 *
 * PLAN is what `edgesparse convert` wrote. INPUT holds the bytes of all inputs
 * in order, int8: q = round(real / scale) + zero point, with the numbers that
 * `edgesparse inspect PLAN` prints. OUTPUT are the int8 bytes of all outputs.
 *
 * On a device the plan stands in flash (an array aligned to ES_ALIGN, for
 * instance from `xxd -i`, of exactly the file's size) and the arena is a static
 * array of the RAM that `convert` printed; files and malloc are for the host.
 */
#include "edgesparse/edgesparse.h"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what, es_status status)
{
    fprintf(stderr, "%s: %s\n", what, es_status_text(status));
    return 2;
}

/* The whole file at an address that is a multiple of ES_ALIGN; NULL: cannot. */
static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        return NULL;
    }
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = aligned_alloc(ES_ALIGN, (*size / ES_ALIGN + 1) * ES_ALIGN);
    if (bytes != NULL && fread(bytes, 1, *size, file) != *size) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    size_t size = 0;
    void *bytes = argc == 3 ? read_file(argv[1], &size) : NULL;
    FILE *input = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (bytes == NULL || input == NULL) {
        fprintf(stderr, "usage: run_plan PLAN INPUT > OUTPUT\n");
        return 2;
    }

    es_plan plan;
    es_fault fault;
    es_status status = es_plan_open(&plan, bytes, size, &fault);
    if (status != ES_OK) {
        fprintf(stderr, "I-%u, step %d: ", fault.invariant, fault.step);
        return failed("es_plan_open", status);
    }
    es_info info;
    status = es_plan_info(&plan, &info);
    if (status != ES_OK) {
        return failed("es_plan_info", status);
    }

    void *arena =
        aligned_alloc(ES_ALIGN, (info.ram_bytes / ES_ALIGN + 1) * ES_ALIGN);
    es_session session;
    status = es_session_init(&session, &plan, arena, info.ram_bytes);
    if (status != ES_OK) {
        return failed("es_session_init", status);
    }
    status = es_self_test(&session); /* once, after power up */
    if (status != ES_OK && status != ES_ERR_NO_GOLDEN) {
        return failed("es_self_test", status);
    }

    es_buffer buffer;
    for (uint32_t i = 0; i < info.inputs; i++) {
        if (es_input(&session, i, &buffer) != ES_OK ||
            fread(buffer.data, 1, buffer.size, input) != buffer.size) {
            fprintf(stderr, "INPUT is too short for input %u\n", (unsigned)i);
            return 2;
        }
    }
    status = es_run(&session);
    if (status != ES_OK) {
        return failed("es_run", status);
    }
    for (uint32_t i = 0; i < info.outputs; i++) {
        if (es_output(&session, i, &buffer) != ES_OK ||
            fwrite(buffer.data, 1, buffer.size, stdout) != buffer.size) {
            return 2;
        }
    }
    return 0;
}
