#include "kernel_operands.h"

#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"

#define PAGE       ((size_t)4096)
#define CANARY     0xA5
#define I32_POISON UINT32_C(0x80808080)

unsigned char *test_buffer_start(const test_buffer *b) { return b->map + PAGE; }

int32_t test_operand_members(const hd_operand *o) { return o->list > 0 ? o->list : 1; }

size_t test_operand_bytes(const hd_operand *o)
{
    return (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
}

/* At least 64 known bytes stand on the side that has no closed page. */
static bool open_buffer(test_buffer *b, size_t bytes, test_placement place)
{
    size_t const   open = (bytes + 64 + PAGE - 1) / PAGE * PAGE;
    unsigned char *map = mmap(NULL, open + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return false;
    *b = (test_buffer){map, open, map + PAGE, bytes};
    if (mprotect(map + PAGE, open, PROT_READ | PROT_WRITE) != 0) return false;
    if (place == TEST_PLACE_BACK) b->data += open - bytes;
    memset(map + PAGE, CANARY, open);
    return true;
}

static void close_buffer(test_buffer *b)
{
    if (b->map) munmap(b->map, b->open + 2 * PAGE);
    *b = (test_buffer){0};
}

static bool is_intact(const test_buffer *b)
{
    const unsigned char *const end = b->map + PAGE + b->open;
    for (const unsigned char *p = b->map + PAGE; p < b->data; p++)
        if (*p != CANARY) return false;
    for (const unsigned char *p = b->data + b->bytes; p < end; p++)
        if (*p != CANARY) return false;
    return true;
}

static bool open_operand(test_side *s, int32_t i, test_placement place)
{
    const hd_operand *const o = &s->operand[i];
    int32_t const           members = test_operand_members(o);
    s->data[i] = hd_memory_alloc((size_t)members * sizeof *s->data[i]);
    if (!s->data[i]) return false;
    for (int32_t m = 0; m < members; m++)
        if (!open_buffer(&s->data[i][m], test_operand_bytes(o), place)) return false;
    void *pointer = s->data[i][0].data;
    if (o->list > 0) {
        if (!open_buffer(&s->list[i], (size_t)members * sizeof(void *), place)) return false;
        for (int32_t m = 0; m < members; m++)
            memcpy(s->list[i].data + (size_t)m * sizeof(void *), &s->data[i][m].data,
                   sizeof(void *));
        pointer = s->list[i].data;
    }
    memcpy((char *)s->args + o->slot, &pointer, sizeof pointer);
    return true;
}

bool test_side_open(test_side *s, const hd_op *op, const void *args, test_placement place)
{
    *s = (test_side){.op = op, .args = hd_memory_alloc(op->args_bytes)};
    if (!s->args) return false;
    memcpy(s->args, args, op->args_bytes);
    s->n = op->describe(args, s->operand);
    for (int32_t i = 0; i < s->n; i++)
        if (!open_operand(s, i, place)) return false;
    return true;
}

void test_side_close(test_side *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        for (int32_t m = 0; s->data[i] && m < test_operand_members(&s->operand[i]); m++)
            close_buffer(&s->data[i][m]);
        hd_memory_free(s->data[i]);
        close_buffer(&s->list[i]);
    }
    hd_memory_free(s->args);
    *s = (test_side){0};
}

void test_side_copy_inputs(test_side *to, const test_side *from)
{
    for (int32_t i = 0; i < to->n; i++) {
        if (to->operand[i].role == HD_OUT) continue;
        for (int32_t m = 0; m < test_operand_members(&to->operand[i]); m++)
            memcpy(to->data[i][m].data, from->data[i][m].data, to->data[i][m].bytes);
    }
}

static void poison_buffer(const test_buffer *b, uint32_t word)
{
    for (size_t at = 0; at < b->bytes; at += sizeof word)
        memcpy(b->data + at, &word, b->bytes - at < sizeof word ? b->bytes - at : sizeof word);
}

void test_side_poison(test_side *s, uint32_t poison)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->operand[i].role == HD_OUT)
            poison_buffer(s->data[i], s->operand[i].dtype == HD_I32 ? I32_POISON : poison);
}

static bool is_operand_intact(const test_side *s, int32_t i)
{
    for (int32_t m = 0; m < test_operand_members(&s->operand[i]); m++)
        if (!is_intact(&s->data[i][m])) return false;
    return s->operand[i].list == 0 || is_intact(&s->list[i]);
}

const char *test_side_broken_guard(const test_side *s)
{
    for (int32_t i = 0; i < s->n; i++)
        if (!is_operand_intact(s, i)) return s->operand[i].name;
    return NULL;
}

static bool is_operand_equal(const test_side *a, const test_side *b, int32_t i)
{
    for (int32_t m = 0; m < test_operand_members(&a->operand[i]); m++)
        if (memcmp(a->data[i][m].data, b->data[i][m].data, a->data[i][m].bytes) != 0) return false;
    return true;
}

const char *test_side_changed_input(const test_side *s, const test_side *from)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->operand[i].role == HD_IN && !is_operand_equal(s, from, i)) return s->operand[i].name;
    return NULL;
}

const char *test_side_different_output(const test_side *a, const test_side *b)
{
    for (int32_t i = 0; i < a->n; i++)
        if (a->operand[i].role != HD_IN && !is_operand_equal(a, b, i)) return a->operand[i].name;
    return NULL;
}
