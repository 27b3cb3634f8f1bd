#ifndef HD_DOCTOR_BISECT_PARTS_H
#define HD_DOCTOR_BISECT_PARTS_H

#include <assert.h>

#include "doctor/bisect.h"
#include "doctor/pass_walk.h"
#include "doctor/subset.h"

/* The inside of a bisection, for its files only. */

HD_BEGIN_C

/* One difference of the settings. */
typedef struct hd_bisect_part {
    const char *kind;       /* "act", "kv" or "op" */
    const char *name;       /* of the op, else the kind */
    const char *good, *bad; /* what either setting has: a mode, a format, a kernel; static */
    int32_t     op;         /* its place in hd_ops; -1: none */
} hd_bisect_part;

#define HD_MAX_PARTS (HD_N_OPS + 2)
static_assert(HD_MAX_PARTS <= HD_MAX_SUBSET, "a difference is a bit of a set");

typedef struct hd_bisect_trial {
    hd_subset set;
    double    error; /* of the worst row of logits, with the bad parts of `set` */
} hd_bisect_trial;

/* Parts that suffice together. */
typedef struct hd_culprit {
    hd_subset set;
    double    error, rest; /* with them alone; with all others that are not in culprits yet */
} hd_culprit;

struct hd_bisect {
    hd_bisect_options opt;
    hd_bisect_part    parts[HD_MAX_PARTS];
    int32_t           n_parts;
    hd_culprit        culprits[HD_MAX_PARTS];
    int32_t           n_culprits;
    hd_bisect_trial  *trials; /* [n_trials] of hd_memory */
    int32_t           n_trials, cap_trials;
    hd_engine        *engine;    /* owned; of the trial before */
    float            *wanted[2]; /* [n, n_vocab] of the pool: good logits, those of MTP */
    bool              has_wanted;
    double            error; /* of the trial that runs */
    int32_t           step, n_steps;
    hd_log            log;
    hd_pool           pool;
};

hd_subset hd_bisect_all(const hd_bisect *b); /* every part */
/* The error of a set; NaN when it was not tried. */
double hd_bisect_error(const hd_bisect *b, hd_subset set);
bool   hd_bisect_is_far(const hd_bisect *b, double error);

HD_END_C
#endif
