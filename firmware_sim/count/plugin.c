/* A QEMU plugin that counts instructions exactly, between two marks.
 *
 *   cc -O2 -shared -fPIC -o count.so plugin.c
 *   qemu-system-arm ... -plugin ./count.so,out=FILE[,functions=on]
 *
 * The marks are two unallocated hints, no-ops on the core (measure.c has them).
 * Each pair gives a line "region N"; with functions=on, lines
 * "function N NAME" follow for what took part in it. The interface is that of
 * QEMU 7.2 (plugin API 1), declared here because distributions leave its header
 * out. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_BEGIN = 0xBF80, MARK_END = 0xBF90, INLINE_ADD = 0, NO_REGS = 0 };

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void on_translate(uint64_t id, struct qemu_plugin_tb *block);
typedef void on_execute(unsigned vcpu, void *user);
typedef void when_done(uint64_t id, void *user);

extern struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_translate *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
                                                   on_execute *, int flags,
                                                   void *user);
extern void
qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int op,
                                           void *counter, uint64_t by);
extern void qemu_plugin_register_atexit_cb(uint64_t id, when_done *,
                                           void *user);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc,
                               char **argv);

typedef struct function {
    struct function *next;
    uint64_t count, before; /* before: when the region began */
    char name[64];
} function;

static uint64_t total, before;
static bool by_function;
static function *functions;
static FILE *out;

static function *function_of(const char *name)
{
    function *f = functions;
    name = name ? name : "?";
    while (f && strncmp(f->name, name, sizeof f->name - 1) != 0) {
        f = f->next;
    }
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f) {
            abort();
        }
        strncpy(f->name, name, sizeof f->name - 1);
        f->next = functions;
        functions = f;
    }
    return f;
}

static void begin(unsigned vcpu, void *user)
{
    (void)vcpu, (void)user;
    before = total;
    for (function *f = functions; f; f = f->next) {
        f->before = f->count;
    }
}

static void end(unsigned vcpu, void *user)
{
    (void)vcpu, (void)user;
    fprintf(out, "region %llu\n", (unsigned long long)(total - before));
    for (function *f = functions; f; f = f->next) {
        if (f->count != f->before) {
            fprintf(out, "function %llu %s\n",
                    (unsigned long long)(f->count - f->before), f->name);
        }
    }
}

static void translate(uint64_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
        uint16_t half;
        memcpy(&half, qemu_plugin_insn_data(insn), sizeof half);
        qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD, &total, 1);
        if (by_function) {
            function *f = function_of(qemu_plugin_insn_symbol(insn));
            qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD,
                                                       &f->count, 1);
        }
        if (qemu_plugin_insn_size(insn) != 2) {
            continue;
        }
        if (half == MARK_BEGIN || half == MARK_END) {
            qemu_plugin_register_vcpu_insn_exec_cb(
                insn, half == MARK_BEGIN ? begin : end, NO_REGS, NULL);
        }
    }
}

static void finish(uint64_t id, void *user)
{
    (void)id, (void)user;
    fclose(out);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        }
        by_function |= strcmp(argv[i], "functions=on") == 0;
    }
    if (!out) {
        fprintf(stderr, "count: out=FILE, a file that can be written\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
