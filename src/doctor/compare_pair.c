#include "doctor/compare_pair.h"

#include <math.h>
#include <string.h>

#include "quant/bf16.h"

#define N_BEST 5

bool hd_pair_has_values(hd_st_dtype d)
{
    return d == HD_ST_F32 || d == HD_ST_BF16 || d == HD_ST_F16 || d == HD_ST_I32 || d == HD_ST_I64;
}

/* Element i; dumps are not aligned. */
static double read_value(const hd_st_tensor *t, int64_t i)
{
    float    f;
    uint16_t half;
    int32_t  narrow;
    int64_t  wide;
    switch (t->dtype) {
    case HD_ST_F32: memcpy(&f, t->data + 4 * i, sizeof f); return (double)f;
    case HD_ST_I32: memcpy(&narrow, t->data + 4 * i, sizeof narrow); return (double)narrow;
    case HD_ST_I64: memcpy(&wide, t->data + 8 * i, sizeof wide); return (double)wide;
    default: memcpy(&half, t->data + 2 * i, sizeof half); break;
    }
    return (double)(t->dtype == HD_ST_BF16 ? hd_bf16_to_f32(half) : hd_f16_to_f32(half));
}

static int64_t width_of(const hd_st_tensor *t) { return t->rank > 0 ? t->shape[t->rank - 1] : 1; }

/* ---- values ---- */

static bool is_whole(hd_st_dtype d) { return d == HD_ST_I32 || d == HD_ST_I64; }

typedef struct sums {
    double aa, bb, ab, dd;
} sums;

static double share(double a, double b, double otherwise)
{
    return a == 0 && b == 0 ? otherwise : a / b;
}

static double error_of(const sums *s) { return share(sqrt(s->dd), sqrt(s->bb), 0); }

/* Takes element i into the sums of its row. */
static void add_element(hd_pair_stats *p, sums *row, int64_t i, double a, double b)
{
    bool const is_bad_a = !isfinite(a), is_bad_b = !isfinite(b);
    bool const is_same = a == b || (isnan(a) && isnan(b));
    p->bad_a += is_bad_a;
    p->bad_b += is_bad_b;
    if (!is_same && !p->different++) p->first_different = i;
    if (is_bad_a != is_bad_b) row->dd = INFINITY;
    if (is_bad_a || is_bad_b) return;
    row->aa += a * a;
    row->bb += b * b;
    row->ab += a * b;
    row->dd += (a - b) * (a - b);
    if (fabs(a - b) <= fabs(p->worst_a - p->worst_b)) return;
    p->worst_at = i;
    p->worst_a = a;
    p->worst_b = b;
}

static void add_row(hd_pair_stats *p, sums *all, const sums *row, int64_t r)
{
    double const error = error_of(row);
    all->aa += row->aa;
    all->bb += row->bb;
    all->ab += row->ab;
    all->dd += row->dd;
    if (!(error > p->row_error)) return;
    p->row_error = error;
    p->worst_row = r;
}

hd_pair_stats hd_pair_compare(const hd_st_tensor *a, const hd_st_tensor *b)
{
    hd_pair_stats p = {.count = hd_st_tensor_count(b)};
    int64_t const width = width_of(b);
    sums          all = {0};
    for (int64_t r = 0; width > 0 && r < p.count / width; r++) {
        sums row = {0};
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            add_element(&p, &row, i, read_value(a, i), read_value(b, i));
        add_row(&p, &all, &row, r);
    }
    p.error = error_of(&all);
    if (is_whole(a->dtype) && is_whole(b->dtype) && p.count > 0)
        p.error = (double)p.different / (double)p.count;
    p.cosine = share(all.ab, sqrt(all.aa) * sqrt(all.bb), 1);
    p.ratio = share(sqrt(all.aa), sqrt(all.bb), 1);
    return p;
}

/* ---- logits ---- */

/* Logarithm of the sum of exponentials of row r. */
static double log_sum(const hd_st_tensor *t, int64_t r, int64_t n)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, read_value(t, r * n + i));
    for (int64_t i = 0; i < n; i++) sum += exp(read_value(t, r * n + i) - most);
    return most + log(sum);
}

static double divergence(const hd_st_tensor *a, const hd_st_tensor *b, int64_t r, int64_t n)
{
    double const za = log_sum(a, r, n), zb = log_sum(b, r, n);
    double       kl = 0;
    for (int64_t i = 0; i < n; i++) {
        double const la = read_value(a, r * n + i) - za, lb = read_value(b, r * n + i) - zb;
        kl += exp(lb) * (lb - la);
    }
    return fmax(kl, 0); /* rounding can make nothing negative */
}

/* The ids of the largest, ties to the lowest id; fewer when there are fewer. */
static int find_best(const hd_st_tensor *t, int64_t r, int64_t n, int64_t best[N_BEST])
{
    int used = 0;
    for (int64_t i = 0; i < n; i++) {
        double const x = read_value(t, r * n + i);
        int          at = used;
        while (at > 0 && x > read_value(t, r * n + best[at - 1])) at--;
        if (at == N_BEST) continue;
        if (used < N_BEST) used++;
        for (int j = used - 1; j > at; j--) best[j] = best[j - 1];
        best[at] = i;
    }
    return used;
}

static bool is_among(int64_t id, const int64_t *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

static void add_agreement(hd_logit_stats *s, const hd_st_tensor *a, const hd_st_tensor *b,
                          int64_t r, int64_t n)
{
    int64_t   of_a[N_BEST] = {0}, of_b[N_BEST] = {0};
    int const n_a = find_best(a, r, n, of_a), n_b = find_best(b, r, n, of_b);
    int       common = 0;
    for (int i = 0; i < n_b; i++) common += is_among(of_b[i], of_a, n_a);
    s->top1 += of_a[0] == of_b[0];
    s->top5 += n_b ? (double)common / n_b : 1;
}

hd_logit_stats hd_logits_compare(const hd_st_tensor *a, const hd_st_tensor *b)
{
    hd_logit_stats s = {0};
    int64_t const  n = width_of(b), rows = n > 0 ? hd_st_tensor_count(b) / n : 0;
    for (int64_t r = 0; r < rows; r++) {
        double const kl = divergence(a, b, r, n);
        add_agreement(&s, a, b, r, n);
        s.kl_mean += kl;
        if (!(kl > s.kl_max) && !isnan(kl)) continue;
        s.kl_max = kl;
        s.kl_row = r;
    }
    if (rows == 0) return s;
    s.kl_mean /= (double)rows;
    s.top1 /= (double)rows;
    s.top5 /= (double)rows;
    return s;
}
