#include <math.h>
#include <string.h>

#include "base/file.h"
#include "doctor/audit_parts.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/tensor_take.h"

/* A tensor that is no matrix is read in rows of so many values. */
#define PIECE 4096

#define PART_VALUES ((int64_t)4 << 20) /* read before memory is given back */

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

/* ---- an item as rows of values ---- */

static int64_t count_of(const hd_scanned *m) { return hd_st_tensor_count(&m->w->st); }

static int64_t width_of(const hd_scanned *m) { return m->format == HD_FMT_NONE ? PIECE : m->k; }

static int64_t rows_of(const hd_scanned *m)
{
    return m->format == HD_FMT_NONE ? (count_of(m) + PIECE - 1) / PIECE : m->n;
}

static double tensor_scale_of(const hd_scanned *m)
{
    double const x = m->tensor_scale ? (double)hd_take_read(&m->tensor_scale->st, 0) : 1;
    return m->is_divisor ? 1 / x : x;
}

static int64_t decode_values(const hd_st_tensor *t, int64_t begin, int64_t n, double *out)
{
    int64_t const rest = hd_st_tensor_count(t) - begin;
    if (n > rest) n = rest;
    for (int64_t i = 0; i < n; i++) out[i] = (double)hd_take_read(t, begin + i);
    return n;
}

static void decode_fp8(const hd_scanned *m, int64_t r, double *out)
{
    const uint8_t *const codes = m->w->st.data + r * m->k;
    int64_t const        columns = (m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    for (int64_t i = 0; i < m->k; i++) {
        int64_t const block = r / HD_FP8_BLOCK * columns + i / HD_FP8_BLOCK;
        out[i] = (double)hd_e4m3_to_f32(codes[i]) * (double)hd_take_read(&m->scale->st, block);
    }
}

/* Row r into out; returns its length. */
static int64_t decode_row(const hd_scanned *m, int64_t r, double *out)
{
    const uint8_t *const w = m->w->st.data;
    switch (m->format) {
    case HD_FMT_NVFP4:
        hd_nvfp4_decode(w + r * m->k / 2, m->scale->st.data + r * m->k / HD_NVFP4_BLOCK,
                        tensor_scale_of(m), 0, m->k, out);
        return m->k;
    case HD_FMT_MXFP4:
        hd_mxfp4_decode(w + r * m->k / 2, m->scale->st.data + r * m->k / HD_MXFP4_BLOCK, 0, m->k,
                        out);
        return m->k;
    case HD_FMT_FP8: decode_fp8(m, r, out); return m->k;
    default: return decode_values(&m->w->st, r * width_of(m), width_of(m), out);
    }
}

/* ---- comparing ---- */

static bool is_float(hd_st_dtype d) { return d == HD_ST_F32 || d == HD_ST_BF16 || d == HD_ST_F16; }

static bool are_alike(const hd_scanned *a, const hd_scanned *b)
{
    bool const is_plain = a->format == HD_FMT_NONE;
    if (is_plain != (b->format == HD_FMT_NONE)) return false;
    if (!is_plain) return a->n == b->n && a->k == b->k;
    return is_float(a->w->st.dtype) && is_float(b->w->st.dtype) && count_of(a) == count_of(b);
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

/* Rows [begin, end) were read. */
static void release_rows(const hd_scanned *m, int64_t begin, int64_t end)
{
    const hd_tensor *const both[] = {m->w, m->scale};
    int64_t const          rows = rows_of(m);
    for (int i = 0; i < 2; i++) {
        int64_t const bytes = both[i] ? (int64_t)both[i]->st.bytes : 0;
        int64_t const from = bytes / rows * begin, to = end < rows ? bytes / rows * end : bytes;
        if (bytes > 0) hd_file_release(both[i]->st.data + from, (size_t)(to - from));
    }
}

/* Rows that make up some megabytes. */
static int64_t rows_of_part(const hd_scanned *m)
{
    int64_t const n = PART_VALUES / width_of(m);
    return n > 0 ? n : 1;
}

static bool compare_one(void *user, void *room, int64_t i)
{
    hd_audit *const            a = user;
    row_pair *const            r = room;
    hd_audit_item *const       it = &a->model.items[i];
    const hd_audit_item *const other = hd_audit_find(&a->other, it->what.name);
    sums                       s = {0};
    if (!other || !are_alike(&it->what, &other->what)) return true;
    if (!make_room(r, width_of(&it->what))) return false;
    int64_t const rows = rows_of(&it->what), step = rows_of_part(&it->what);
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        end = begin + step < rows ? begin + step : rows;
        for (int64_t row = begin; row < end; row++) {
            int64_t const n = decode_row(&it->what, row, r->a);
            decode_row(&other->what, row, r->b);
            add_row(&s, r, n);
        }
        release_rows(&it->what, begin, end);
        release_rows(&other->what, begin, end);
    }
    it->difference = conclude(&s);
    return true;
}

hd_status hd_audit_compare(hd_audit *a, hd_error *err)
{
    row_pair      pairs[HD_AUDIT_MOST_THREADS] = {{0}};
    void         *rooms[HD_AUDIT_MOST_THREADS];
    hd_audit_work work = {.run = compare_one,
                          .user = a,
                          .rooms = rooms,
                          .n = a->model.used,
                          .n_threads = a->n_threads};
    for (int32_t i = 0; i < HD_AUDIT_MOST_THREADS; i++) rooms[i] = &pairs[i];
    bool const is_done = hd_audit_work_run(&work);
    for (int32_t i = 0; i < HD_AUDIT_MOST_THREADS; i++) hd_memory_free(pairs[i].a);
    if (!is_done) HD_FAIL(err, HD_ERR_MEMORY, "no memory to compare the weights");
    return HD_OK;
}
