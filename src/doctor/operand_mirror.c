#include "doctor/operand_mirror.h"

#include <string.h>

typedef struct mirror_job {
    hd_device     *d;
    const hd_step *step;
    hd_arena      *room;
    void          *args;
    hd_operand     o[HD_MAX_OPERANDS];
    int32_t        n;
    hd_error      *err;
} mirror_job;

static size_t bytes_of(const hd_operand *o)
{
    return (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
}

/* The operand that says which members of lists a step reads; NULL: all of them. */
static const hd_operand *find_ids(const hd_operand *o, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (o[i].dtype == HD_I32 && o[i].list == 0 && strcmp(o[i].name, "ids") == 0) return &o[i];
    return NULL;
}

static int64_t most_members(const hd_operand *list, const hd_operand *ids)
{
    int64_t const n = ids ? hd_operand_count(ids) : list->list;
    return n < list->list ? n : list->list;
}

size_t hd_mirror_bytes(const hd_step *step, const bool is_left[HD_MAX_OPERANDS])
{
    hd_operand    o[HD_MAX_OPERANDS];
    hd_arena      sum = {0}; /* which only measures */
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++) {
        int64_t const members = o[i].list ? most_members(&o[i], find_ids(o, n)) : 1;
        size_t const  pointers = (size_t)o[i].list * sizeof(void *);
        if (is_left[i]) continue;
        for (int64_t m = 0; m < members; m++) hd_arena_alloc(&sum, bytes_of(&o[i]));
        if (!o[i].list) continue;
        hd_arena_alloc(&sum, pointers); /* as they are there, and here */
        hd_arena_alloc(&sum, pointers);
    }
    return sum.peak;
}

void hd_operand_point(void *args, const hd_operand *o, const void *to)
{
    memcpy((char *)args + o->slot, &to, sizeof to);
}

/* Bytes of the device, or NULL for NULL. */
static hd_status copy(const mirror_job *j, const void *from, size_t bytes, const void **out)
{
    void *const to = from ? hd_arena_alloc(j->room, bytes) : NULL;
    *out = to;
    if (!from) return HD_OK;
    if (!to) HD_FAIL(j->err, HD_ERR_MEMORY, "no room for %zu bytes of operands", bytes);
    return hd_device_read(j->d, to, from, bytes, j->err);
}

static hd_status mirror_tensor(const mirror_job *j, const hd_operand *o)
{
    const void *to = NULL;
    HD_TRY(copy(j, hd_operand_pointer(j->step->args, o), bytes_of(o), &to));
    hd_operand_point(j->args, o, to);
    return HD_OK;
}

static hd_status fail_id(const mirror_job *j, int32_t id, int32_t n)
{
    char name[64];
    hd_step_name(j->step, name, sizeof name);
    HD_FAIL(j->err, HD_ERR_NUMERIC, "step %s: id %d, there are %d", name, id, n);
}

/* from, to: [o->list] pointers of the device and to copies; those of the latter are NULL at first.
 */
static hd_status copy_members(const mirror_job *j, const hd_operand *o, const void *const *from,
                              const void **to)
{
    const hd_operand *const ids = find_ids(j->o, j->n);
    const int32_t *const    id = ids ? hd_operand_pointer(j->args, ids) : NULL;
    int64_t const           n = ids ? hd_operand_count(ids) : o->list;
    for (int64_t i = 0; i < n; i++) {
        int32_t const m = id ? id[i] : (int32_t)i;
        if (m < 0 || m >= o->list) return fail_id(j, m, o->list);
        if (!to[m]) HD_TRY(copy(j, from[m], bytes_of(o), &to[m]));
    }
    return HD_OK;
}

static hd_status mirror_list(const mirror_job *j, const hd_operand *o)
{
    size_t const bytes = (size_t)o->list * sizeof(void *);
    const void  *from = NULL;
    HD_TRY(copy(j, hd_operand_pointer(j->step->args, o), bytes, &from));
    const void **const to = from ? hd_arena_alloc(j->room, bytes) : NULL;
    hd_operand_point(j->args, o, to);
    if (!from) return HD_OK;
    if (!to) HD_FAIL(j->err, HD_ERR_MEMORY, "no room for a list of %d", o->list);
    memset(to, 0, bytes);
    return copy_members(j, o, from, to);
}

hd_status hd_mirror_inputs(hd_device *d, const hd_step *step, const bool is_left[HD_MAX_OPERANDS],
                           hd_arena *room, void *args, hd_error *err)
{
    mirror_job j = {.d = d, .step = step, .room = room, .args = args, .err = err};
    j.n = step->kernel->op->describe(step->args, j.o);
    for (int32_t i = 0; i < j.n; i++)
        if (!is_left[i] && j.o[i].list == 0) HD_TRY(mirror_tensor(&j, &j.o[i]));
    for (int32_t i = 0; i < j.n; i++) /* ids are there now */
        if (!is_left[i] && j.o[i].list > 0) HD_TRY(mirror_list(&j, &j.o[i]));
    return HD_OK;
}
