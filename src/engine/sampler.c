#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Picks tokens from logits.  Everything is a pure function of its arguments, so the same seed
 * gives the same tokens whoever else is served. */

static hd_status check_filters(const hd_sampling *s, hd_error *err)
{
    if (!(s->temperature >= 0) || !isfinite(s->temperature))
        HD_FAIL(err, HD_ERR_INVALID, "temperature %g: wanted 0 or more", (double)s->temperature);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        HD_FAIL(err, HD_ERR_INVALID, "top_p %g: wanted 0 .. 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        HD_FAIL(err, HD_ERR_INVALID, "min_p %g: wanted 0 .. 1", (double)s->min_p);
    if (s->top_k < 0) HD_FAIL(err, HD_ERR_INVALID, "top_k %d: wanted 0 or more", s->top_k);
    return HD_OK;
}

static hd_status check_penalties(const hd_sampling *s, hd_error *err)
{
    if (!(s->presence_penalty >= -2 && s->presence_penalty <= 2))
        HD_FAIL(err, HD_ERR_INVALID, "presence_penalty %g: wanted -2 .. 2",
                (double)s->presence_penalty);
    if (!(s->frequency_penalty >= -2 && s->frequency_penalty <= 2))
        HD_FAIL(err, HD_ERR_INVALID, "frequency_penalty %g: wanted -2 .. 2",
                (double)s->frequency_penalty);
    if (!(s->repetition_penalty >= 0 && s->repetition_penalty <= 100))
        HD_FAIL(err, HD_ERR_INVALID, "repetition_penalty %g: wanted 0 .. 100",
                (double)s->repetition_penalty);
    return HD_OK;
}

static hd_status check_bias(const hd_sampling *s, int32_t n_vocab, hd_error *err)
{
    if (s->n_bias < 0 || (s->n_bias > 0 && !s->bias))
        HD_FAIL(err, HD_ERR_INVALID, "%d logit biases given", s->n_bias);
    for (int32_t i = 0; i < s->n_bias; i++) {
        hd_logit_bias const b = s->bias[i];
        if (b.id < 0 || b.id >= n_vocab)
            HD_FAIL(err, HD_ERR_INVALID, "logit bias of id %d: the vocabulary is 0 .. %d", b.id,
                    n_vocab - 1);
        if (!(b.bias >= -100 && b.bias <= 100))
            HD_FAIL(err, HD_ERR_INVALID, "logit bias %g of id %d: wanted -100 .. 100",
                    (double)b.bias, b.id);
    }
    return HD_OK;
}

hd_status hd_sampler_check(const hd_sampling *s, int32_t n_top, int32_t n_vocab, hd_error *err)
{
    HD_TRY(check_filters(s, err));
    HD_TRY(check_penalties(s, err));
    HD_TRY(check_bias(s, n_vocab, err));
    if (n_top < 0 || n_top > HD_MAX_TOP_LOGPROBS)
        HD_FAIL(err, HD_ERR_INVALID, "%d alternatives: wanted 0 .. %d", n_top, HD_MAX_TOP_LOGPROBS);
    return HD_OK;
}

hd_status hd_sampler_fail_logit(int32_t i, int32_t n, float logit, hd_error *err)
{
    HD_FAIL(err, HD_ERR_NUMERIC, "logit %d of %d is %f: no token can be drawn", i, n,
            (double)logit);
}

hd_status hd_sampler_check_logits(const float *logits, int32_t n, hd_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(logits[i])) return hd_sampler_fail_logit(i, n, logits[i], err);
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

void hd_sampler_report(hd_sampled *out, const float *logits, int32_t n, int32_t id, int32_t n_top)
{
    double const total = log_total(logits, n, logits[find_best(logits, n)]);
    out->token = (hd_token_prob){id, (float)(logits[id] - total)};
    collect_top(out, logits, n, n_top, total);
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

static bool has_top_k(const hd_sampling *s, int32_t n) { return s->top_k > 0 && s->top_k < n; }

static bool has_top_p(const hd_sampling *s) { return s->top_p > 0 && s->top_p < 1; }

static int32_t draw(const float *logits, const hd_sampling *s, const hd_draw *d)
{
    int32_t const n = d->n;
    candidates    c = {logits, s, d->scratch, n, n, logits[find_best(logits, n)]};
    bool const    has_k = has_top_k(s, n), has_p = has_top_p(s);
    for (int32_t i = 0; i < n; i++) c.id[i] = i;
    if (has_k || has_p) filter_by_rank(&c, has_k, has_p);
    return pick(&c, draw_uniform(s->seed, d->step));
}

/* ---- changed logits ---- */

static bool has_repetition(const hd_sampling *s)
{
    return s->repetition_penalty > 0 && s->repetition_penalty != 1;
}

static bool has_penalties(const hd_sampling *s)
{
    return has_repetition(s) || s->presence_penalty != 0 || s->frequency_penalty != 0;
}

/* An id's count is how often it was drawn, or ONLY_ASKED when it stands in the prompt alone. */
#define ONLY_ASKED (-1)

static hd_status count_past(const hd_draw *d, hd_error *err)
{
    memset(d->scratch, 0, (size_t)d->n * sizeof *d->scratch);
    for (int32_t i = 0; i < d->n_past; i++) {
        int32_t const id = d->past[i];
        if (id < 0 || id >= d->n)
            HD_FAIL(err, HD_ERR_INVALID, "token %d before the draw has id %d of %d", i, id, d->n);
        int32_t *const count = &d->scratch[id];
        if (i < d->n_prompt)
            *count = ONLY_ASKED;
        else
            *count = *count < 0 ? 1 : *count + 1;
    }
    return HD_OK;
}

static double penalise(double logit, const hd_sampling *s, int32_t count)
{
    if (count != 0 && has_repetition(s))
        logit = logit > 0 ? logit / s->repetition_penalty : logit * s->repetition_penalty;
    if (count > 0) logit -= s->presence_penalty + (double)s->frequency_penalty * count;
    return logit;
}

/* Stays finite, so that only what is banned is infinitely unlikely. */
static float clamp(double logit) { return (float)fmin(fmax(logit, -FLT_MAX), FLT_MAX); }

static bool is_allowed(const uint32_t *allowed, int32_t id)
{
    return allowed[id / 32] >> (id % 32) & 1;
}

static void ban(const hd_draw *d)
{
    for (int32_t i = 0; i < d->n_banned; i++) d->changed[d->banned[i]] = -INFINITY;
    if (!d->allowed) return;
    for (int32_t id = 0; id < d->n; id++)
        if (!is_allowed(d->allowed, id)) d->changed[id] = -INFINITY;
}

static hd_status change_logits(const hd_sampling *s, const hd_draw *d, hd_error *err)
{
    if (!d->changed) HD_FAIL(err, HD_ERR_INVALID, "nowhere to put changed logits");
    memcpy(d->changed, d->logits, (size_t)d->n * sizeof *d->changed);
    for (int32_t i = 0; i < s->n_bias; i++) {
        float *const logit = &d->changed[s->bias[i].id];
        *logit = clamp((double)*logit + s->bias[i].bias);
    }
    if (has_penalties(s)) {
        HD_TRY(count_past(d, err));
        for (int32_t id = 0; id < d->n; id++)
            if (d->scratch[id]) d->changed[id] = clamp(penalise(d->changed[id], s, d->scratch[id]));
    }
    ban(d);
    if (isinf(d->changed[find_best(d->changed, d->n)]))
        HD_FAIL(err, HD_ERR_INVALID, "all %d ids are banned", d->n);
    return HD_OK;
}

static bool changes(const hd_sampling *s, const hd_draw *d)
{
    return s->n_bias > 0 || d->n_banned > 0 || d->allowed || (d->n_past > 0 && has_penalties(s));
}

bool hd_sampler_ask(const hd_sampling *s, uint64_t step, int32_t n, hd_sample_ask *out)
{
    *out = (hd_sample_ask){draw_uniform(s->seed, step), s->temperature, s->min_p};
    if (s->n_bias > 0 || has_penalties(s)) return false;
    return !(s->temperature > 0) || !(has_top_k(s, n) || has_top_p(s));
}

/* ---- the draw ---- */

static hd_status check_draw(const hd_draw *d, hd_error *err)
{
    if (d->n < 1) HD_FAIL(err, HD_ERR_INVALID, "%d logits", d->n);
    if (d->n_prompt < 0 || d->n_prompt > d->n_past)
        HD_FAIL(err, HD_ERR_INVALID, "prompt of %d in %d tokens", d->n_prompt, d->n_past);
    for (int32_t i = 0; i < d->n_banned; i++)
        if (d->banned[i] < 0 || d->banned[i] >= d->n)
            HD_FAIL(err, HD_ERR_INVALID, "banned id %d: the vocabulary is 0 .. %d", d->banned[i],
                    d->n - 1);
    return HD_OK;
}

hd_status hd_sample(hd_sampled *out, const hd_sampling *sampling, const hd_draw *d, hd_error *err)
{
    const float *logits = d->logits;
    HD_TRY(check_draw(d, err));
    HD_TRY(hd_sampler_check(sampling, d->n_top, d->n, err));
    HD_TRY(hd_sampler_check_logits(logits, d->n, err));
    if (changes(sampling, d)) {
        HD_TRY(change_logits(sampling, d, err));
        logits = d->changed;
    }
    int32_t const id =
        sampling->temperature > 0 ? draw(logits, sampling, d) : find_best(logits, d->n);
    hd_sampler_report(out, d->logits, d->n, id, d->n_top);
    return HD_OK;
}
