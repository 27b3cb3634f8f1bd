#include "ops/sample.h"

#include <math.h>
#include <string.h>

bool hd_sample_ref_supports(const void *args)
{
    (void)args;
    return true;
}

static int32_t find_best(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double share_of(const hd_sample_ask *ask, float logit, float largest)
{
    double const w = exp(((double)logit - largest) / ask->temperature);
    return w < ask->min_p ? 0 : w;
}

static int32_t draw(const float *logits, int32_t n, float largest, const hd_sample_ask *ask)
{
    double  total = 0;
    int32_t last = n - 1;
    for (int32_t i = n - 1; i >= 0; i--) total += share_of(ask, logits[i], largest);
    double left = ask->uniform * total;
    for (int32_t i = n - 1; i >= 0; i--) {
        double const share = share_of(ask, logits[i], largest);
        if (share > 0) last = i;
        left -= share;
        if (left < 0) return i;
    }
    return last; /* rounding left a crumb */
}

static double log_total(const float *logits, int32_t n, float largest)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

static int32_t first_bad(const float *logits, int32_t n)
{
    int32_t i = 0;
    while (i < n && isfinite(logits[i])) i++;
    return i;
}

static void sample_row(const hd_sample_args *a, int64_t t)
{
    const float *const logits = a->logits + t * a->n;
    int32_t const      bad = first_bad(logits, a->n);
    hd_sample_ask      ask;
    memcpy(&ask, a->asks + t * (int64_t)sizeof ask, sizeof ask);
    if (bad < a->n) {
        a->ids[t] = -1 - bad;
        a->logprob[t] = logits[bad];
        return;
    }
    int32_t const best = find_best(logits, a->n);
    int32_t const id = ask.temperature > 0 ? draw(logits, a->n, logits[best], &ask) : best;
    a->ids[t] = id;
    a->logprob[t] = (float)(logits[id] - log_total(logits, a->n, logits[best]));
}

hd_status hd_sample_ref(const void *args, hd_stream *stream)
{
    const hd_sample_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) sample_row(a, t);
    return HD_OK;
}
