#include "doctor/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/names.h"
#include "doctor/pass_walk.h"

/* ---- steps and matrices ----
 * A plan and a checkpoint call the same things differently; this is the dictionary. */

static const struct {
    const char *label, *matrix; /* %d: the expert                                 */
    const char *second;         /* of ids beyond all experts, where a step has two */
} dictionary[] = {
    {"q_a", "attn.wq_a", NULL},
    {"q_b", "attn.wq_b", NULL},
    {"kv", "attn.wkv", NULL},
    {"o_a", "attn.wo_a", NULL},
    {"o_b", "attn.wo_b", NULL},
    {"comp_kv", "attn.compressor.wkv", NULL},
    {"comp_gate", "attn.compressor.wgate", NULL},
    {"index_kv", "attn.indexer.compressor.wkv", NULL},
    {"index_gate", "attn.indexer.compressor.wgate", NULL},
    {"index_q", "attn.indexer.wq_b", NULL},
    {"index_weights", "attn.indexer.weights_proj", NULL},
    {"gate", "ffn.gate", NULL},
    {"shared_w1", "ffn.shared_experts.w1", NULL},
    {"shared_w3", "ffn.shared_experts.w3", NULL},
    {"shared_w2", "ffn.shared_experts.w2", NULL},
    {"w1_w3", "ffn.experts.%d.w1", "ffn.experts.%d.w3"},
    {"w2", "ffn.experts.%d.w2", NULL},
    {"e_proj", "e_proj", NULL},
    {"h_proj", "h_proj", NULL},
    {"head", "head", NULL},
};

/* NULL for a step that multiplies by no matrix of the checkpoint. */
static const char *find_matrix(const hd_step *s, bool is_second)
{
    for (size_t i = 0; i < sizeof dictionary / sizeof dictionary[0]; i++)
        if (strcmp(dictionary[i].label, s->label) == 0)
            return is_second ? dictionary[i].second : dictionary[i].matrix;
    return NULL;
}

/* Writes "layers.3." or "mtp.0." and the matrix `id` of a step of a model with n experts. */
static void name_matrix(const hd_step *s, int32_t id, int32_t n, char out[HD_NAME_MAX])
{
    int32_t const     expert = id % n;
    const char *const matrix = find_matrix(s, id >= n), *const number = strstr(matrix, "%d");
    char prefix[32] = "";
    if (s->layer >= 0) snprintf(prefix, sizeof prefix, "layers.%d.", s->layer);
    if (s->layer == HD_LAYER_MTP && strcmp(matrix, "head") != 0)
        snprintf(prefix, sizeof prefix, "mtp.0.");
    if (number)
        snprintf(out, HD_NAME_MAX, "%s%.*s%d%s", prefix, (int)(number - matrix), matrix, expert,
                 number + 2);
    else
        snprintf(out, HD_NAME_MAX, "%s%s", prefix, matrix);
}

/* ---- what a step read ---- */

typedef struct calibration {
    hd_input_fn *on_input;
    void        *user;
    float       *experts; /* [2 * n_experts] of the step at hand, by id; owned */
    int32_t      n_experts;
} calibration;

/* NaN when one is NaN or infinite. */
static float largest_of(const float *x, int64_t n)
{
    float amax = 0;
    bool  is_finite = true;
    for (int64_t i = 0; i < n; i++) {
        float const a = fabsf(x[i]);
        amax = a > amax ? a : amax;
        is_finite = is_finite && isfinite(a);
    }
    return is_finite ? amax : NAN;
}

static hd_status fail_input(const hd_step *s, hd_error *err)
{
    char name[96];
    hd_step_name(s, name, sizeof name);
    HD_FAIL(err, HD_ERR_NUMERIC, "calibration: the input of step %s is not finite", name);
}

/* What a step multiplies: x [t, k], or [t, xs, k] with ids [t, s] of experts, where xs is 1 or s.
 */
typedef struct step_input {
    const float   *x;
    const int32_t *ids;  /* NULL: one matrix */
    int64_t        rows; /* of x             */
    int64_t        cols;
    int64_t        slots; /* ids that share a row */
} step_input;

static step_input find_input(const hd_step *s)
{
    hd_operand    o[HD_MAX_OPERANDS];
    step_input    in = {.x = NULL};
    int64_t       n_ids = 0;
    int32_t const n = s->kernel->op->describe(s->args, o);
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(o[i].name, "x") == 0) {
            in.x = hd_operand_pointer(s->args, &o[i]);
            in.rows = hd_operand_rows(&o[i]);
            in.cols = hd_operand_cols(&o[i]);
        } else if (strcmp(o[i].name, "ids") == 0) {
            in.ids = hd_operand_pointer(s->args, &o[i]);
            n_ids = hd_operand_count(&o[i]);
        }
    }
    in.slots = in.rows > 0 ? n_ids / in.rows : 0;
    return in;
}

static hd_status see_matrix(const calibration *c, const hd_step *s, const step_input *in,
                            hd_error *err)
{
    char        name[HD_NAME_MAX];
    float const amax = largest_of(in->x, in->rows * in->cols);
    if (isnan(amax)) return fail_input(s, err);
    name_matrix(s, 0, c->n_experts, name);
    c->on_input(c->user, name, (double)amax);
    return HD_OK;
}

/* Every token shows its input to the experts that it goes to. */
static hd_status see_experts(const calibration *c, const hd_step *s, const step_input *in,
                             hd_error *err)
{
    char          name[HD_NAME_MAX];
    int32_t const n = 2 * c->n_experts;
    for (int32_t e = 0; e < n; e++) c->experts[e] = -1;
    for (int64_t row = 0; row < in->rows; row++) {
        float const amax = largest_of(in->x + row * in->cols, in->cols);
        if (isnan(amax)) return fail_input(s, err);
        for (int64_t i = 0; i < in->slots; i++) {
            float *const at = c->experts + in->ids[row * in->slots + i];
            *at = amax > *at ? amax : *at;
        }
    }
    for (int32_t e = 0; e < n; e++) {
        if (c->experts[e] < 0) continue;
        name_matrix(s, e, c->n_experts, name);
        c->on_input(c->user, name, (double)c->experts[e]);
    }
    return HD_OK;
}

static hd_status on_step(void *user, const hd_step *s, hd_error *err)
{
    const char *const op = s->kernel->op->name;
    if ((strncmp(op, "gemm_", 5) != 0 && strncmp(op, "grouped_gemm_", 13) != 0) ||
        !find_matrix(s, false))
        return HD_OK;
    step_input const in = find_input(s);
    return in.ids ? see_experts(user, s, &in, err) : see_matrix(user, s, &in, err);
}

/* ---- reading ---- */

static hd_status run(hd_engine *e, const hd_calibration_text *text, calibration *c,
                     const hd_log *log, hd_error *err)
{
    hd_pass_walk w = {.ids = text->ids, .on_step = on_step, .user = c};
    for (int32_t i = 0; i < text->n; i++) {
        int32_t greedy;
        w.n = text->lengths[i];
        hd_log_progress(log, "calibrating", i, text->n);
        HD_TRY(hd_pass_walk_check(e, w.ids, w.n, err));
        HD_TRY(hd_pass_walk_run(e, &w, &greedy, err));
        w.ids += w.n;
    }
    hd_log_progress(log, "calibrating", text->n, text->n);
    return HD_OK;
}

hd_status hd_calibrate(hd_engine *e, const hd_calibration_text *text, hd_input_fn *on_input,
                       void *user, const hd_log *log, hd_error *err)
{
    if (e->device || e->options.act != HD_ACT_EXACT)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "calibration needs exact activations on the host");
    calibration c = {on_input, user, NULL, e->model.config->n_experts};
    c.experts = hd_memory_alloc(2 * (size_t)c.n_experts * sizeof *c.experts);
    if (!c.experts) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d experts", c.n_experts);
    hd_status const s = run(e, text, &c, log, err);
    hd_memory_free(c.experts);
    return s;
}
