#include <pthread.h>
#include <string.h>

#include "doctor/compare_parts.h"
#include "doctor/operand_stats.h"

/* Two passes in two threads, which wait for each other at every pair, so that both operands stand
 * when they are compared and nothing is copied.  With one live side nobody waits. */
typedef struct meeting {
    hd_compare     *c;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t  moved;
    const void     *data[2]; /* of the pair that a side waits at */
    int32_t         at[2];   /* that pair, -1: none              */
    int32_t         done;    /* pairs before this are compared   */
    bool            has_ended[2];
} meeting;

typedef struct walker {
    meeting  *m;
    int       side;
    hd_status status;
    bool      is_left; /* failed only because the other side did */
    hd_error  err;
    pthread_t thread;
} walker;

/* The second to come compares; both leave then. */
static hd_status meet(walker *w, int32_t p, const void *data, hd_error *err)
{
    meeting *const m = w->m;
    int const      other = 1 - w->side;
    m->data[w->side] = data;
    m->at[w->side] = p;
    if (m->at[other] == p) {
        hd_compare_pair_now(m->c, p, m->data);
        m->done = p + 1;
        pthread_cond_broadcast(&m->moved);
    }
    while (m->done <= p && !m->has_ended[other]) pthread_cond_wait(&m->moved, &m->lock);
    if (m->done > p) return HD_OK;
    w->is_left = true;
    HD_FAIL(err, HD_ERR_INVALID, "the other side ended");
}

static hd_status show(walker *w, const void *data, hd_error *err)
{
    hd_compare *const c = w->m->c;
    hd_side *const    s = &c->sides[w->side];
    int32_t const     p = s->list[s->next++].pair;
    const void       *both[2] = {NULL, NULL};
    if (p < 0) return HD_OK;
    if (c->sides[1 - w->side].what->engine) {
        pthread_mutex_lock(&w->m->lock);
        hd_status const status = meet(w, p, data, err);
        pthread_mutex_unlock(&w->m->lock);
        return status;
    }
    both[w->side] = data;
    hd_compare_pair_now(c, p, both);
    return HD_OK;
}

/* In the order in which the side's list was made. */
static hd_status on_step(void *user, const hd_step *step, hd_error *err)
{
    walker *const  w = user;
    hd_side *const s = &w->m->c->sides[w->side];
    hd_operand     o[HD_MAX_OPERANDS];
    int32_t const  n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++) {
        const void *data = NULL;
        if (o[i].role == HD_IN || !hd_operand_has_values(&o[i])) continue;
        HD_TRY(hd_operand_fetch(s->what->engine, step, &o[i], s->fetched, &data, err));
        HD_TRY(show(w, data, err));
    }
    return HD_OK;
}

static hd_status on_logits(void *user, bool is_mtp, const float *logits, hd_error *err)
{
    (void)is_mtp;
    return show(user, logits, err);
}

static void *run_side(void *user)
{
    walker *const      w = user;
    hd_compare *const  c = w->m->c;
    hd_pass_walk const walk = {
        .ids = c->opt.ids, .n = c->opt.n, .on_step = on_step, .on_logits = on_logits, .user = w};
    int32_t greedy;
    w->status = hd_pass_walk_run(c->sides[w->side].what->engine, &walk, &greedy, &w->err);
    pthread_mutex_lock(&w->m->lock);
    w->m->has_ended[w->side] = true;
    pthread_cond_broadcast(&w->m->moved);
    pthread_mutex_unlock(&w->m->lock);
    return NULL;
}

static hd_status run_both(walker w[2], hd_error *err)
{
    if (pthread_create(&w[1].thread, NULL, run_side, &w[1]) != 0)
        HD_FAIL(err, HD_ERR_MEMORY, "no thread for the second side");
    run_side(&w[0]);
    pthread_join(w[1].thread, NULL);
    return HD_OK;
}

/* The failure that came first, not the other side's complaint about it. */
static hd_status conclude(const walker w[2], hd_error *err)
{
    for (int i = 0; i < 2; i++) {
        if (w[i].status == HD_OK || w[i].is_left) continue;
        if (err) *err = w[i].err;
        return w[i].status;
    }
    return HD_OK;
}

hd_status hd_compare_walk(hd_compare *c, hd_error *err)
{
    meeting   m = {.c = c, .at = {-1, -1}};
    walker    w[2] = {{.m = &m, .side = 0}, {.m = &m, .side = 1}};
    hd_status s = HD_OK;
    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.moved, NULL);
    if (c->sides[0].what->engine && c->sides[1].what->engine)
        s = run_both(w, err);
    else
        run_side(&w[c->sides[0].what->engine ? 0 : 1]);
    pthread_cond_destroy(&m.moved);
    pthread_mutex_destroy(&m.lock);
    return s == HD_OK ? conclude(w, err) : s;
}
