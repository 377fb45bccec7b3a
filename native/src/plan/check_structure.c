/* I-5, I-7, I-8: one walk over the whole FlatBuffer, driven by the schema.
 *
 * Tables and vectors may be reached twice (writers share equal ones), so a
 * small file can describe a big tree. The work is bounded: outside of steps by
 * the limits of I-7 and one look at each vector, inside of a step by I-8. */
#include "plan/check.h"
#include "plan/fb.h"

/* Plan, Step, Lstm, Mac, Weights, RowGroup; Plan, Step, Branch, Stage, body. */
enum { DEPTH = 6 };

typedef struct es_frame {
    uint32_t table; /* where it stands */
    uint32_t vtable;
    uint32_t next; /* where the next offset of its vector of tables stands */
    uint32_t left; /* offsets of it to come */
    uint8_t kind;  /* ES_T_... */
    uint8_t sub;   /* kind of the vector's tables */
    uint8_t slot;  /* next field */
} es_frame;

typedef struct es_walk {
    const uint8_t *bytes;
    uint32_t size;
    uint32_t budget; /* bytes that the current step may still reach */
    int32_t steps;   /* entered */
    bool in_step;
    uint32_t depth; /* frames in use */
    es_frame frames[DEPTH];
} es_walk;

static bool inside(const es_walk *walk, uint32_t at, uint64_t bytes,
                   uint32_t align)
{
    return at % align == 0 && at <= walk->size && bytes <= walk->size - at;
}

/* I-8. Without sharing a step reaches at most N bytes; the rest is for small
 * files that repeat something many times. */
static bool spend(es_walk *walk, uint32_t bytes)
{
    if (walk->in_step) {
        if (bytes > walk->budget) {
            return false;
        }
        walk->budget -= bytes;
    }
    return true;
}

/* Check a table's header and go into it; 0 or the invariant. */
static uint16_t enter(es_walk *walk, uint8_t kind, uint32_t at)
{
    es_frame *frame = &walk->frames[walk->depth];
    uint32_t length, size, vtable;
    int64_t start;

    if (walk->depth == DEPTH || !inside(walk, at, 4, 4)) {
        return 5;
    }
    start = (int64_t)at - (int32_t)es_fb_read_u32(walk->bytes + at);
    if (start < 0 || start > walk->size) {
        return 5;
    }
    vtable = (uint32_t)start;
    if (!inside(walk, vtable, 4, 2)) {
        return 5;
    }
    length = es_fb_read_u16(walk->bytes + vtable);
    size = es_fb_read_u16(walk->bytes + vtable + 2);
    /* More fields than this format has could hide something unread. */
    if (length < 4 || length % 2 != 0 ||
        (length - 4) / 2 > es_schema_field_count(kind) || size < 4 ||
        !inside(walk, vtable, length, 2) || !inside(walk, at, size, 4)) {
        return 5;
    }
    if (kind == ES_T_Step) {
        walk->in_step = true;
        walk->budget = walk->size + ((uint32_t)1 << 20);
        walk->steps++;
    }
    if (!spend(walk, size)) {
        return 8;
    }
    frame->table = at;
    frame->vtable = vtable;
    frame->left = 0;
    frame->kind = kind;
    frame->slot = 0;
    walk->depth++;
    return 0;
}

static void leave(es_walk *walk)
{
    walk->depth--;
    if (walk->frames[walk->depth].kind == ES_T_Step) {
        walk->in_step = false;
    }
}

/* What the offset at `at`, which is inside, leads to. */
static bool follow(const es_walk *walk, uint32_t at, uint32_t *target)
{
    uint32_t offset = es_fb_read_u32(walk->bytes + at);
    if (offset == 0 || offset > walk->size - at) {
        return false;
    }
    *target = at + offset;
    return true;
}

/* The vector at `at`: where its elements start and how many there are. */
static uint16_t open_vector(es_walk *walk, const es_schema_field *field,
                            uint32_t at, uint32_t *first, uint32_t *count)
{
    if (!inside(walk, at, 4, 4)) {
        return 5;
    }
    *count = es_fb_read_u32(walk->bytes + at);
    *first = at + 4;
    if (!inside(walk, *first, (uint64_t)*count * field->size, field->align)) {
        return 5;
    }
    if (field->limit != 0 && *count > field->limit) {
        return 7;
    }
    return spend(walk, 4 + *count * field->size) ? 0 : 8;
}

static bool string_is_inside(const es_walk *walk, uint32_t at)
{
    uint32_t length;
    if (!inside(walk, at, 4, 4)) {
        return false;
    }
    length = es_fb_read_u32(walk->bytes + at);
    return inside(walk, at + 4, (uint64_t)length + 1, 1) &&
           walk->bytes[at + 4 + length] == 0;
}

static uint16_t check_strings(const es_walk *walk, uint32_t first,
                              uint32_t count)
{
    uint32_t at;
    for (uint32_t i = 0; i < count; i++) {
        if (!follow(walk, first + 4 * i, &at) || !string_is_inside(walk, at)) {
            return 5;
        }
    }
    return 0;
}

/* Where field `slot` stands, from the start of the table; 0: it is absent. */
static uint32_t entry(const es_walk *walk, const es_frame *frame, uint32_t slot)
{
    const uint8_t *vtable = walk->bytes + frame->vtable;
    uint32_t at = 4 + 2 * slot;
    return at < es_fb_read_u16(vtable) ? es_fb_read_u16(vtable + at) : 0;
}

/* A union's table; its type stands in the slot before. */
static uint16_t enter_union(es_walk *walk, const es_frame *frame, uint8_t slot,
                            const es_schema_field *field, uint32_t target)
{
    uint32_t at = entry(walk, frame, slot - 1u);
    uint8_t type = at == 0 ? 0 : walk->bytes[frame->table + at];
    if (type < 1 || type > field->limit) {
        return 5;
    }
    return enter(walk, (uint8_t)(field->sub + type - 1), target);
}

/* Check the frame's next field and whatever it points to but tables, which
 * are gone into now (one) or by the frame's count (a vector of them). */
static uint16_t check_field(es_walk *walk, es_frame *frame)
{
    uint8_t slot = frame->slot++;
    const es_schema_field *field = es_schema_fields(frame->kind) + slot;
    bool inlined = field->kind == ES_KIND_SCALAR ||
                   field->kind == ES_KIND_BOOL || field->kind == ES_KIND_STRUCT;
    uint32_t size = inlined ? field->size : 4,
             align = inlined ? field->align : 4;
    uint32_t in_table = entry(walk, frame, slot), at = frame->table + in_table;
    uint32_t target, count;
    uint16_t broken;

    if (in_table == 0) {
        return field->required ? 5 : 0;
    }
    if (in_table < 4 || at % align != 0 ||
        in_table + size > es_fb_read_u16(walk->bytes + frame->vtable + 2)) {
        return 5;
    }
    if (inlined) {
        return field->kind == ES_KIND_BOOL && walk->bytes[at] > 1 ? 5 : 0;
    }
    if (!follow(walk, at, &target)) {
        return 5;
    }
    switch (field->kind) {
    case ES_KIND_TABLE:
        return enter(walk, field->sub, target);
    case ES_KIND_UNION:
        return enter_union(walk, frame, slot, field, target);
    case ES_KIND_STRING:
        return string_is_inside(walk, target) ? 0 : 5;
    default:
        broken = open_vector(walk, field, target, &at, &count);
        if (broken != 0 || field->kind == ES_KIND_VECTOR) {
            return broken;
        }
        if (field->kind == ES_KIND_STRINGS) {
            return check_strings(walk, at, count);
        }
        frame->next = at;
        frame->left = count;
        frame->sub = field->sub;
        return 0;
    }
}

/* Go one step further: the next table of a vector, the next field, or back. */
static uint16_t advance(es_walk *walk)
{
    es_frame *frame = &walk->frames[walk->depth - 1];
    uint32_t target;

    if (frame->left > 0) {
        frame->left--;
        frame->next += 4;
        return follow(walk, frame->next - 4, &target)
                   ? enter(walk, frame->sub, target)
                   : 5;
    }
    if (frame->slot < es_schema_field_count(frame->kind)) {
        return check_field(walk, frame);
    }
    leave(walk);
    return 0;
}

bool es_check_structure(es_check *check)
{
    es_walk walk = {.bytes = check->plan.bytes, .size = check->plan.size};
    uint16_t broken = enter(&walk, ES_T_Plan, check->plan.root);

    while (broken == 0 && walk.depth > 0) {
        broken = advance(&walk);
    }
    if (broken != 0) {
        check->fault.step = (int16_t)(walk.in_step ? walk.steps - 1 : -1);
        return es_refuse(check, broken, -1);
    }
    return true;
}
