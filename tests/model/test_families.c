/* Checkpoints of all published families that hold exactly the same weights: each must give the
 * expected values of the one they are derived from, and with the reference kernels its very
 * bits.  scripts/make_families.py writes them; the folders bad-* must be refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"
#include "base/cpu.h"

#define FOLDER    "build/families"
#define SOURCE    "tests/models/tiny512-official"
#define TOLERANCE 1e-5
#define N_PROMPTS 2

static const char *const prompts[N_PROMPTS] = {"short", "edge"};

static hd_st_file golden;

/* ---- the log ---- */

typedef struct log_text {
    char   text[16384];
    size_t used;
} log_text;

static void keep_line(void *user, hd_log_level level, const char *line)
{
    log_text *const l = user;
    (void)level;
    int const n = snprintf(l->text + l->used, sizeof l->text - l->used, "%s\n", line);
    assert_true(n > 0 && (size_t)n < sizeof l->text - l->used);
    l->used += (size_t)n;
}

static int count_text(const char *text, const char *what)
{
    int n = 0;
    while ((text = strstr(text, what))) text++, n++;
    return n;
}

/* ---- one pass ---- */

/* All rows of logits of a prompt, and the MTP block's behind them; freed by free_bits. */
typedef struct pass_bits {
    float *logits, *mtp; /* [n, vocab]; mtp NULL where the block was not run */
    size_t bytes;
} pass_bits;

static float *copy_logits(const hd_engine *e, size_t bytes)
{
    float *const copy = hd_memory_alloc(bytes);
    assert_non_null(copy);
    memcpy(copy, e->pass.logits, bytes);
    return copy;
}

static void run(hd_engine *e, hd_pass_run r)
{
    hd_error err = {0};
    if (hd_engine_run(e, &r, &err) != HD_OK) fail_msg("%s", err.message);
}

static pass_bits run_prompt(hd_engine *e, const char *prompt, bool has_mtp)
{
    int64_t              n;
    int32_t              next[256];
    const int32_t *const tokens = golden_i32(&golden, prompt, "tokens", &n);
    pass_bits            out = {.bytes = (size_t)(n * e->model.config->n_vocab) * sizeof(float)};
    assert_in_range(n, 2, 256);
    run(e, (hd_pass_run){.tokens = tokens, .n = (int32_t)n, .rows = HD_LOGITS_ALL});
    out.logits = copy_logits(e, out.bytes);
    if (!has_mtp) return out;
    memcpy(next, tokens + 1, (size_t)(n - 1) * sizeof *next);
    next[n - 1] = golden_i32(&golden, prompt, "mtp.next", NULL)[1];
    run(e, (hd_pass_run){.tokens = tokens,
                         .next = next,
                         .n = (int32_t)n,
                         .rows = HD_LOGITS_ALL,
                         .is_mtp = true});
    out.mtp = copy_logits(e, out.bytes);
    return out;
}

static void free_bits(pass_bits *b)
{
    hd_memory_free(b->logits);
    hd_memory_free(b->mtp);
}

/* The last rows of a prompt against the expected ones. */
static void check_golden(const hd_engine *e, const char *prompt, const char *what, const float *got)
{
    int64_t            count, n;
    int64_t const      vocab = e->model.config->n_vocab;
    const float *const want = golden_f32(&golden, prompt, what, &count);
    golden_i32(&golden, prompt, "tokens", &n);
    int64_t const rows = count / vocab;
    double const  error = worst_row(got + (n - rows) * vocab, want, rows, vocab);
    if (!(error <= TOLERANCE)) fail_msg("%s of %s are off by %.3e", what, prompt, error);
}

/* ---- families ---- */

typedef struct family {
    const char *name;
    const char *formats; /* of its matrices                              */
    bool        has_mtp;
    const char *said;      /* in the log, exactly once; NULL: nothing special */
    int32_t     n_prompts; /* to compare, the short one first */
} family;

#define OF_SOURCE "MXFP4 x 120, FP8 x 44, BF16 x 19"
static const family families[] = {
    {"nvfp4-official", "NVFP4 x 96, MXFP4 x 24, FP8 x 44, BF16 x 19", true, NULL, 2},
    {"nvfp4-scalars-1", "NVFP4 x 120, FP8 x 44, BF16 x 19", true, NULL, 1},
    {"nvfp4-mtp", "NVFP4 x 24, MXFP4 x 96, FP8 x 44, BF16 x 19", true, NULL, 1},
    {"nvfp4-w4a16", "NVFP4 x 120, FP8 x 44, BF16 x 19", true, NULL, 2},
    {"ct-nvfp4", "NVFP4 x 96, FP8 x 22, BF16 x 30", false,
     "config.json promises an MTP block that is not there", 2},
    {"base", "FP8 x 164, BF16 x 19", true, "1 copies of embedding or head in the MTP block", 2},
    {"base-scale-inv", "FP8 x 164, BF16 x 19", true, NULL, 2},
    {"bf16-dense", "MXFP4 x 120, BF16 x 63", true, NULL, 2},
    {"mtp-absent", "MXFP4 x 96, FP8 x 34, BF16 x 18", false,
     "config.json promises an MTP block that is not there", 1},
    {"mtp-copies", OF_SOURCE, true, "2 copies of embedding or head in the MTP block left aside", 1},
    {"dspark", "MXFP4 x 96, FP8 x 34, BF16 x 18", false, "tensors of a DSpark drafter left aside",
     2},
    {"names-model-prefix", OF_SOURCE, true, NULL, 1},
    {"names-hugging-face", OF_SOURCE, true, "10 scales of an FP8 KV cache left aside", 1},
    {"names-export", "NVFP4 x 96, FP8 x 34, BF16 x 18", false,
     "config.json promises an MTP block that is not there", 1},
    {"files-one", OF_SOURCE, true, "1 shards", 1},
    {"files-bare", OF_SOURCE, true, "4 shards", 1},
    {"files-short-index", OF_SOURCE, true, "omits 164 tensors that the shards hold", 1},
    {"bytes-e8m0", OF_SOURCE, true, NULL, 1},
    {"gate-f32", "MXFP4 x 120, FP8 x 44, BF16 x 14, F32 x 5", true, NULL, 2},
    {"gate-f16", "MXFP4 x 120, FP8 x 44, BF16 x 15, F32 x 4", true, NULL, 2},
    {"config-transformers", OF_SOURCE, true, NULL, 2},
    {"config-official", OF_SOURCE, true, NULL, 2},
    {"config-no-scale-fmt", OF_SOURCE, true, NULL, 1},
    {"config-wrong-hints", OF_SOURCE, true, NULL, 1},
    {"config-no-expert-dtype", OF_SOURCE, true, NULL, 1},
    {"config-ratio-1", OF_SOURCE, true, NULL, 1},
    {"config-select-all", OF_SOURCE, true, NULL, 1},
};
#define N_FAMILIES ((int32_t)(sizeof families / sizeof families[0]))

static pass_bits source_bits[N_PROMPTS]; /* with the reference kernels */

static hd_engine *open_family(const char *path, uint32_t isa, log_text *log)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_options const o = {.model = path,
                          .act = HD_ACT_EXACT,
                          .max_tokens = 256,
                          .chunk = 256,
                          .has_mtp = true,
                          .isa = isa,
                          .log = keep_line,
                          .user = log};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s: %s", path, err.message);
    return e;
}

static void check_bits(hd_engine *e, bool has_mtp, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        pass_bits        got = run_prompt(e, prompts[i], has_mtp && i == 0);
        const pass_bits *want = &source_bits[i];
        if (memcmp(got.logits, want->logits, want->bytes) != 0)
            fail_msg("%s: logits differ from those of " SOURCE, prompts[i]);
        if (got.mtp && memcmp(got.mtp, want->mtp, want->bytes) != 0)
            fail_msg("%s: MTP logits differ from those of " SOURCE, prompts[i]);
        free_bits(&got);
    }
}

/* The first n prompts: the long one costs most of the time. */
static void check_values(hd_engine *e, bool has_mtp, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        pass_bits got = run_prompt(e, prompts[i], has_mtp);
        check_golden(e, prompts[i], "logits", got.logits);
        if (has_mtp) check_golden(e, prompts[i], "mtp.logits", got.mtp);
        free_bits(&got);
    }
}

static void test_family(void **state)
{
    const family *const f = *state;
    char                path[256];
    hd_engine_info      info;
    static log_text     log;
    log = (log_text){0};
    snprintf(path, sizeof path, FOLDER "/%s", f->name);
    hd_engine *const e = open_family(path, HD_ISA_REF, &log);
    hd_engine_info_get(e, &info);
    assert_string_equal(info.family, f->formats);
    assert_int_equal(info.has_mtp, f->has_mtp);
    assert_int_equal(e->weights->has_dspark, strcmp(f->name, "dspark") == 0);
    if (f->said) assert_int_equal(count_text(log.text, f->said), 1);
    check_bits(e, f->has_mtp, f->n_prompts);
    hd_engine_close(e);
    hd_engine *const fast = open_family(path, 0, &(log_text){0});
    check_values(fast, f->has_mtp, 1);
    hd_engine_close(fast);
}

/* W4A4 without input scales rounds by each row's own largest element: near the same checkpoint
 * that knows them, and finite. */
static void test_dynamic_inputs(void **state)
{
    hd_error err = {0};
    float    first[4] = {0};
    (void)state;
    hd_engine       *e = NULL;
    hd_options const o = {
        .model = FOLDER "/nvfp4-w4a16", .act = HD_ACT_NVFP4, .max_tokens = 256, .chunk = 256};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    pass_bits     got = run_prompt(e, "edge", false);
    const float  *want = source_bits[1].logits;
    int64_t const vocab = e->model.config->n_vocab;
    int64_t const rows = (int64_t)(got.bytes / sizeof(float)) / vocab;
    double const  error = worst_row(got.logits, want, rows, vocab);
    print_message("dynamic W4A4 against exact activations: %.3f\n", error);
    assert_true(error > 1e-3 && error < 1);
    memcpy(first, got.logits, sizeof first);
    free_bits(&got);
    got = run_prompt(e, "edge", false);
    assert_memory_equal(first, got.logits, sizeof first);
    free_bits(&got);
    hd_engine_close(e);
}

/* What a checkpoint is made for: without input scales activations stay as they are. */
static void test_default_act(void **state)
{
    static const struct {
        const char *name;
        hd_act      act;
    } cases[] = {
        {"nvfp4-official", HD_ACT_NVFP4},
        {"ct-nvfp4", HD_ACT_NVFP4},
        {"base", HD_ACT_OFFICIAL},
        {"files-one", HD_ACT_OFFICIAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char             path[256];
        hd_error         err = {0};
        hd_engine_info   info;
        hd_engine       *e = NULL;
        hd_options const o = {.model = path, .max_tokens = 8};
        snprintf(path, sizeof path, FOLDER "/%s", cases[i].name);
        if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
        hd_engine_info_get(e, &info);
        if (info.act != cases[i].act) fail_msg("%s runs %s", path, hd_act_name(info.act));
        hd_engine_close(e);
    }
}

/* A NaN in the embedding of one token: an error where it is read, never token 0; the session
 * without it is as before. */
static void test_nan_embedding(void **state)
{
    static const int32_t good[] = {0, 5, 6}, bad[] = {0, 77, 6};
    hd_error             err = {0};
    hd_sampled           drawn;
    const float         *logits;
    int32_t              scratch[2048];
    (void)state;
    for (hd_act act = HD_ACT_EXACT; act <= HD_ACT_NVFP4; act++) {
        hd_engine *const e = open_engine(FOLDER "/nan-embedding", act, 16, 16);
        hd_session      *s = NULL;
        assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
        for (int round = 0; round < 3; round++) {
            bool const is_bad = round == 1;
            hd_session_reset(s);
            assert_int_equal(hd_session_eval(s, is_bad ? bad : good, 3, NULL), HD_OK);
            assert_int_equal(hd_session_logits(s, &logits, NULL), HD_OK);
            hd_status const got =
                hd_sample(&drawn, &(hd_sampling){0},
                          &(hd_draw){.logits = logits, .n = 2048, .scratch = scratch}, &err);
            assert_int_equal(got, is_bad ? HD_ERR_NUMERIC : HD_OK);
        }
        assert_non_null(strstr(err.message, "logit 0 of 2048 is "));
        hd_session_close(s);
        hd_engine_close(e);
    }
}

/* An indexer that takes 8 rows of 4 tokens and one that takes all: the same bits while there are
 * no more than 8 rows, up to position 34, and not for ever after. */
static void test_select_all(void **state)
{
    enum { SAME = 4 * 8 + 3 };
    (void)state;
    hd_engine *const e = open_family(FOLDER "/config-select-all", HD_ISA_REF, &(log_text){0});
    pass_bits        got = run_prompt(e, "edge", false);
    size_t const     row = (size_t)e->model.config->n_vocab * sizeof(float);
    assert_memory_equal(got.logits, source_bits[1].logits, SAME * row);
    assert_memory_not_equal(got.logits, source_bits[1].logits, got.bytes);
    free_bits(&got);
    hd_engine_close(e);
}

/* ---- refusals ---- */

typedef struct bad_folder {
    const char *name;
    hd_status   code;
    const char *message; /* the whole of it, or for config.json its end */
} bad_folder;

static const bad_folder bad_folders[] = {
    {"bad-one-input-scale", HD_ERR_FORMAT,
     "layers.1.ffn.experts.5.w2 lacks its input_scale, expert 0 has one"},
    {"bad-dead-experts", HD_ERR_NUMERIC,
     "4 unusable input scales, the first is tensor layers.0.ffn.experts.1.w1.input_scale in "
     "model-00003-of-00004.safetensors: 1.00053e-42, wanted a positive, normal number"},
    {"bad-global-scale-gone", HD_ERR_FORMAT,
     "tensor layers.2.ffn.experts.3.w1.weight_scale_2 is missing from " FOLDER
     "/bad-global-scale-gone: wanted F32 [] beside NVFP4 block scales"},
    {"bad-mixed-experts", HD_ERR_UNSUPPORTED,
     "layers.1.ffn.experts.6.w3 is NVFP4, expert 0 is MXFP4"},
    {"bad-mixed-gate-up", HD_ERR_UNSUPPORTED,
     "layers.1.ffn.experts.0.w3 is NVFP4, its w1 is MXFP4"},
    {"bad-bias-gone", HD_ERR_FORMAT,
     "tensor layers.3.ffn.gate.bias is missing from " FOLDER
     "/bad-bias-gone: wanted F32, BF16 or F16 [8]"},
    {"bad-extra", HD_ERR_FORMAT,
     "tensor layers.2.attn.wq_c.weight in model-00002-of-00004.safetensors is unexpected: found "
     "F32 [], wanted none"},
    {"bad-block-scale", HD_ERR_NUMERIC,
     "tensor layers.2.ffn.experts.3.w1.weight_scale in model-00004-of-00004.safetensors: block "
     "scale 59 is 0x7f (NaN)"},
    {"bad-router-id", HD_ERR_FORMAT,
     "tensor layers.0.ffn.gate.tid2eid in model-00001-of-00004.safetensors: element 6143 is 8, "
     "wanted 0 .. 7"},
    {"bad-norm-nan", HD_ERR_NUMERIC,
     "tensor layers.2.attn.kv_norm.weight in model-00002-of-00004.safetensors: element 500 is nan"},
    {"bad-v41", HD_ERR_UNSUPPORTED, "deepseek_v41"},
    {"bad-model-type", HD_ERR_UNSUPPORTED, "llama"},
    {"bad-architecture", HD_ERR_UNSUPPORTED, "LlamaForCausalLM"},
};
#define N_BAD ((int32_t)(sizeof bad_folders / sizeof bad_folders[0]))

static void test_bad(void **state)
{
    const bad_folder *const b = *state;
    char                    path[256];
    hd_error                err = {0};
    hd_engine              *e = NULL;
    hd_options const        o = {.model = path, .max_tokens = 8};
    snprintf(path, sizeof path, FOLDER "/%s", b->name);
    assert_int_equal(hd_engine_open(&e, &o, &err), b->code);
    assert_null(e);
    assert_int_equal(err.code, b->code);
    if (!strchr(b->message, ' '))
        assert_non_null(strstr(err.message, b->message));
    else
        assert_string_equal(err.message, b->message);
}

/* Who trusts a checkpoint, or only asks what it takes, reads no block scales. */
static void test_trusted(void **state)
{
    hd_engine       *e = NULL;
    hd_memory_use    use;
    hd_error         err = {0};
    hd_options const o = {.model = FOLDER "/bad-block-scale", .max_tokens = 8, .is_trusted = true};
    (void)state;
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    hd_engine_close(e);
    hd_options const asks = {.model = FOLDER "/bad-block-scale"};
    if (hd_engine_measure(&asks, &(int32_t){8}, 1, &use, &err) != HD_OK)
        fail_msg("%s", err.message);
}

/* All dead experts are listed, not only the first. */
static void test_dead_experts_listed(void **state)
{
    static log_text          log;
    static const char *const lines[] = {
        "layers.0.ffn.experts.1.w1.input_scale in model-00003-of-00004.safetensors is 1.00053e-42",
        "layers.0.ffn.experts.2.w1.input_scale in model-00003-of-00004.safetensors is 0",
        "layers.2.ffn.experts.3.w3.input_scale in model-00004-of-00004.safetensors is inf",
        "layers.3.ffn.experts.7.w2.input_scale in model-00004-of-00004.safetensors is nan",
    };
    hd_engine       *e = NULL;
    hd_options const o = {.model = FOLDER "/bad-dead-experts", .log = keep_line, .user = &log};
    (void)state;
    log = (log_text){0};
    assert_int_equal(hd_engine_open(&e, &o, NULL), HD_ERR_NUMERIC);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(count_text(log.text, lines[i]), 1);
    assert_int_equal(count_text(log.text, "no usable input scale"), 4);
}

/* ---- all ---- */

static int make_families(void **state)
{
    static const char command[] =
        "python=build/venv/bin/python3; [ -x $python ] || python=python3; "
        "$python scripts/make_families.py " FOLDER;
    (void)state;
    if (system(command) != 0) fail_msg("cannot make the families in " FOLDER);
    golden_open(&golden, "tiny512-official");
    static log_text  log;
    hd_engine *const e = open_family(SOURCE, HD_ISA_REF, &log);
    for (int i = 0; i < N_PROMPTS; i++) source_bits[i] = run_prompt(e, prompts[i], true);
    check_values(e, true, N_PROMPTS);
    hd_engine_close(e);
    return 0;
}

static int free_families(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROMPTS; i++) free_bits(&source_bits[i]);
    hd_st_close(&golden);
    return 0;
}

#define N_OTHERS 6

int main(void)
{
    struct CMUnitTest tests[N_FAMILIES + N_BAD + N_OTHERS] = {
        cmocka_unit_test(test_default_act),   cmocka_unit_test(test_dynamic_inputs),
        cmocka_unit_test(test_nan_embedding), cmocka_unit_test(test_dead_experts_listed),
        cmocka_unit_test(test_select_all),    cmocka_unit_test(test_trusted)};
    for (int32_t i = 0; i < N_FAMILIES; i++)
        tests[N_OTHERS + i] = (struct CMUnitTest){families[i].name, test_family, NULL, NULL,
                                                  (void *)(uintptr_t)&families[i]};
    for (int32_t i = 0; i < N_BAD; i++)
        tests[N_OTHERS + N_FAMILIES + i] = (struct CMUnitTest){
            bad_folders[i].name, test_bad, NULL, NULL, (void *)(uintptr_t)&bad_folders[i]};
    return cmocka_run_group_tests(tests, make_families, free_families);
}
