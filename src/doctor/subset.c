#include "doctor/subset.h"

int32_t hd_subset_count(hd_subset s)
{
    int32_t n = 0;
    for (; s; s &= s - 1) n++;
    return n;
}

/* Part i of the set, cut into n parts as equal as can be. */
static hd_subset take_part(hd_subset set, int32_t i, int32_t n)
{
    int32_t const size = hd_subset_count(set), begin = i * size / n, end = (i + 1) * size / n;
    hd_subset     part = 0;
    for (int32_t at = 0; set; set &= set - 1, at++)
        if (at >= begin && at < end) part |= set & (~set + 1);
    return part;
}

typedef struct search {
    hd_subset_fn *fn;
    void         *user;
    hd_subset     set;
    int32_t       n_parts;
} search;

/* Goes on with the first of the parts, or of what they leave, that fails. */
static hd_status narrow(search *s, bool is_rest, bool *is_narrower, hd_error *err)
{
    *is_narrower = false;
    for (int32_t i = 0; i < s->n_parts && !*is_narrower; i++) {
        hd_subset const part = take_part(s->set, i, s->n_parts);
        hd_subset const tried = is_rest ? s->set & ~part : part;
        HD_TRY(s->fn(s->user, tried, is_narrower, err));
        if (*is_narrower) s->set = tried;
    }
    return HD_OK;
}

static int32_t at_most(int32_t n, int32_t most) { return n < most ? n : most; }

static hd_status search_on(search *s, hd_error *err)
{
    bool is_narrower;
    for (int32_t size; (size = hd_subset_count(s->set)) > 1;) {
        HD_TRY(narrow(s, false, &is_narrower, err));
        if (is_narrower) {
            s->n_parts = 2;
            continue;
        }
        /* Of two parts the rests are the parts. */
        if (s->n_parts > 2) HD_TRY(narrow(s, true, &is_narrower, err));
        if (is_narrower) {
            s->n_parts = at_most(s->n_parts - 1, size);
            continue;
        }
        if (s->n_parts >= size) return HD_OK;
        s->n_parts = at_most(2 * s->n_parts, size);
    }
    return HD_OK;
}

hd_status hd_subset_minimize(hd_subset *set, hd_subset_fn *fn, void *user, hd_error *err)
{
    search          s = {.fn = fn, .user = user, .set = *set, .n_parts = 2};
    hd_status const status = search_on(&s, err);
    *set = s.set;
    return status;
}
