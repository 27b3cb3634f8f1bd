#include "doctor/compare.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "doctor/compare_parts.h"

/* ---- what both sides have ---- */

static bool is_live(const hd_compare *c, int side) { return c->sides[side].what->engine != NULL; }

static bool is_wanted(const hd_compare *c, const hd_side_tensor *t)
{
    return !c->opt.steps || fnmatch(c->opt.steps, t->step, 0) == 0;
}

/* Two live sides meet step by step, so their pairs must come in one order: what would go back is
 * left out. */
static void add_pair(hd_compare *c, int32_t a, int32_t b, int32_t *last)
{
    hd_side_tensor *const x = &c->sides[0].list[a], *const y = &c->sides[1].list[b];
    if (is_live(c, 0) && is_live(c, 1) && b <= *last) return;
    *last = b;
    if (hd_st_tensor_count(&x->st) != hd_st_tensor_count(&y->st)) {
        if (!c->n_misfits++) c->misfit = x->st.name;
        return;
    }
    x->pair = y->pair = c->n_pairs;
    c->pairs[c->n_pairs++] = (hd_pair){.a = a, .b = b};
}

/* Pairs in the order of a plan where there is one, else of the first file. */
static hd_status list_pairs(hd_compare *c, hd_error *err)
{
    int const      lead = !is_live(c, 0) && is_live(c, 1);
    hd_side *const a = &c->sides[lead];
    const hd_side *b = &c->sides[1 - lead];
    hd_name_map    names = {0};
    int32_t        twins[2], last = -1;
    c->pairs = hd_pool_alloc(&a->pool, (size_t)a->used * sizeof *c->pairs);
    if (!c->pairs) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d pairs", a->used);
    HD_TRY(hd_name_map_open(&names, b->used, &a->pool, err));
    for (int32_t i = 0; i < b->used; i++) hd_name_map_add(&names, b->list[i].st.name, i);
    (void)hd_name_map_sort(&names, twins); /* a plan has no name twice, a file neither */
    for (int32_t i = 0; i < a->used; i++) {
        int32_t const j = hd_name_map_find(&names, a->list[i].st.name);
        if (j >= 0 && is_wanted(c, &a->list[i])) add_pair(c, lead ? j : i, lead ? i : j, &last);
    }
    return HD_OK;
}

/* Tensors of a side that are wanted and have no partner of any size. */
static int32_t count_alone(const hd_compare *c, int side)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->sides[side].used; i++) {
        const hd_side_tensor *const t = &c->sides[side].list[i];
        n += t->pair < 0 && is_wanted(c, t);
    }
    return n - c->n_misfits;
}

hd_status hd_compare_match(hd_compare *c, hd_error *err)
{
    HD_TRY(list_pairs(c, err));
    for (int i = 0; i < 2; i++) c->n_alone[i] = count_alone(c, i);
    if (c->n_misfits > 0 && c->n_pairs == 0)
        HD_FAIL(err, HD_ERR_INVALID, "nothing fits: %d tensors differ in size, the first is %.200s",
                c->n_misfits, c->misfit);
    if (c->n_pairs == 0)
        HD_FAIL(err, HD_ERR_INVALID, "nothing to compare: no tensor is on both sides%s%.200s",
                c->opt.steps ? " that fits " : "", c->opt.steps ? c->opt.steps : "");
    return HD_OK;
}

static bool is_logits(const char *name)
{
    return strcmp(name, "logits") == 0 || strcmp(name, "mtp.logits") == 0;
}

void hd_compare_pair_now(hd_compare *c, int32_t p, const void *const data[2])
{
    hd_pair *const pair = &c->pairs[p];
    hd_st_tensor   a = c->sides[0].list[pair->a].st, b = c->sides[1].list[pair->b].st;
    if (data[0]) a.data = data[0];
    if (data[1]) b.data = data[1];
    pair->stats = hd_pair_compare(&a, &b);
    pair->has_logits = is_logits(a.name);
    if (pair->has_logits) pair->logits = hd_logits_compare(&a, &b);
    pair->is_done = true;
}

/* ---- the whole ---- */

static hd_status compare_dumps(hd_compare *c)
{
    static const void *const none[2] = {NULL, NULL};
    for (int32_t p = 0; p < c->n_pairs; p++) hd_compare_pair_now(c, p, none);
    return HD_OK;
}

static hd_status compare(hd_compare *c, hd_error *err)
{
    hd_pass_walk const w = {.ids = c->opt.ids, .n = c->opt.n};
    if (c->opt.a.engine && c->opt.a.engine == c->opt.b.engine)
        HD_FAIL(err, HD_ERR_INVALID, "one engine cannot be both sides");
    HD_TRY(hd_side_open(&c->sides[0], &c->opt.a, &w, err));
    HD_TRY(hd_side_open(&c->sides[1], &c->opt.b, &w, err));
    HD_TRY(hd_compare_match(c, err));
    if (!is_live(c, 0) && !is_live(c, 1)) return compare_dumps(c);
    return hd_compare_walk(c, err);
}

hd_status hd_compare_run(hd_compare **out, const hd_compare_options *opt, hd_error *err)
{
    hd_compare *const c = hd_memory_alloc(sizeof *c);
    if (!c) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a comparison");
    c->opt = *opt;
    hd_status const s = compare(c, err);
    if (s == HD_OK)
        *out = c;
    else
        hd_compare_close(c);
    return s;
}

void hd_compare_close(hd_compare *c)
{
    if (!c) return;
    hd_side_close(&c->sides[0]);
    hd_side_close(&c->sides[1]);
    hd_memory_free(c);
}

bool hd_compare_differs(const hd_compare *c)
{
    for (int32_t p = 0; p < c->n_pairs; p++)
        if (!(c->pairs[p].stats.error <= c->opt.tolerance)) return true;
    return false;
}
