#include "ops/router.h"

#include <math.h>
#include <stdio.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_router_args *const a = args;
    int32_t                     n = 0;
    out[n++] = HD_OPERAND(router, logits, HD_IN, HD_F32, a->t, a->e);
    if (!a->is_hash) out[n++] = HD_OPERAND(router, bias, HD_IN, HD_F32, a->e);
    if (a->is_hash) out[n++] = HD_OPERAND(router, table, HD_IN, HD_I32, a->vocab, a->s);
    if (a->is_hash) out[n++] = HD_OPERAND(router, token, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(router, ids, HD_OUT, HD_I32, a->t, a->s);
    out[n++] = HD_OPERAND(router, w, HD_OUT, HD_F32, a->t, a->s);
    if (a->has_pairs) out[n++] = HD_OPERAND(router, pairs, HD_OUT, HD_I32, a->t, a->s, 2);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_router_args *const a = args;
    if (a->s < 1 || a->s > HD_ROUTER_MAX_SLOTS || a->s > a->e) return "1 <= s <= e, s <= 64";
    if (a->e > HD_ROUTER_MAX_EXPERTS) return "e <= 1024";
    return NULL;
}

static void compute_scores(const hd_router_args *a, const float *logits, double *score)
{
    double largest = -INFINITY, sum = 0;
    for (int32_t e = 0; e < a->e; e++) largest = fmax(largest, logits[e]);
    for (int32_t e = 0; e < a->e; e++) sum += exp(logits[e] - largest);
    for (int32_t e = 0; e < a->e; e++) {
        double const x = logits[e];
        if (a->scoring == HD_ROUTER_SOFTMAX)
            score[e] = exp(x - largest) / sum;
        else if (a->scoring == HD_ROUTER_SIGMOID)
            score[e] = 1 / (1 + exp(-x));
        else
            score[e] = sqrt(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
    }
}

/* Scores in f32 from logits up to 20: a few roundings and the argument's own. */
#define SCORE_ERROR (64 * HD_ROUNDOFF)

static bool reject(hd_op_verdict *v, const char *what, int32_t s, int32_t id, double value)
{
    snprintf(v->why, sizeof v->why, "slot %d, expert %d, %.9g: %s", s, id, value, what);
    return false;
}

/* The ids are different, and no expert left out stands clearly above one taken. */
static bool judge_picked(const hd_router_args *a, const int32_t *ids, const double *score,
                         hd_op_verdict *v)
{
    bool   taken[HD_ROUTER_MAX_EXPERTS] = {false};
    double lowest = INFINITY, bias = 0;
    for (int32_t s = 0; s < a->s; s++) {
        if (ids[s] < 0 || ids[s] >= a->e) return reject(v, "no such expert", s, ids[s], 0);
        if (taken[ids[s]]) return reject(v, "taken twice", s, ids[s], 0);
        taken[ids[s]] = true;
        if (score[ids[s]] + a->bias[ids[s]] < lowest) lowest = score[ids[s]] + a->bias[ids[s]];
    }
    for (int32_t e = 0; e < a->e; e++) {
        double const above = score[e] + a->bias[e] - lowest;
        bias = fabs((double)a->bias[e]);
        if (!taken[e] && above > SCORE_ERROR * (score[e] + bias + fabs(lowest)))
            return reject(v, "left out, though above the cut by", a->s, e, above);
    }
    return true;
}

/* Exactly the experts of the token's line, in any order. */
static bool judge_hashed(const hd_router_args *a, int64_t row, const int32_t *ids, hd_op_verdict *v)
{
    const int32_t *const line = a->table + (int64_t)a->token[row] * a->s;
    for (int32_t s = 0; s < a->s; s++) {
        int32_t in_line = 0, in_ids = 0;
        for (int32_t i = 0; i < a->s; i++) {
            in_line += line[i] == line[s];
            in_ids += ids[i] == line[s];
        }
        if (in_line != in_ids) return reject(v, "not as often as in the table", s, line[s], 0);
    }
    return true;
}

/* Weights of the ids that were taken, falling; equal ones by rising id. */
static bool judge_weights(const hd_router_args *a, const int32_t *ids, const float *w,
                          const double *score, hd_op_verdict *v)
{
    double sum = 0;
    for (int32_t s = 0; s < a->s; s++) sum += score[ids[s]];
    if (a->scoring == HD_ROUTER_SOFTMAX) sum = 1;
    for (int32_t s = 0; s < a->s; s++) {
        double const want = score[ids[s]] / sum * a->scale, err = fabs(w[s] - want);
        double const allowed = SCORE_ERROR * want + 0x1p-126;
        if (!(err <= allowed)) return reject(v, "wrong weight", s, ids[s], w[s]);
        if (err / allowed > v->worst) v->worst = err / allowed;
        if (s == 0) continue;
        if (w[s] > w[s - 1]) return reject(v, "weights do not fall", s, ids[s], w[s]);
        if (score[ids[s]] == score[ids[s - 1]] && ids[s] < ids[s - 1])
            return reject(v, "a tie is not by rising id", s, ids[s], w[s]);
    }
    return true;
}

static bool judge_pairs(const hd_router_args *a, const int32_t *ids, const int32_t *pairs,
                        hd_op_verdict *v)
{
    for (int32_t s = 0; s < a->s; s++)
        for (int32_t i = 0; i < 2; i++)
            if (pairs[2 * s + i] != ids[s] + i * a->e)
                return reject(v, "wrong pair of", s, ids[s], pairs[2 * s + i]);
    return true;
}

/* Without bias the scores of equal logits are equal bits, so a tie at the cut must go to the
 * lowest id: exact arithmetic and f32 agree on it. */
static bool judge_ties(const hd_router_args *a, const float *logits, const int32_t *ids,
                       hd_op_verdict *v)
{
    for (int32_t s = 0; s < a->s; s++)
        for (int32_t e = 0; e < ids[s]; e++) {
            bool taken = logits[e] != logits[ids[s]] || a->bias[e] != a->bias[ids[s]];
            for (int32_t i = 0; i < a->s; i++) taken |= ids[i] == e;
            if (!taken) return reject(v, "an equal expert of lower id is left out", s, e, 0);
        }
    return true;
}

static bool judge(const hd_op_runs *r, int64_t row, hd_op_verdict *v)
{
    const hd_router_args *const in = r->in, *const got = r->got;
    const int32_t *const ids = got->ids + row * in->s;
    const float *const   logits = in->logits + row * in->e;
    double               score[HD_ROUTER_MAX_EXPERTS];
    compute_scores(in, logits, score);
    if (in->is_hash ? !judge_hashed(in, row, ids, v)
                    : !judge_picked(in, ids, score, v) || !judge_ties(in, logits, ids, v))
        return false;
    if (in->has_pairs && !judge_pairs(in, ids, got->pairs + row * in->s * 2, v)) return false;
    return judge_weights(in, ids, got->w + row * in->s, score, v);
}

const hd_op hd_op_router = {"router", sizeof(hd_router_args), describe, breaks, NULL, judge};
