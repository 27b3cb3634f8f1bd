#include "kernel_device.h"

#include <string.h>

#include "base/memory.h"

/* One staging area in pinned memory and one of the same size on the device: every buffer of the
 * operands stands at the same offset in both, so one copy takes all of them over. */
typedef struct mirror {
    hd_device     *device;
    unsigned char *host, *remote; /* owned, `cap` bytes each */
    size_t         cap;
} mirror;

static mirror shared;

/* What is done with each buffer, which stands at offset `at`. */
typedef void visit_fn(const mirror *m, const test_buffer *b, size_t at, void *context);

static void visit_side(const mirror *m, const test_side *s, visit_fn *visit, void *context)
{
    size_t at = 0;
    for (int32_t i = 0; i < s->n; i++) {
        for (int32_t j = 0; j < test_operand_members(&s->operand[i]); j++) {
            visit(m, &s->data[i][j], at, context);
            at += s->data[i][j].open;
        }
        if (s->operand[i].list == 0) continue;
        visit(m, &s->list[i], at, context);
        at += s->list[i].open;
    }
}

static void add_size(const mirror *m, const test_buffer *b, size_t at, void *sum)
{
    (void)m;
    *(size_t *)sum = at + b->open;
}

static void copy_in(const mirror *m, const test_buffer *b, size_t at, void *unused)
{
    (void)unused;
    memcpy(m->host + at, test_buffer_start(b), b->open);
}

static void copy_out(const mirror *m, const test_buffer *b, size_t at, void *unused)
{
    (void)unused;
    memcpy(test_buffer_start(b), m->host + at, b->open);
}

/* ---- pointers ---- */

typedef struct translation {
    const unsigned char *from;
    unsigned char       *to; /* NULL until the buffer is found */
} translation;

static void translate_in(const mirror *m, const test_buffer *b, size_t at, void *context)
{
    translation *const         t = context;
    const unsigned char *const start = test_buffer_start(b);
    if (t->from >= start && t->from <= start + b->open) t->to = m->remote + at + (t->from - start);
}

/* Replaces the host pointer at `slot` by the device's. */
static void translate(const mirror *m, const test_side *s, void *slot)
{
    translation t = {0};
    memcpy(&t.from, slot, sizeof t.from);
    visit_side(m, s, translate_in, &t);
    memcpy(slot, &t.to, sizeof t.to);
}

/* The copy of a list of pointers, in the staging area, that belongs to operand i. */
typedef struct list_search {
    const test_buffer *list;
    unsigned char     *copy;
} list_search;

static void find_list(const mirror *m, const test_buffer *b, size_t at, void *context)
{
    list_search *const f = context;
    if (b == f->list) f->copy = m->host + at + (b->data - test_buffer_start(b));
}

/* Calls `visit` for slot j of every list, with the host's pointer that belongs there. */
typedef bool slot_fn(const mirror *m, const test_side *s, unsigned char *slot, const void *pointer);

static bool visit_lists(const mirror *m, const test_side *s, slot_fn *visit)
{
    bool ok = true;
    for (int32_t i = 0; i < s->n; i++) {
        list_search f = {.list = &s->list[i]};
        if (s->operand[i].list == 0) continue;
        visit_side(m, s, find_list, &f);
        for (int32_t j = 0; j < s->operand[i].list; j++) {
            size_t const at = (size_t)j * sizeof(void *);
            ok &= visit(m, s, f.copy + at, s->list[i].data + at);
        }
    }
    return ok;
}

static bool point_to_device(const mirror *m, const test_side *s, unsigned char *slot,
                            const void *pointer)
{
    (void)pointer;
    translate(m, s, slot);
    return true;
}

/* False when the kernel changed the pointer. */
static bool point_to_host(const mirror *m, const test_side *s, unsigned char *slot,
                          const void *pointer)
{
    unsigned char sent[sizeof(void *)];
    memcpy(sent, pointer, sizeof sent);
    translate(m, s, sent);
    bool const is_same = memcmp(slot, sent, sizeof sent) == 0;
    memcpy(slot, pointer, sizeof sent);
    return is_same;
}

/* ---- running ---- */

static hd_status grow(mirror *m, size_t bytes, hd_error *err)
{
    if (!m->device) HD_TRY(hd_device_open(&m->device, err));
    if (bytes <= m->cap) return HD_OK;
    hd_device_free_pinned(m->device, m->host);
    hd_device_free(m->device, m->remote);
    m->cap = 0;
    m->host = hd_device_alloc_pinned(m->device, 2 * bytes);
    m->remote = hd_device_alloc(m->device, 2 * bytes);
    if (!m->host || !m->remote)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu bytes of operands on the device", bytes);
    m->cap = 2 * bytes;
    return HD_OK;
}

static hd_status launch_graph(const mirror *m, const hd_kernel *k, const void *args, hd_error *err)
{
    hd_graph *graph = NULL;
    HD_TRY(hd_device_capture_begin(m->device, err));
    hd_status const ran = k->run(args, hd_device_stream(m->device));
    hd_status       s = hd_device_capture_end(m->device, &graph, err);
    if (s == HD_OK && ran != HD_OK) s = hd_error_set(err, ran, -1, "the launch was not recorded");
    if (s == HD_OK) s = hd_graph_launch(m->device, graph, err);
    if (s == HD_OK) s = hd_device_sync(m->device, err);
    hd_graph_free(graph);
    return s;
}

static hd_status launch(const mirror *m, const hd_kernel *k, const void *args, test_launch how,
                        hd_error *err)
{
    if (how == TEST_LAUNCH_GRAPH) return launch_graph(m, k, args, err);
    hd_status const s = k->run(args, hd_device_stream(m->device));
    if (s != HD_OK) HD_FAIL(err, s, "the launch was refused");
    return hd_device_sync(m->device, err);
}

/* Args with the device's pointers, in memory that the caller frees. */
static void *translate_args(const mirror *m, const test_side *s, const void *args)
{
    void *const copy = hd_memory_alloc(s->op->args_bytes);
    if (!copy) return NULL;
    memcpy(copy, args, s->op->args_bytes);
    for (int32_t i = 0; i < s->n; i++) translate(m, s, (char *)copy + s->operand[i].slot);
    return copy;
}

hd_status test_device_run(const test_side *s, const hd_kernel *k, const void *args, test_launch how,
                          hd_error *err)
{
    mirror *const m = &shared;
    size_t        bytes = 0;
    visit_side(m, s, add_size, &bytes);
    HD_TRY(grow(m, bytes, err));
    visit_side(m, s, copy_in, NULL);
    visit_lists(m, s, point_to_device);
    HD_TRY(hd_device_write(m->device, m->remote, m->host, bytes, err));
    void *const there = translate_args(m, s, args);
    if (!there) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the arguments");
    hd_status ran = launch(m, k, there, how, err);
    hd_memory_free(there);
    HD_TRY(ran);
    HD_TRY(hd_device_read(m->device, m->host, m->remote, bytes, err));
    if (!visit_lists(m, s, point_to_host))
        HD_FAIL(err, HD_ERR_DEVICE, "a list of pointers changed");
    visit_side(m, s, copy_out, NULL);
    return HD_OK;
}

void test_device_close(void)
{
    if (!shared.device) return;
    hd_device_free_pinned(shared.device, shared.host);
    hd_device_free(shared.device, shared.remote);
    hd_device_close(shared.device);
    shared = (mirror){0};
}
