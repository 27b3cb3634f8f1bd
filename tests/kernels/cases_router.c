#include <math.h>
#include <stdio.h>

#include "cases.h"
#include "ops/router.h"

static const struct {
    int32_t         t, s, e;
    hd_router_score scoring;
    bool            is_hash;
} shapes[] = {
    {1, 4, 16, HD_ROUTER_SQRTSOFTPLUS, false},  {33, 4, 16, HD_ROUTER_SQRTSOFTPLUS, false},
    {1, 6, 256, HD_ROUTER_SQRTSOFTPLUS, false}, {0, 2, 8, HD_ROUTER_SIGMOID, false},
    {5, 4, 16, HD_ROUTER_SQRTSOFTPLUS, true},   {3, 6, 256, HD_ROUTER_SQRTSOFTPLUS, true},
    {4, 8, 64, HD_ROUTER_SIGMOID, false},       {4, 8, 64, HD_ROUTER_SOFTMAX, false},
    {3, 3, 9, HD_ROUTER_SIGMOID, true},         {2, 5, 7, HD_ROUTER_SOFTMAX, true},
    {3, 1, 1, HD_ROUTER_SQRTSOFTPLUS, false},   {2, 64, 64, HD_ROUTER_SIGMOID, false},
    {2, 8, 1024, HD_ROUTER_SQRTSOFTPLUS, false}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define VOCAB    11

static void make(const test_case *c, void *args)
{
    hd_router_args *const a = args;
    int32_t const         i = c->index, e = 1 + i - N_SHAPES;
    if (i < N_SHAPES)
        *a = (hd_router_args){.t = shapes[i].t,
                              .s = shapes[i].s,
                              .e = shapes[i].e,
                              .scoring = shapes[i].scoring,
                              .is_hash = shapes[i].is_hash};
    else
        *a = (hd_router_args){.t = 3,
                              .s = e < 6 ? e : 6,
                              .e = e,
                              .scoring = (hd_router_score)(i % 3),
                              .is_hash = i % 4 == 0};
    a->vocab = VOCAB;
    a->scale = i & 1 ? 1.5f : 1;
}

/* s different experts for each token id. */
static void fill_table(const hd_router_args *a, int32_t *table, test_case *c)
{
    for (int32_t v = 0; v < a->vocab; v++) {
        int32_t const first = test_below(&c->rng, a->e);
        for (int32_t s = 0; s < a->s; s++) table[v * a->s + s] = (first + s) % a->e;
    }
}

/* Logits of real routers, at most +-20: sums of scores stay far from underflow. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_router_args *const a = args;
    if (test_is(o, "table"))
        fill_table(a, data, c);
    else if (test_is(o, "token"))
        for (int32_t t = 0; t < a->t; t++) ((int32_t *)data)[t] = test_below(&c->rng, a->vocab);
    else if (c->pattern == TEST_UNIFORM && test_is(o, "logits"))
        test_fill_range(o, data, c, -20, 20);
    else
        test_fill_floats(o, data, c);
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
#define SCORE_ERROR (64 * TEST_U)

static bool reject(test_verdict *v, const char *what, int32_t s, int32_t id, double value)
{
    snprintf(v->why, sizeof v->why, "slot %d, expert %d, %.9g: %s", s, id, value, what);
    return false;
}

/* The ids are different, and no expert left out stands clearly above one taken. */
static bool judge_picked(const hd_router_args *a, const int32_t *ids, const double *score,
                         test_verdict *v)
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
static bool judge_hashed(const hd_router_args *a, int64_t row, const int32_t *ids, test_verdict *v)
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
                          const double *score, test_verdict *v)
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

/* Without bias the scores of equal logits are equal bits, so a tie at the cut must go to the
 * lowest id: exact arithmetic and f32 agree on it. */
static bool judge_ties(const hd_router_args *a, const float *logits, const int32_t *ids,
                       test_verdict *v)
{
    for (int32_t s = 0; s < a->s; s++)
        for (int32_t e = 0; e < ids[s]; e++) {
            bool taken = logits[e] != logits[ids[s]] || a->bias[e] != a->bias[ids[s]];
            for (int32_t i = 0; i < a->s; i++) taken |= ids[i] == e;
            if (!taken) return reject(v, "an equal expert of lower id is left out", s, e, 0);
        }
    return true;
}

static bool judge(const test_runs *r, int64_t row, test_verdict *v)
{
    const hd_router_args *const in = r->in, *const got = r->got;
    const int32_t *const ids = got->ids + row * in->s;
    const float *const   logits = in->logits + row * in->e;
    double               score[HD_ROUTER_MAX_EXPERTS];
    compute_scores(in, logits, score);
    if (in->is_hash ? !judge_hashed(in, row, ids, v)
                    : !judge_picked(in, ids, score, v) || !judge_ties(in, logits, ids, v))
        return false;
    return judge_weights(in, ids, got->w + row * in->s, score, v);
}

const hd_cases hd_cases_router = {.n = N_SHAPES + 36,
                                  .patterns = 1U << TEST_UNIFORM | 1U << TEST_EQUAL |
                                              1U << TEST_ZERO | 1U << TEST_TIES,
                                  .rows = offsetof(hd_router_args, t),
                                  .make = make,
                                  .fill = fill,
                                  .judge = judge};
