#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "doctor/audit_parts.h"

/* What config.json says about numbers, held against the tensors.  The loader believes none of it;
 * other programs do, and this is where they go wrong. */

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define BLOCK            128 /* rows and columns of an FP8 scale, which the shapes have proven */

/* What the model's tensors are. */
typedef struct inventory {
    int64_t              experts[HD_N_FORMATS], all[HD_N_FORMATS]; /* matrices */
    const hd_audit_item *first_expert[HD_N_FORMATS];
    const hd_audit_item *uneven; /* the first FP8 matrix with a scale that is no power of two */
} inventory;

static inventory take_inventory(const hd_audit *a)
{
    inventory v = {0};
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_audit_item *const it = &a->model.items[i];
        hd_format const            f = it->what.format;
        bool const                 is_expert = strncmp(it->what.name, "layers.", 7) == 0 &&
                               strstr(it->what.name, ".ffn.experts.") != NULL;
        if (!it->what.is_wanted || f == HD_FMT_NONE) continue;
        v.all[f]++;
        if (is_expert && !v.experts[f]++) v.first_expert[f] = it;
        if (f == HD_FMT_FP8 && it->scan.uneven.n > 0 && !v.uneven) v.uneven = it;
    }
    return v;
}

static void say(hd_audit *a, hd_severity s, const char *tensor, const char *what)
{
    hd_finding_head const head = {s, "config-says", tensor, "config.json"};
    hd_findings_add(&a->findings, &head, "config.json says %s", what);
}

/* ---- hints ---- */

static void judge_expert_dtype(hd_audit *a, const inventory *v, const char *says)
{
    char       what[256];
    int64_t    four = v->experts[HD_FMT_NVFP4] + v->experts[HD_FMT_MXFP4];
    int64_t    eight = v->experts[HD_FMT_FP8];
    bool const is_four = strcasecmp(says, "fp4") == 0, is_eight = strcasecmp(says, "fp8") == 0;
    if (!is_four && !is_eight) return;
    if ((is_four && eight == 0) || (is_eight && four == 0)) return;
    for (int f = 0; f < HD_N_FORMATS; f++) {
        bool const is_other = is_four ? f == HD_FMT_FP8 : f == HD_FMT_NVFP4 || f == HD_FMT_MXFP4;
        if (!is_other || !v->first_expert[f]) continue;
        snprintf(what, sizeof what,
                 "expert_dtype \"%s\", yet %" PRId64 " experts' matrices are %s, "
                 "such as %.120s",
                 says, v->experts[f], hd_format_name((hd_format)f), v->first_expert[f]->what.name);
        say(a, HD_WARNING, v->first_expert[f]->what.name, what);
    }
}

static void judge_moe_algo(hd_audit *a, const inventory *v, const char *says)
{
    char          what[256];
    bool const    says_nvfp4 = strcasecmp(says, "NVFP4") == 0;
    int64_t const n = v->experts[HD_FMT_NVFP4];
    if (!*says || says_nvfp4 == (n > 0)) return;
    snprintf(what, sizeof what,
             "moe_quant_algo \"%s\", yet %" PRId64 " experts' matrices are NVFP4", says, n);
    say(a, HD_WARNING, NULL, what);
}

static void judge_algo(hd_audit *a, const inventory *v, const hd_quant_hint *q)
{
    char       what[256];
    bool const says_nvfp4 = strcasecmp(q->algo, "NVFP4") == 0;
    if (says_nvfp4 && v->all[HD_FMT_NVFP4] == 0)
        say(a, HD_WARNING, NULL, "quant_algo \"NVFP4\", yet no matrix is NVFP4");
    if (strcasecmp(q->method, "fp8") != 0 || v->all[HD_FMT_FP8] > 0) return;
    snprintf(what, sizeof what, "quant_method \"fp8\", yet no matrix is FP8 (%.120s)",
             a->model.survey.family);
    say(a, HD_NOTE, NULL, what);
}

static void judge_scale_format(hd_audit *a, const inventory *v, const char *says)
{
    char what[256];
    if (strcasecmp(says, "ue8m0") != 0 || !v->uneven) return;
    snprintf(what, sizeof what,
             "scale_fmt \"ue8m0\", yet %" PRId64 " scales of %.120s are no powers of two, the "
             "first is number %" PRId64,
             v->uneven->scan.uneven.n, v->uneven->what.name, v->uneven->scan.uneven.first);
    say(a, HD_WARNING, v->uneven->what.scale->st.name, what);
}

static void judge_blocks(hd_audit *a, const hd_config *c)
{
    const hd_survey_result *const s = &a->model.survey;
    if (c->n_mtp > 0 && !s->has_mtp && !s->has_dspark)
        say(a, HD_NOTE, NULL, "there is an MTP block, yet no tensor is of one");
    if (s->has_dspark && !c->has_dspark)
        say(a, HD_NOTE, NULL, "nothing of DSpark, yet the mtp.* tensors are a DSpark drafter");
    if (c->tie_embeddings && hd_audit_find(&a->model, "head"))
        say(a, HD_NOTE, "head.weight", "tie_word_embeddings, yet there is a head; it is used");
}

/* ---- what only this file reads ---- */

static void judge_block_size(hd_audit *a, const inventory *v, const json_object *q)
{
    char                     what[128];
    const json_object *const size = hd_json_member(q, "weight_block_size");
    if (!json_object_is_type(size, json_type_array) || v->all[HD_FMT_FP8] == 0) return;
    for (size_t i = 0; i < json_object_array_length(size); i++) {
        int64_t const n = json_object_get_int64(json_object_array_get_idx(size, i));
        if (n == BLOCK) continue;
        snprintf(what, sizeof what, "weight_block_size has %" PRId64 ", yet shapes say %d", n,
                 BLOCK);
        say(a, HD_WARNING, NULL, what);
        return;
    }
}

/* Both files may hold lists; one that cannot be read is left out. */
static json_object *read_json(const hd_audit *a, const char *name)
{
    char         path[4096];
    hd_pool      pool = {0};
    char        *text = NULL;
    size_t       bytes = 0;
    json_object *root = NULL;
    int const    n = snprintf(path, sizeof path, "%s/%s", hd_checkpoint_folder(a->model.ck), name);
    if (n > 0 && (size_t)n < sizeof path &&
        hd_file_read(&text, &bytes, path, MAX_CONFIG_BYTES, &pool, NULL) == HD_OK)
        (void)hd_json_parse(&root, text, bytes, HD_JSON_PYTHON, path, NULL);
    hd_pool_free(&pool);
    return root;
}

static void judge_lists(hd_audit *a, const inventory *v)
{
    static const char  config[] = "config.json", quant[] = "hf_quant_config.json";
    json_object *const root = read_json(a, config), *const other = read_json(a, quant);
    const json_object *const q = hd_json_member(root, "quantization_config");
    judge_block_size(a, v, q);
    hd_audit_judge_lists(a, config, q);
    hd_audit_judge_quant_config(a, quant, other);
    json_object_put(root);
    json_object_put(other);
}

void hd_audit_judge_config(hd_audit *a)
{
    const hd_config *const     c = hd_checkpoint_config(a->model.ck);
    const hd_quant_hint *const q = &c->quant;
    if (c->n_layers == 0) return; /* could not be read: told before */
    inventory const v = take_inventory(a);
    judge_expert_dtype(a, &v, q->expert_dtype);
    judge_moe_algo(a, &v, q->moe_algo);
    judge_algo(a, &v, q);
    judge_scale_format(a, &v, q->scale_fmt);
    judge_blocks(a, c);
    judge_lists(a, &v);
}
