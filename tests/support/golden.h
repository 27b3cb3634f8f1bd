#ifndef HD_TESTS_SUPPORT_GOLDEN_H
#define HD_TESTS_SUPPORT_GOLDEN_H

#include "checkpoint/safetensors.h"
#include "engine/engine.h"

/* Expected values and a model beside them, for tests of whole passes. */

/* Opens tests/golden/model/NAME.safetensors; fails the test when it cannot. */
void golden_open(hd_st_file *out, const char *name);
bool golden_has(const hd_st_file *f, const char *prompt, const char *name);
/* Tensor `prompt.name`, which must exist; *count gets its elements, shape is in the tensor. */
const float *golden_f32(const hd_st_file *f, const char *prompt, const char *name, int64_t *count);
const int32_t      *golden_i32(const hd_st_file *f, const char *prompt, const char *name,
                               int64_t *count);
const hd_st_tensor *golden_tensor(const hd_st_file *f, const char *prompt, const char *name);

/* Largest norm(got - want) / norm(want) over rows; a NaN anywhere counts as infinite. */
double worst_row(const float *got, const float *want, int64_t rows, int64_t cols);

/* Opens an engine on a model folder; fails the test with the message when it cannot. */
hd_engine *open_engine(const char *model, hd_act act, int32_t context, int32_t chunk);
/* The same with a mask of kernel families; 0: all that this machine has. */
hd_engine *open_engine_on(uint32_t isa, const char *model, hd_act act, int32_t context,
                          int32_t chunk);

/* What a pass leaves behind, copied step by step. */
typedef struct recorded {
    int32_t  n, n_layers, m, d, n_experts_used, topk;
    float   *streams;     /* [layers + 1, n, m, d] after each layer; the last is the MTP block's */
    int32_t *experts;     /* [layers + 1, n, n_experts_used]                                     */
    int32_t *rows;        /* [layers + 1, n, topk] where the layer has an indexer                */
    int64_t  n_saturated; /* NVFP4 blocks of all steps                                           */
} recorded;
void record_open(recorded *r, const hd_engine *e, int32_t n);
void record_close(recorded *r);
/* The hd_step_fn that fills a `recorded`. */
hd_status record_step(void *user, const hd_step *step, hd_error *err);

#endif
