#include <math.h>

#include "base/status.h"

/* Picks tokens from logits.  Everything is a pure function of its arguments, so the same seed
 * gives the same tokens whoever else is served. */

static hd_status check_sampling(const hd_sampling *s, int32_t n_top, hd_error *err)
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

/* ---- candidates: a heap of ids with the best at the top ---- */

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

static double weight_of(const float *logits, int32_t id, float largest, float temperature)
{
    return exp(((double)logits[id] - largest) / temperature);
}

/* Moves the candidates that the filters keep, best first, to the end of `heap` [n]; returns
 * how many, and their total weight.  `all` is the weight of the whole vocabulary. */
static int32_t keep_candidates(const float *logits, int32_t n, const hd_sampling *s, int32_t *heap,
                               double all, double *kept_weight)
{
    float const   largest = logits[heap[0]];
    int32_t const most = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    double const  enough = s->top_p > 0 ? s->top_p * all : all;
    double        sum = 0;
    int32_t       kept = 0;
    while (kept < most && (kept == 0 || sum < enough)) {
        double const w = weight_of(logits, heap[0], largest, s->temperature);
        if (kept > 0 && w < s->min_p) break;
        int32_t const best = heap[0], last = n - 1 - kept;
        heap[0] = heap[last];
        heap[last] = best;
        sift_down(logits, heap, last, 0);
        sum += w;
        kept++;
    }
    *kept_weight = sum;
    return kept;
}

/* Uniform in [0, 1) from seed and step alone (the finaliser of SplitMix64). */
static double draw_uniform(uint64_t seed, uint64_t step)
{
    uint64_t z = seed + (step + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int32_t draw(const float *logits, int32_t n, const hd_sampling *s, uint64_t step,
                    int32_t *heap)
{
    float const largest = logits[find_best(logits, n)];
    double      all = 0, kept_weight;
    for (int32_t i = 0; i < n; i++) {
        heap[i] = i;
        all += weight_of(logits, i, largest, s->temperature);
    }
    for (int32_t i = n / 2 - 1; i >= 0; i--) sift_down(logits, heap, n, i);
    int32_t const kept = keep_candidates(logits, n, s, heap, all, &kept_weight);
    double        left = draw_uniform(s->seed, step) * kept_weight;
    for (int32_t i = 0; i < kept; i++) {
        int32_t const id = heap[n - 1 - i];
        left -= weight_of(logits, id, largest, s->temperature);
        if (left < 0) return id;
    }
    return heap[n - kept]; /* rounding left a crumb: the last candidate */
}

hd_status hd_sample(hd_sampled *out, const float *logits, int32_t n, const hd_sampling *sampling,
                    uint64_t step, int32_t n_top, int32_t *scratch, hd_error *err)
{
    if (n < 1) HD_FAIL(err, HD_ERR_INVALID, "%d logits", n);
    HD_TRY(check_sampling(sampling, n_top, err));
    HD_TRY(check_logits(logits, n, err));
    int32_t const best = find_best(logits, n);
    double const  total = log_total(logits, n, logits[best]);
    int32_t const id = sampling->temperature > 0 ? draw(logits, n, sampling, step, scratch) : best;
    out->token = (hd_token_prob){id, (float)(logits[id] - total)};
    collect_top(out, logits, n, n_top, total);
    return HD_OK;
}
