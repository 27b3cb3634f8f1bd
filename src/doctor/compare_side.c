#include <stdio.h>
#include <string.h>

#include "doctor/compare_parts.h"
#include "doctor/operand_stats.h"

#define MAX_NAME 192

/* ---- live ---- */

static hd_st_dtype file_dtype(hd_dtype d)
{
    static const hd_st_dtype dtypes[] = {
        [HD_F32] = HD_ST_F32, [HD_BF16] = HD_ST_BF16, [HD_U8] = HD_ST_U8, [HD_I32] = HD_ST_I32};
    return dtypes[d];
}

static hd_status add(hd_side *s, const char *name, const char *step, const hd_kernel *k,
                     const hd_operand *o, hd_error *err)
{
    hd_side_tensor *const t = s->used < s->cap ? &s->list[s->used] : NULL;
    const char *const     copy = hd_pool_copy(&s->pool, name, strlen(name));
    const char *const     of = hd_pool_copy(&s->pool, step, strlen(step));
    if (!t || !copy || !of) HD_FAIL(err, HD_ERR_MEMORY, "no memory to compare %s", name);
    *t = (hd_side_tensor){.st = {.name = copy, .dtype = file_dtype(o->dtype), .rank = o->rank},
                          .step = of,
                          .kernel = k ? k->name : NULL,
                          .pair = -1};
    memcpy(t->st.shape, o->shape, sizeof o->shape);
    s->used++;
    return HD_OK;
}

static hd_status add_step(hd_side *s, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    char          label[MAX_NAME / 2], name[MAX_NAME];
    int32_t const n = step->kernel->op->describe(step->args, o);
    hd_step_name(step, label, sizeof label);
    for (int32_t i = 0; i < n; i++) {
        if (o[i].role == HD_IN || !hd_operand_has_values(&o[i])) continue;
        snprintf(name, sizeof name, "%s.%s", label, o[i].name);
        HD_TRY(add(s, name, label, step->kernel, &o[i], err));
    }
    return HD_OK;
}

static hd_status add_plan(hd_side *s, const hd_pass_walk *w, bool is_mtp, hd_error *err)
{
    hd_engine *const  e = s->what->engine;
    const hd_plan    *plan = NULL;
    const char *const name = is_mtp ? "mtp.logits" : "logits";
    hd_operand const  logits = {
         .dtype = HD_F32, .rank = 2, .shape = {w->n, e->model.config->n_vocab}};
    HD_TRY(hd_pass_walk_plan(e, w, is_mtp, &plan, err));
    for (int32_t i = 0; i < plan->n; i++) HD_TRY(add_step(s, &plan->steps[i], err));
    size_t const largest = hd_plan_largest_output(plan);
    if (e->device && largest > s->fetched_bytes) {
        s->fetched = hd_pool_alloc(&s->pool, largest);
        s->fetched_bytes = largest;
        if (!s->fetched) HD_FAIL(err, HD_ERR_MEMORY, "no memory to fetch what steps leave");
    }
    return add(s, name, name, NULL, &logits, err);
}

static hd_status open_live(hd_side *s, const hd_pass_walk *w, hd_error *err)
{
    hd_engine *const e = s->what->engine;
    HD_TRY(hd_pass_walk_check(e, w->ids, w->n, err));
    s->cap = 2 * hd_model_max_steps(&e->model) * HD_MAX_OPERANDS;
    s->list = hd_pool_alloc(&s->pool, (size_t)s->cap * sizeof *s->list);
    if (!s->list) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the list of steps");
    HD_TRY(add_plan(s, w, false, err));
    return e->options.has_mtp ? add_plan(s, w, true, err) : HD_OK;
}

/* ---- dumps ---- */

static const char *find_meta(const hd_st_file *f, const char *key)
{
    for (int32_t i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, key) == 0) return f->meta[i].value;
    return NULL;
}

/* The step of "L03.q_a.y" is what stands before the last dot. */
static hd_status add_dumped(hd_side *s, const hd_st_tensor *t, hd_error *err)
{
    char              key[MAX_NAME + 16];
    const char *const dot = strrchr(t->name, '.');
    size_t const n = dot && strcmp(dot, ".logits") != 0 ? (size_t)(dot - t->name) : strlen(t->name);
    const char *const step = hd_pool_copy(&s->pool, t->name, n);
    if (!step) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the names of a dump");
    snprintf(key, sizeof key, "kernel.%.*s", MAX_NAME, step);
    s->list[s->used++] =
        (hd_side_tensor){.st = *t, .step = step, .kernel = find_meta(&s->file, key), .pair = -1};
    return HD_OK;
}

static hd_status open_dump(hd_side *s, hd_error *err)
{
    HD_TRY(hd_st_open(&s->file, s->what->path, err));
    s->cap = s->file.n_tensors;
    s->list = hd_pool_alloc(&s->pool, (size_t)s->cap * sizeof *s->list);
    if (!s->list) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the list of tensors");
    for (int32_t i = 0; i < s->file.n_tensors; i++)
        if (hd_pair_has_values(s->file.tensors[i].dtype))
            HD_TRY(add_dumped(s, &s->file.tensors[i], err));
    return HD_OK;
}

hd_status hd_side_open(hd_side *s, const hd_compare_side *what, const hd_pass_walk *w,
                       hd_error *err)
{
    s->what = what;
    return what->engine ? open_live(s, w, err) : open_dump(s, err);
}

void hd_side_close(hd_side *s)
{
    hd_st_close(&s->file);
    hd_pool_free(&s->pool);
}

/* ---- the ids of a dump ---- */

static hd_status parse_ids(const char *text, const char *path, hd_pool *pool, int32_t **ids,
                           int32_t *n, hd_error *err)
{
    size_t most = 1;
    for (const char *p = text; *p; p++) most += *p == ',';
    *ids = hd_pool_alloc(pool, most * sizeof **ids);
    if (!*ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu ids", most);
    *n = 0;
    for (int64_t id = -1; (size_t)*n < most; text++) {
        if (*text >= '0' && *text <= '9' && id <= INT32_MAX / 10) {
            id = (id < 0 ? 0 : id) * 10 + (*text - '0');
            continue;
        }
        if ((*text && *text != ',') || id < 0 || id > INT32_MAX)
            HD_FAIL(err, HD_ERR_FORMAT, "%s: its metadata `ids` is no list of token ids", path);
        (*ids)[(*n)++] = (int32_t)id;
        id = -1;
    }
    return HD_OK;
}

hd_status hd_compare_dump_ids(const char *path, hd_pool *pool, int32_t **ids, int32_t *n,
                              hd_error *err)
{
    hd_st_file file = {0};
    HD_TRY(hd_st_open(&file, path, err));
    const char *const text = find_meta(&file, "ids");
    hd_status const   s =
        text ? parse_ids(text, path, pool, ids, n, err)
               : hd_error_set(err, HD_ERR_FORMAT, -1,
                              "%s: its metadata has no `ids`, so the tokens must be given", path);
    hd_st_close(&file);
    return s;
}
