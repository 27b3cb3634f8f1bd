#include "engine/sampler.h"

#include <math.h>

/* Picks tokens from logits.  Everything is a pure function of its arguments, so the same seed
 * gives the same tokens whoever else is served. */

hd_status hd_sampler_check(const hd_sampling *s, int32_t n_top, hd_error *err)
{
    if (!(s->temperature >= 0) || !isfinite(s->temperature))
        HD_FAIL(err, HD_ERR_INVALID, "temperature %g: wanted 0 or more", (double)s->temperature);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        HD_FAIL(err, HD_ERR_INVALID, "top_p %g: wanted 0 .. 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        HD_FAIL(err, HD_ERR_INVALID, "min_p %g: wanted 0 .. 1", (double)s->min_p);
    if (s->top_k < 0) HD_FAIL(err, HD_ERR_INVALID, "top_k %d: wanted 0 or more", s->top_k);
    if (n_top < 0 || n_top > HD_MAX_TOP_LOGPROBS)
        HD_FAIL(err, HD_ERR_INVALID, "%d alternatives: wanted 0 .. %d", n_top, HD_MAX_TOP_LOGPROBS);
    return HD_OK;
}

static hd_status check_logits(const float *logits, int32_t n, hd_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            HD_FAIL(err, HD_ERR_NUMERIC, "logit %d of %d is %f: no token can be drawn", i, n,
                    (double)logits[i]);
    return HD_OK;
}

/* Whether token a ranks before token b: a higher logit, of equals the lower id. */
static bool ranks_before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] == logits[b] ? a < b : logits[a] > logits[b];
}

static int32_t find_best(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ln sum exp(logits), so that logits[i] minus it is a log probability. */
static double log_total(const float *logits, int32_t n, float largest)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

static void collect_top(hd_sampled *out, const float *logits, int32_t n, int32_t n_top,
                        double total)
{
    out->n_top = 0;
    for (int32_t id = 0; id < n; id++) {
        int32_t at = out->n_top;
        while (at > 0 && ranks_before(logits, id, out->top[at - 1].id)) at--;
        if (at >= n_top) continue;
        if (out->n_top < n_top) out->n_top++;
        for (int32_t j = out->n_top - 1; j > at; j--) out->top[j] = out->top[j - 1];
        out->top[at] = (hd_token_prob){id, (float)(logits[id] - total)};
    }
}

/* ---- candidates ---- */

/* The candidates of one draw.  Filters by rank need a heap of ids; what is popped from it
 * stands behind it, so that candidate i is id[n - 1 - i].  Without such filters all ids are
 * candidates, in no order that matters. */
typedef struct candidates {
    const float       *logits;
    const hd_sampling *s;
    int32_t           *id; /* [n] */
    int32_t            n, kept;
    float              largest; /* logit */
} candidates;

/* Relative to the best one's. */
static double weight_of(const candidates *c, int32_t id)
{
    return exp(((double)c->logits[id] - c->largest) / c->s->temperature);
}

static int32_t candidate_at(const candidates *c, int32_t i) { return c->id[c->n - 1 - i]; }

static void sift_down(const float *logits, int32_t *heap, int32_t n, int32_t i)
{
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && ranks_before(logits, heap[child + 1], heap[child])) child++;
        if (!ranks_before(logits, heap[child], heap[i])) return;
        int32_t const id = heap[i];
        heap[i] = heap[child];
        heap[child] = id;
    }
}

static void make_heap(candidates *c)
{
    for (int32_t i = c->n / 2 - 1; i >= 0; i--) sift_down(c->logits, c->id, c->n, i);
}

/* Keeps the best one that is not kept yet; returns its weight. */
static double keep_next(candidates *c)
{
    int32_t const best = c->id[0], last = c->n - 1 - c->kept;
    c->id[0] = c->id[last];
    c->id[last] = best;
    sift_down(c->logits, c->id, last, 0);
    c->kept++;
    return weight_of(c, best);
}

/* Each filter sees what the one before it left: first top_k, then top_p. */
static void filter_by_rank(candidates *c, bool has_k, bool has_p)
{
    double  total = 0, sum = 0;
    int32_t enough = 0;
    make_heap(c);
    c->kept = 0;
    if (has_k)
        while (c->kept < c->s->top_k) total += keep_next(c);
    else
        for (int32_t i = 0; i < c->n; i++) total += weight_of(c, i);
    if (!has_p) return;
    int32_t const most = has_k ? c->kept : c->n;
    for (; enough < most && (enough == 0 || sum < c->s->top_p * total); enough++)
        sum += enough < c->kept ? weight_of(c, candidate_at(c, enough)) : keep_next(c);
    c->kept = enough;
}

/* Uniform in [0, 1) from seed and step alone (the finaliser of SplitMix64). */
static double draw_uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* What min_p leaves of a candidate's weight. */
static double share_of(const candidates *c, int32_t id)
{
    double const w = weight_of(c, id);
    return w < c->s->min_p ? 0 : w;
}

static int32_t pick(const candidates *c, double uniform)
{
    double  total = 0;
    int32_t last = candidate_at(c, 0);
    for (int32_t i = 0; i < c->kept; i++) total += share_of(c, candidate_at(c, i));
    double left = uniform * total;
    for (int32_t i = 0; i < c->kept; i++) {
        int32_t const id = candidate_at(c, i);
        double const  share = share_of(c, id);
        if (share > 0) last = id;
        left -= share;
        if (left < 0) return id;
    }
    return last; /* rounding left a crumb */
}

static int32_t draw(const float *logits, int32_t n, const hd_sampling *s, uint64_t step,
                    int32_t *scratch)
{
    candidates c = {logits, s, scratch, n, n, logits[find_best(logits, n)]};
    bool const has_k = s->top_k > 0 && s->top_k<n, has_p = s->top_p> 0 && s->top_p < 1;
    for (int32_t i = 0; i < n; i++) scratch[i] = i;
    if (has_k || has_p) filter_by_rank(&c, has_k, has_p);
    return pick(&c, draw_uniform(s->seed, step));
}

hd_status hd_sample(hd_sampled *out, const float *logits, int32_t n, const hd_sampling *sampling,
                    uint64_t step, int32_t n_top, int32_t *scratch, hd_error *err)
{
    if (n < 1) HD_FAIL(err, HD_ERR_INVALID, "%d logits", n);
    HD_TRY(hd_sampler_check(sampling, n_top, err));
    HD_TRY(check_logits(logits, n, err));
    int32_t const best = find_best(logits, n);
    double const  total = log_total(logits, n, logits[best]);
    int32_t const id = sampling->temperature > 0 ? draw(logits, n, sampling, step, scratch) : best;
    out->token = (hd_token_prob){id, (float)(logits[id] - total)};
    collect_top(out, logits, n, n_top, total);
    return HD_OK;
}
