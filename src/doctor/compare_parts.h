#ifndef HD_DOCTOR_COMPARE_PARTS_H
#define HD_DOCTOR_COMPARE_PARTS_H

#include "doctor/compare.h"
#include "doctor/compare_pair.h"
#include "doctor/pass_walk.h"

/* The inside of a comparison, for its files only. */

HD_BEGIN_C

/* A tensor of one side, in the order of the plan or of the file. */
typedef struct hd_side_tensor {
    hd_st_tensor st;     /* st.data only of dumps                              */
    const char  *step;   /* "L03.q_a"; the name itself when it belongs to none */
    const char  *kernel; /* NULL: not known                                    */
    int32_t      pair;   /* -1: the other side has none                        */
} hd_side_tensor;

typedef struct hd_side {
    const hd_compare_side *what;
    hd_st_file             file; /* of a dump */
    hd_side_tensor        *list; /* [used] of the pool */
    int32_t                used, cap;
    int32_t                next;    /* of a live side: the tensor that comes now */
    void                  *fetched; /* [fetched_bytes] room for one operand of an accelerator */
    size_t                 fetched_bytes;
    hd_pool                pool;
} hd_side;

typedef struct hd_pair {
    int32_t        a, b; /* tensors of the sides */
    bool           is_done, has_logits;
    hd_pair_stats  stats;
    hd_logit_stats logits;
} hd_pair;

struct hd_compare {
    hd_compare_options opt;
    hd_side            sides[2];
    hd_pair           *pairs; /* [n_pairs] of side 0's pool, in its order */
    int32_t            n_pairs;
    int32_t            n_alone[2]; /* tensors that the other side has not    */
    int32_t            n_misfits;  /* of one name, but of another size       */
    const char        *misfit;     /* the first of them                      */
};

/* Fills a side's list.  pass_walk of the live ones says what they will run. */
hd_status hd_side_open(hd_side *s, const hd_compare_side *what, const hd_pass_walk *w,
                       hd_error *err);
void      hd_side_close(hd_side *s);
/* Finds the tensors that both have. */
hd_status hd_compare_match(hd_compare *c, hd_error *err);
/* Compares pair p; data of a live side's tensor, NULL of a dump's. */
void hd_compare_pair_now(hd_compare *c, int32_t p, const void *const data[2]);
/* What reports say of it. */
const hd_side_tensor *hd_compare_tensor(const hd_compare *c, const hd_pair *p, int side);
const char *hd_compare_kernel(const hd_compare *c, const hd_pair *p, int side); /* "-": unknown */
void        hd_compare_print_side(const hd_compare *c, int side, hd_buffer *out);
void        hd_compare_print_first(const hd_compare *c, bool wants_far, hd_buffer *out);
void        hd_compare_print_logits(const hd_compare *c, hd_buffer *out);
/* Runs the live sides. */
hd_status hd_compare_walk(hd_compare *c, hd_error *err);

HD_END_C
#endif
