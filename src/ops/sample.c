#include "ops/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_sample_args *const a = args;
    int32_t                     n = 0;
    out[n++] = HD_OPERAND(sample, logits, HD_IN, HD_F32, a->t, a->n);
    out[n++] = HD_OPERAND(sample, asks, HD_IN, HD_U8, a->t, sizeof(hd_sample_ask));
    out[n++] = HD_OPERAND(sample, ids, HD_OUT, HD_I32, a->t);
    out[n++] = HD_OPERAND(sample, logprob, HD_OUT, HD_F32, a->t);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_sample_args *const a = args;
    return a->n < 1 ? "n >= 1" : NULL;
}

/* A row, and what a kernel said of it. */
typedef struct drawn_row {
    const float   *logits;
    int32_t        n, id, ref; /* ref: the reference's id */
    double         largest;
    hd_sample_ask  ask;
    hd_op_verdict *v;
} drawn_row;

static bool reject(const drawn_row *r, const char *what, double value)
{
    snprintf(r->v->why, sizeof r->v->why, "id %d, the reference's is %d: %s (%.9g)", r->id, r->ref,
             what, value);
    return false;
}

/* That of the best is 1 whatever computes it. */
static double share_of(const drawn_row *r, int32_t id, double min_p)
{
    double const w = exp((r->logits[id] - r->largest) / (double)r->ask.temperature);
    return w < min_p && r->logits[id] < r->largest ? 0 : w;
}

/* Sums of the shares of the ids above and of all; those near min_p count or do not. */
typedef struct bounds {
    double above, own, total;
} bounds;

static bounds sum_shares(const drawn_row *r, double min_p)
{
    bounds b = {.own = share_of(r, r->id, min_p)};
    for (int32_t i = 0; i < r->n; i++) {
        double const share = share_of(r, i, min_p);
        b.total += share;
        if (i > r->id) b.above += share;
    }
    return b;
}

/* Every term may be off by a few roundings. */
static bool judge_drawn(const drawn_row *r)
{
    double const min_p = (double)r->ask.min_p, u = r->ask.uniform, off = ldexp(r->n + 64.0, -51);
    bounds const least = sum_shares(r, min_p * (1 + 0x1p-48));
    bounds const most = sum_shares(r, min_p * (1 - 0x1p-48));
    double const slack = off * most.total, low = least.above - slack;
    double const high = most.above + most.own + slack;
    if (!(most.own > 0)) return reject(r, "its share is nothing", most.own);
    if (u * most.total < low) return reject(r, "too low", low - u * most.total);
    if (u * least.total > high) return reject(r, "too high", u * least.total - high);
    return true;
}

/* The logarithm is off as its argument is, and once more where it is added to the largest. */
static bool judge_logprob(const drawn_row *r, float got, float want)
{
    double const allowed = 4 * HD_ROUNDOFF * fabs((double)want) + ldexp(fabs(r->largest), -50) +
                           ldexp(r->n + 64.0, -51);
    double const err = fabs((double)got - (double)want);
    if (!(err <= allowed)) return reject(r, "wrong logprob", (double)got);
    r->v->worst = err / allowed;
    return true;
}

/* logits[id] - ln sum exp(logits) of the id that was taken. */
static float log_probability(const drawn_row *r)
{
    double sum = 0;
    for (int32_t i = 0; i < r->n; i++) sum += exp(r->logits[i] - r->largest);
    return (float)(r->logits[r->id] - (r->largest + log(sum)));
}

static bool judge(const hd_op_runs *runs, int64_t row, hd_op_verdict *v)
{
    const hd_sample_args *const in = runs->in, *const ref = runs->ref, *const got = runs->got;
    const float *const logits = in->logits + row * in->n;
    drawn_row          r = {.logits = logits,
                            .n = in->n,
                            .id = got->ids[row],
                            .ref = ref->ids[row],
                            .largest = -INFINITY,
                            .v = v};
    memcpy(&r.ask, in->asks + row * (int64_t)sizeof r.ask, sizeof r.ask);
    if (r.ref < 0) {
        bool const is_same =
            r.id == r.ref && memcmp(&got->logprob[row], &ref->logprob[row], sizeof(float)) == 0;
        return is_same || reject(&r, "the row is not finite", (double)got->logprob[row]);
    }
    if (r.id < 0 || r.id >= r.n) return reject(&r, "there is no such id", 0);
    for (int32_t i = 0; i < r.n; i++) r.largest = fmax(r.largest, (double)logits[i]);
    if (r.ask.temperature > 0 ? !judge_drawn(&r) : r.id != r.ref && !reject(&r, "not the best", 0))
        return false;
    return judge_logprob(&r, got->logprob[row], log_probability(&r));
}

const hd_op hd_op_sample = {"sample", sizeof(hd_sample_args), describe, breaks, NULL, judge};
