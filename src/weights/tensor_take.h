#ifndef HD_WEIGHTS_TENSOR_TAKE_H
#define HD_WEIGHTS_TENSOR_TAKE_H

#include "checkpoint/names.h"
#include "weights/survey.h"
#include "weights/weights.h"

/* Takes single tensors and whole matrices out of a checkpoint, ticking each once.  `name` is
 * official and complete for a vector, without the suffix (".weight") for a matrix. */

HD_BEGIN_C

typedef struct hd_taker {
    hd_checkpoint *ck;
    hd_weights    *weights; /* its pool holds what is converted, its counts what was found */
    const hd_log  *log;
    hd_error      *err;
    hd_tensor     *bad_input; /* the first unusable input scale, NULL when all are good */
    int32_t        n_bad_inputs;
    bool           is_trusted;                      /* block scales are not read */
    int32_t        n_projections, most_projections; /* of experts: taken, and in all; progress */
    bool           has_warned; /* of a tensor scale above 1: said once, the others are alike */

    const hd_survey *survey;    /* NULL: load; else tell, take nothing and always succeed */
    bool             is_wanted; /* what a survey says of matrices                         */
    hd_fault_kind    fault;     /* of the failure at hand, its tensor and file            */
    const char      *fault_file;
    char             fault_tensor[HD_NAME_MAX];
} hd_taker;

/* A tensor that may be absent: NULL, and not ticked. */
hd_tensor *hd_take_peek(const hd_taker *k, const char *name, const char *suffix);

/* F32, BF16 or F16 of the given shape (rows = 0: a plain vector of cols; an [] scalar also
 * serves as [1]) to f32. */
hd_status hd_take_f32(hd_taker *k, const char *name, int64_t rows, int64_t cols, const float **out);
/* I64 or I32 [rows, cols], every entry in [0, limit), to i32. */
hd_status hd_take_i32(hd_taker *k, const char *name, int64_t rows, int64_t cols, int32_t limit,
                      const int32_t **out);
/* A matrix of n rows and k columns in whatever format its siblings tell. */
hd_status hd_take_matrix(hd_taker *k, const char *name, int32_t n, int32_t cols, hd_matrix *out);
/* The same for one of a list, whose owner keeps the input scales: sets no input_scale_at. */
hd_status hd_take_expert(hd_taker *k, const char *name, int32_t n, int32_t cols, hd_matrix *out);
/* Element i of a float, E8M0 or byte-for-E8M0 tensor. */
float hd_take_read(const hd_st_tensor *t, int64_t i);
/* Whether x can scale a tensor: positive and normal. */
bool hd_take_is_scale(float x);
/* Fails when a matrix had an input scale that cannot be used.  They come in numbers, from
 * experts that calibration never reached, so each is logged and the load goes on until here. */
hd_status hd_take_check_inputs(const hd_taker *k);

HD_END_C
#endif
