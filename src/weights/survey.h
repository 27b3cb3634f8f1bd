#ifndef HD_WEIGHTS_SURVEY_H
#define HD_WEIGHTS_SURVEY_H

#include "checkpoint/checkpoint.h"
#include "quant/matrix.h"

/* What a model wants of a checkpoint and what is there, without loading: the loader's own walk
 * and its own rules of siblings, but every fault is told instead of the first, and values are
 * not looked at. */

HD_BEGIN_C

/* A matrix whose siblings make a format; the tensors are the checkpoint's. */
typedef struct hd_found_matrix {
    const char *name; /* official, without suffix; borrowed until the callback returns */
    hd_format   format;
    int32_t     n, k;
    hd_tensor  *w;            /* codes or values                                          */
    hd_tensor  *scale;        /* of blocks; NULL for F32 and BF16                         */
    hd_tensor  *tensor_scale; /* NVFP4 only                                               */
    hd_tensor  *input_scale;  /* may be NULL                                              */
    bool        is_divisor;   /* both global scales divide (compressed-tensors)           */
    bool        is_wanted;    /* by the model; else only its siblings tell of it          */
} hd_found_matrix;

typedef struct hd_survey {
    hd_fault_fn *fault;
    void (*matrix)(void *user, const hd_found_matrix *m);
    /* Any other tensor; limit > 0: whole numbers in [0, limit). */
    void (*values)(void *user, hd_tensor *t, int32_t limit);
    void *user;
} hd_survey;

typedef struct hd_survey_result {
    int32_t n_matrices[HD_N_FORMATS]; /* of the model, by format            */
    bool    has_mtp, has_dspark;
    int32_t n_aside; /* tensors known to be left aside: hd_weights_load     */
    char    family[128];
} hd_survey_result;

/* Walks a checkpoint of hd_checkpoint_survey.  Each of its tensors comes to `matrix` (as a part
 * of one) or to `values` once, also those that belong to a fault; without a config nothing is
 * wanted and nothing is missing or extra.
 * returns  HD_ERR_MEMORY only */
hd_status hd_weights_survey(hd_checkpoint *ck, const hd_survey *survey, hd_survey_result *out,
                            hd_error *err);

HD_END_C
#endif
