#include "ops/router.h"

#include <math.h>

static double sqrt_softplus(double x) { return sqrt(log1p(exp(-fabs(x))) + (x > 0 ? x : 0)); }

static void compute_scores(const hd_router_args *a, const float *logits, double *score)
{
    double largest = logits[0], sum = 0;
    for (int32_t e = 0; e < a->e; e++) {
        if (logits[e] > largest) largest = logits[e];
        score[e] = a->scoring == HD_ROUTER_SIGMOID ? 1 / (1 + exp(-(double)logits[e]))
                                                   : sqrt_softplus(logits[e]);
    }
    if (a->scoring != HD_ROUTER_SOFTMAX) return;
    for (int32_t e = 0; e < a->e; e++) sum += score[e] = exp(logits[e] - largest);
    for (int32_t e = 0; e < a->e; e++) score[e] /= sum;
}

/* The s largest of score + bias, or the token's line of the table. */
static void pick_experts(const hd_router_args *a, int32_t t, const double *score, int32_t *ids)
{
    bool taken[HD_ROUTER_MAX_EXPERTS] = {false};
    for (int32_t s = 0; s < a->s; s++) {
        if (a->is_hash) {
            ids[s] = a->table[(int64_t)a->token[t] * a->s + s];
            continue;
        }
        int32_t best = -1;
        for (int32_t e = 0; e < a->e; e++)
            if (!taken[e] && (best < 0 || score[e] + a->bias[e] > score[best] + a->bias[best]))
                best = e;
        ids[s] = best;
        taken[best] = true;
    }
}

/* By falling score, ties by rising id; insertion, for a handful of experts. */
static void sort_by_score(int32_t *ids, int32_t n, const double *score)
{
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = i; j > 0; j--) {
            int32_t const before = ids[j - 1], here = ids[j];
            if (score[before] > score[here] || (score[before] == score[here] && before <= here))
                break;
            ids[j - 1] = here;
            ids[j] = before;
        }
}

static void write_weights(const hd_router_args *a, int32_t t, const double *score,
                          const int32_t *ids)
{
    double sum = 0;
    for (int32_t s = 0; s < a->s; s++) sum += score[ids[s]];
    if (a->scoring == HD_ROUTER_SOFTMAX) sum = 1;
    for (int32_t s = 0; s < a->s; s++) {
        int64_t const at = (int64_t)t * a->s + s;
        a->ids[at] = ids[s];
        a->w[at] = (float)(score[ids[s]] / sum * a->scale);
        if (!a->has_pairs) continue;
        a->pairs[2 * at] = ids[s];
        a->pairs[2 * at + 1] = ids[s] + a->e;
    }
}

bool hd_router_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_router_ref(const void *args, hd_stream *stream)
{
    const hd_router_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        double  score[HD_ROUTER_MAX_EXPERTS];
        int32_t ids[HD_ROUTER_MAX_SLOTS];
        compute_scores(a, a->logits + (int64_t)t * a->e, score);
        pick_experts(a, t, score, ids);
        sort_by_score(ids, a->s, score);
        write_weights(a, t, score, ids);
    }
    return HD_OK;
}
