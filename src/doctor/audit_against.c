#include <math.h>
#include <string.h>

#include "doctor/audit_parts.h"
#include "doctor/scanned_rows.h"

/* Two rows of decoded values; grows to the longest. */
typedef struct row_pair {
    double *a, *b; /* [cap] owned, in one */
    int64_t cap;
} row_pair;

static bool make_room(row_pair *r, int64_t n)
{
    if (n <= r->cap) return true;
    hd_memory_free(r->a);
    r->a = hd_memory_alloc(2 * (size_t)n * sizeof *r->a);
    r->cap = r->a ? n : 0;
    r->b = r->a ? r->a + n : NULL;
    return r->a != NULL;
}

/* ---- comparing ---- */

static bool is_float(hd_st_dtype d) { return d == HD_ST_F32 || d == HD_ST_BF16 || d == HD_ST_F16; }

static bool are_alike(const hd_scanned *a, const hd_scanned *b)
{
    bool const is_plain = a->format == HD_FMT_NONE;
    if (is_plain != (b->format == HD_FMT_NONE)) return false;
    if (!is_plain) return a->n == b->n && a->k == b->k;
    return is_float(a->w->st.dtype) && is_float(b->w->st.dtype) &&
           hd_st_tensor_count(&a->w->st) == hd_st_tensor_count(&b->w->st);
}

typedef struct sums {
    double aa, bb, ab, dd;
} sums;

static void add_row(sums *s, const row_pair *r, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double const d = r->a[i] - r->b[i];
        s->aa += r->a[i] * r->a[i];
        s->bb += r->b[i] * r->b[i];
        s->ab += r->a[i] * r->b[i];
        s->dd += d * d;
    }
}

/* A quotient that is `otherwise` for 0 / 0. */
static double share(double a, double b, double otherwise)
{
    return a == 0 && b == 0 ? otherwise : a / b;
}

static hd_difference conclude(const sums *s)
{
    return (hd_difference){.is_known = true,
                           .error = share(sqrt(s->dd), sqrt(s->bb), 0),
                           .cosine = share(s->ab, sqrt(s->aa) * sqrt(s->bb), 1),
                           .ratio = share(sqrt(s->aa), sqrt(s->bb), 1)};
}

typedef struct comparison {
    hd_audit      *audit;
    hd_audit_sweep sweep;
} comparison;

static bool compare_one(void *user, void *room, int64_t i)
{
    comparison *const          c = user;
    hd_audit *const            a = c->audit;
    row_pair *const            r = room;
    hd_audit_item *const       it = &a->model.items[i];
    const hd_audit_item *const other = hd_audit_find(&a->other, it->what.name);
    sums                       s = {0};
    if (!other || !are_alike(&it->what, &other->what)) return true;
    if (!make_room(r, hd_scanned_width(&it->what))) return false;
    int64_t const rows = hd_scanned_rows(&it->what), step = hd_scanned_step(&it->what);
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        end = begin + step < rows ? begin + step : rows;
        for (int64_t row = begin; row < end; row++) {
            int64_t const n = hd_scanned_decode(&it->what, row, r->a);
            hd_scanned_decode(&other->what, row, r->b);
            add_row(&s, r, n);
        }
        hd_scanned_release(&it->what, begin, end);
        hd_scanned_release(&other->what, begin, end);
    }
    it->difference = conclude(&s);
    hd_audit_sweep_add(&c->sweep, hd_scanned_bytes(&it->what) + hd_scanned_bytes(&other->what));
    return true;
}

hd_status hd_audit_compare(hd_audit *a, hd_error *err)
{
    row_pair      pairs[HD_AUDIT_MOST_THREADS] = {{0}};
    void         *rooms[HD_AUDIT_MOST_THREADS];
    comparison    c = {.audit = a, .sweep = {.of = {a->model.ck, a->other.ck}}};
    hd_audit_work work = {.run = compare_one,
                          .user = &c,
                          .rooms = rooms,
                          .n = a->model.used,
                          .n_threads = a->n_threads};
    for (int32_t i = 0; i < HD_AUDIT_MOST_THREADS; i++) rooms[i] = &pairs[i];
    bool const is_done = hd_audit_work_run(&work);
    for (int32_t i = 0; i < HD_AUDIT_MOST_THREADS; i++) hd_memory_free(pairs[i].a);
    if (!is_done) HD_FAIL(err, HD_ERR_MEMORY, "no memory to compare the weights");
    return HD_OK;
}
