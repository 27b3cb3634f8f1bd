/* Taking tensors and matrices out of a checkpoint: formats decided by siblings, values decoded
 * by hand, and every refusal with its whole message.  doc/cases.md lists the public faults that are
 * tested here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/st_image.h"
#include "checkpoint/safetensors_write.h"
#include "quant/fp4.h"
#include "weights/tensor_take.h"

#define CONFIG "tests/models/tiny512-official/config.json"
#define MOST   12

/* ---- a checkpoint of a few tensors ---- */

typedef struct made_tensor {
    const char *name;
    hd_st_dtype dtype;
    int32_t     rank;
    int64_t     shape[2];
    const void *data; /* NULL: zeros */
} made_tensor;

typedef struct fixture {
    temp_folder    folder;
    hd_checkpoint *ck;
    hd_weights     weights;
    hd_taker       taker;
    hd_log         log;
    hd_error       err;
    char           said[2048];
} fixture;

static void keep_line(void *user, hd_log_level level, const char *line)
{
    fixture *const f = user;
    size_t const   used = strlen(f->said);
    if (level == HD_LOG_WARNING) snprintf(f->said + used, sizeof f->said - used, "%s\n", line);
}

static void write_tensors(const char *path, const made_tensor *made, int32_t n)
{
    static const char zeros[4096];
    hd_st_tensor      tensors[MOST] = {{0}};
    hd_st_layout      layout = {.tensors = tensors, .n_tensors = n};
    hd_st_writer      w;
    assert_in_range(n, 1, MOST);
    for (int32_t i = 0; i < n; i++) {
        tensors[i] =
            (hd_st_tensor){.name = made[i].name, .dtype = made[i].dtype, .rank = made[i].rank};
        memcpy(tensors[i].shape, made[i].shape, sizeof made[i].shape);
        assert_true(
            hd_st_tensor_bytes(made[i].dtype, made[i].rank, made[i].shape, &tensors[i].bytes));
        assert_in_range(tensors[i].bytes, 0, sizeof zeros);
    }
    assert_int_equal(hd_st_writer_begin(&w, path, &layout, NULL), HD_OK);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(
            hd_st_writer_put(&w, i, made[i].data ? made[i].data : zeros, tensors[i].bytes, NULL),
            HD_OK);
    assert_int_equal(hd_st_writer_commit(&w, NULL), HD_OK);
}

static void open_fixture(fixture *f, const made_tensor *made, int32_t n)
{
    char        path[512];
    size_t      bytes;
    char *const config = read_golden(CONFIG, &bytes);
    *f = (fixture){0};
    temp_folder_make(&f->folder);
    temp_folder_write(&f->folder, "config.json", config, bytes);
    temp_folder_path(&f->folder, "model.safetensors", path, sizeof path);
    free(config);
    write_tensors(path, made, n);
    f->log = (hd_log){.line = keep_line, .user = f};
    if (hd_checkpoint_open(&f->ck, f->folder.path, &f->log, &f->err) != HD_OK)
        fail_msg("%s", f->err.message);
    f->taker = (hd_taker){.ck = f->ck, .weights = &f->weights, .log = &f->log, .err = &f->err};
}

static void close_fixture(fixture *f)
{
    hd_pool_free(&f->weights.pool);
    hd_checkpoint_close(f->ck);
    temp_folder_remove(&f->folder);
}

#define COUNT(made) ((int32_t)(sizeof(made) / sizeof((made)[0])))

/* ---- shorthands for tensors ---- */

#define MATRIX(name, dtype, n, k, data)        \
    {                                          \
        (name), (dtype), 2, {(n), (k)}, (data) \
    }
#define VECTOR(name, dtype, n, data)      \
    {                                     \
        (name), (dtype), 1, {(n)}, (data) \
    }
#define SCALAR(name, data)                \
    {                                     \
        (name), HD_ST_F32, 0, {0}, (data) \
    }

static const float   one = 1, half = 0.5f, zero = 0, tiny = 1e-42f, minus = -1, large = 3e38f;
static const float   not_a_number = NAN, infinite = INFINITY;
static const uint8_t ones[64] = {0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38};
/* Sixteen codes of 6. */
static const uint8_t sixes[8] = {0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77};

/* ---- decoded values ---- */

static void decode_row(const hd_matrix *m, int32_t row, double *out)
{
    const uint8_t *const w = m->w, *const sf = m->sf;
    int64_t const k = m->k;
    if (m->format == HD_FMT_NVFP4)
        hd_nvfp4_decode(w + row * k / 2, sf + row * k / 16, m->scale, 0, m->k, out);
    else
        hd_mxfp4_decode(w + row * k / 2, sf + row * k / 32, 0, m->k, out);
}

static hd_matrix take(fixture *f, const char *name, int32_t n, int32_t k)
{
    hd_matrix m;
    if (hd_take_matrix(&f->taker, name, n, k, &m) != HD_OK) fail_msg("%s", f->err.message);
    assert_int_equal(m.n, n);
    assert_int_equal(m.k, k);
    return m;
}

static hd_matrix check_first(fixture *f, const char *name, const double *want, int32_t n)
{
    double          row[16];
    hd_matrix const m = take(f, name, 1, 16);
    assert_int_equal(m.format, HD_FMT_NVFP4);
    decode_row(&m, 0, row);
    for (int32_t i = 0; i < n; i++)
        if (row[i] != want[i])
            fail_msg("%s: element %d is %g, wanted %g", name, i, row[i], want[i]);
    return m;
}

/* LOAD-05, LOAD-21: gate and up keep their own tensor scales. */
static void test_own_scales(void **state)
{
    static const float  gate_scale = 0x1p-10f, up_scale = 0x1p-12f;
    static const double gate = 0.005859375, up = 0.00146484375, plain = 6;
    const made_tensor   made[] = {
          MATRIX("w1.weight", HD_ST_U8, 1, 8, sixes),
          MATRIX("w1.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
          SCALAR("w1.weight_scale_2", &gate_scale),
          MATRIX("w3.weight", HD_ST_U8, 1, 8, sixes),
          MATRIX("w3.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
          SCALAR("w3.weight_scale_2", &up_scale),
          MATRIX("w2.weight", HD_ST_U8, 1, 8, sixes),
          MATRIX("w2.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
          SCALAR("w2.weight_scale_2", &one),
    };
    fixture f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    check_first(&f, "w1", &gate, 1);
    check_first(&f, "w3", &up, 1);
    check_first(&f, "w2", &plain, 1);
    assert_int_equal(f.weights.n_matrices[HD_FMT_NVFP4], 3);
    assert_string_equal(f.said, "");
    close_fixture(&f);
}

/* LOAD-06, LOAD-08: compressed-tensors' divisors, each its own; low nibble first. */
static void test_divisors(void **state)
{
    static const uint8_t codes[8] = {0x72, 0xF1};
    static const float   d1 = 1024, d2 = 2048, input = 128;
    static const double  first = 0.005859375, second = 0.0029296875;
    static const double  order[] = {4.8828125e-4, 2.9296875e-3, 2.44140625e-4, -2.9296875e-3};
    const made_tensor    made[] = {
           MATRIX("a.weight_packed", HD_ST_U8, 1, 8, sixes),
           MATRIX("a.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
           VECTOR("a.weight_global_scale", HD_ST_F32, 1, &d1),
           MATRIX("b.weight_packed", HD_ST_U8, 1, 8, sixes),
           MATRIX("b.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
           SCALAR("b.weight_global_scale", &d2),
           MATRIX("c.weight_packed", HD_ST_U8, 1, 8, codes),
           MATRIX("c.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
           VECTOR("c.weight_global_scale", HD_ST_F32, 1, &d2),
           VECTOR("c.input_global_scale", HD_ST_F32, 1, &input),
    };
    fixture f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    check_first(&f, "a", &first, 1);
    check_first(&f, "b", &second, 1);
    assert_true(check_first(&f, "c", order, 4).input_scale == 0x1p-7f);
    close_fixture(&f);
}

/* LOAD-09: block scales lie on disk row by row, and stay so. */
static void test_linear_scales(void **state)
{
    enum { ROWS = 128, COLS = 64 };
    static uint8_t    codes[ROWS * COLS / 2], scales[ROWS * COLS / 16];
    const made_tensor made[] = {MATRIX("m.weight", HD_ST_I8, ROWS, COLS / 2, codes),
                                MATRIX("m.weight_scale", HD_ST_F8_E4M3, ROWS, COLS / 16, scales),
                                SCALAR("m.weight_scale_2", &one)};
    fixture           f;
    double            row[COLS];
    (void)state;
    memset(codes, 0x22, sizeof codes);
    memset(scales, 0x38, sizeof scales);
    scales[5 * COLS / 16 + 2] = 0x40;
    open_fixture(&f, made, COUNT(made));
    hd_matrix const m = take(&f, "m", ROWS, COLS);
    for (int32_t r = 0; r < ROWS; r++) {
        decode_row(&m, r, row);
        for (int32_t c = 0; c < COLS; c++)
            assert_true(row[c] == (r == 5 && c >= 32 && c < 48 ? 2 : 1));
    }
    close_fixture(&f);
}

/* LOAD-14: E8M0 by name or as bytes, codes as bytes or as F4. */
static void test_mxfp4(void **state)
{
    static const uint8_t scales[3] = {0x7E, 0x7F, 0x80};
    static uint8_t       codes[48];
    const made_tensor    made[] = {
           MATRIX("a.weight", HD_ST_I8, 3, 16, codes),
           MATRIX("a.scale", HD_ST_F8_E8M0, 3, 1, scales),
           MATRIX("b.weight", HD_ST_U8, 3, 16, codes),
           MATRIX("b.weight_scale", HD_ST_U8, 3, 1, scales),
           MATRIX("c.weight", HD_ST_F4, 3, 32, codes),
           MATRIX("c.scale", HD_ST_F8_E8M0, 3, 1, scales),
    };
    static const char *const names[] = {"a", "b", "c"};
    static const double      want[] = {0.5, 1, 2};
    fixture                  f;
    (void)state;
    memset(codes, 0x22, sizeof codes);
    open_fixture(&f, made, COUNT(made));
    for (int i = 0; i < 3; i++) {
        hd_matrix const m = take(&f, names[i], 3, 32);
        assert_int_equal(m.format, HD_FMT_MXFP4);
        for (int32_t r = 0; r < 3; r++) {
            double row[32];
            decode_row(&m, r, row);
            for (int c = 0; c < 32; c++) assert_true(row[c] == want[r]);
        }
    }
    close_fixture(&f);
}

/* LOAD-20: the tensors say FP8; scales of all dtypes are the same numbers. */
static void test_fp8_scales(void **state)
{
    static const float    wide[2] = {0.5f, 4};
    static const uint16_t brain[2] = {0x3F00, 0x4080}, f16[2] = {0x3800, 0x4400};
    static const uint8_t  power[2] = {126, 129};
    const made_tensor     made[] = {
            MATRIX("a.weight", HD_ST_F8_E4M3, 2, 130, NULL),
            MATRIX("a.scale", HD_ST_F32, 1, 2, wide),
            MATRIX("b.weight", HD_ST_F8_E4M3, 2, 130, NULL),
            MATRIX("b.weight_scale", HD_ST_BF16, 1, 2, brain),
            MATRIX("c.weight", HD_ST_F8_E4M3, 2, 130, NULL),
            MATRIX("c.weight_scale_inv", HD_ST_F16, 1, 2, f16),
            MATRIX("d.weight", HD_ST_F8_E4M3, 2, 130, NULL),
            MATRIX("d.scale", HD_ST_F8_E8M0, 1, 2, power),
            MATRIX("e.weight", HD_ST_F8_E4M3, 2, 130, NULL),
            MATRIX("e.scale", HD_ST_U8, 1, 2, power),
    };
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    fixture                  f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    for (int i = 0; i < 5; i++) {
        hd_matrix const m = take(&f, names[i], 2, 130);
        assert_int_equal(m.format, HD_FMT_FP8);
        assert_memory_equal(m.sf, wide, sizeof wide);
    }
    close_fixture(&f);
}

/* LOAD-18: a router as F32, BF16 or F16, at any address of the file. */
static void test_plain(void **state)
{
    static const float    wide[2] = {1.5f, -2};
    static const uint16_t brain[2] = {0x3FC0, 0xC000}, f16[2] = {0x3E00, 0xC000};
    for (int32_t shift = 0; shift < 4; shift++) {
        const made_tensor made[] = {
            VECTOR("pad", HD_ST_U8, shift, NULL), MATRIX("a.weight", HD_ST_F32, 1, 2, wide),
            MATRIX("b.weight", HD_ST_BF16, 1, 2, brain), MATRIX("c.weight", HD_ST_F16, 1, 2, f16)};
        fixture f;
        (void)state;
        open_fixture(&f, made, COUNT(made));
        hd_matrix const a = take(&f, "a", 1, 2), b = take(&f, "b", 1, 2), c = take(&f, "c", 1, 2);
        assert_int_equal(a.format, HD_FMT_F32);
        assert_int_equal(b.format, HD_FMT_BF16);
        assert_int_equal(c.format, HD_FMT_F32);
        assert_memory_equal(a.w, wide, sizeof wide);
        assert_memory_equal(b.w, brain, sizeof brain);
        assert_memory_equal(c.w, wide, sizeof wide);
        assert_int_equal((uintptr_t)a.w % 4 + (uintptr_t)b.w % 2 + (uintptr_t)c.w % 4, 0);
        close_fixture(&f);
    }
}

/* NUM-02: scalars of any float type are converted, never reinterpreted. */
static void test_scalar_types(void **state)
{
    static const uint16_t brain = 0x3C00, f16 = 0x2000; /* 2^-7 */
    const made_tensor     made[] = {
            MATRIX("a.weight", HD_ST_U8, 1, 8, sixes),
            MATRIX("a.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
            VECTOR("a.weight_scale_2", HD_ST_BF16, 1, &brain),
            VECTOR("a.input_scale", HD_ST_F16, 1, &f16),
            VECTOR("noise", HD_ST_U8, 3, "\xFF\x7F\xFF"),
    };
    fixture f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    hd_matrix const m = take(&f, "a", 1, 16);
    assert_true(m.scale == 0x1p-7f && m.input_scale == 0x1p-7f);
    close_fixture(&f);
}

/* ---- warnings ---- */

static void test_reciprocals(void **state)
{
    static const float multiplier = 2048, divisor = 0.25f;
    const made_tensor  made[] = {
         MATRIX("a.weight", HD_ST_U8, 1, 8, sixes),
         MATRIX("a.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
         SCALAR("a.weight_scale_2", &multiplier),
         MATRIX("b.weight_packed", HD_ST_U8, 1, 8, sixes),
         MATRIX("b.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
         SCALAR("b.weight_global_scale", &divisor),
    };
    fixture f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    take(&f, "a", 1, 16);
    take(&f, "b", 1, 16);
    assert_string_equal(f.said,
                        "tensor a.weight_scale_2 is 2048, so weights are scaled up by 2048: "
                        "is it a reciprocal?\n");
    close_fixture(&f);
    open_fixture(&f, made + 3, 3);
    take(&f, "b", 1, 16);
    assert_string_equal(f.said,
                        "tensor b.weight_global_scale is 0.25, so weights are scaled up by 4:"
                        " is it a reciprocal?\n");
    close_fixture(&f);
}

/* NUM-05: all dead experts are listed, then the load fails. */
static void test_dead_experts(void **state)
{
    static const float *const bad[] = {&tiny, &zero, &infinite, &not_a_number, &minus};
    static const char *const  printed[] = {"1.00053e-42", "0", "inf", "nan", "-1"};
    char                      want[256], name[16];
    fixture                   f;
    (void)state;
    for (int i = 0; i < 5; i++) {
        const made_tensor made[] = {
            MATRIX("e0.weight", HD_ST_U8, 1, 8, sixes),
            MATRIX("e0.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
            SCALAR("e0.weight_scale_2", &half),
            SCALAR("e0.input_scale", bad[i]),
            MATRIX("e1.weight", HD_ST_U8, 1, 8, sixes),
            MATRIX("e1.weight_scale", HD_ST_F8_E4M3, 1, 1, ones),
            SCALAR("e1.weight_scale_2", &half),
            SCALAR("e1.input_scale", bad[i]),
        };
        open_fixture(&f, made, COUNT(made));
        assert_int_equal(hd_take_check_inputs(&f.taker), HD_OK);
        for (int e = 0; e < 2; e++) {
            snprintf(name, sizeof name, "e%d", e);
            take(&f, name, 1, 16);
            snprintf(want, sizeof want,
                     "tensor e%d.input_scale in model.safetensors is %s, no usable input scale\n",
                     e, printed[i]);
            assert_non_null(strstr(f.said, want));
        }
        assert_int_equal(hd_take_check_inputs(&f.taker), HD_ERR_NUMERIC);
        snprintf(
            want, sizeof want,
            "2 unusable input scales, the first is tensor e0.input_scale in model.safetensors: "
            "%s, wanted a positive, normal number",
            printed[i]);
        assert_string_equal(f.err.message, want);
        close_fixture(&f);
    }
}

/* ---- refusals ---- */

typedef struct refusal {
    made_tensor made[4];
    int32_t     n_made, n, k; /* of the matrix "m" */
    hd_status   code;
    const char *message;
} refusal;

#define IN_FILE " in model.safetensors"
#define NVFP4_OF(codes, scales) \
    MATRIX("m.weight", HD_ST_U8, 2, 8, codes), MATRIX("m.weight_scale", HD_ST_F8_E4M3, 2, 1, scales)
#define PACKED_OF(divisor)                                   \
    MATRIX("m.weight_packed", HD_ST_U8, 2, 8, NULL),         \
        MATRIX("m.weight_scale", HD_ST_F8_E4M3, 2, 1, ones), \
        SCALAR("m.weight_global_scale", divisor)
#define FP8_OF(dtype, scale) \
    MATRIX("m.weight", HD_ST_F8_E4M3, 2, 8, NULL), MATRIX("m.scale", dtype, 1, 1, scale)

#define WANTED_NORMAL ", wanted a positive, normal number"
#define BAD_BLOCK(codes, says)                                                               \
    {                                                                                        \
        {NVFP4_OF(NULL, codes), SCALAR("m.weight_scale_2", &one)}, 3, 2, 16, HD_ERR_NUMERIC, \
            "tensor m.weight_scale" IN_FILE ": block scale " says                            \
    }
#define BAD_MULTIPLIER(value, says)                                                          \
    {                                                                                        \
        {NVFP4_OF(NULL, ones), SCALAR("m.weight_scale_2", value)}, 3, 2, 16, HD_ERR_NUMERIC, \
            "tensor m.weight_scale_2" IN_FILE " is " says WANTED_NORMAL                      \
    }
#define BAD_DIVISOR(value, says)                                             \
    {                                                                        \
        {PACKED_OF(value)}, 3, 2, 16, HD_ERR_NUMERIC,                        \
            "tensor m.weight_global_scale" IN_FILE " is " says WANTED_NORMAL \
    }
#define BAD_FP8(dtype, value, says)                       \
    {                                                     \
        {FP8_OF(dtype, value)}, 2, 2, 8, HD_ERR_NUMERIC,  \
            "tensor m.scale" IN_FILE ": scale 0 is " says \
    }

static const refusal scales[] = {
    /* block scales: NaN of both signs, minus zero, a sign */
    BAD_BLOCK("\x38\x7F", "1 is 0x7f (NaN)"),
    BAD_BLOCK("\xFF\x38", "0 is 0xff (NaN)"),
    BAD_BLOCK("\x38\x80", "1 is 0x80 (negative)"),
    BAD_BLOCK("\x38\xB8", "1 is 0xb8 (negative)"),
    {{MATRIX("m.weight", HD_ST_I8, 2, 16, NULL),
      MATRIX("m.scale", HD_ST_F8_E8M0, 2, 1, "\x7F\xFF")},
     2,
     2,
     32,
     HD_ERR_NUMERIC,
     "tensor m.scale" IN_FILE ": scale 1 is 0xff (NaN)"},
#define N_BLOCK_SCALES 5
    /* tensor scales, multipliers and divisors; the reciprocal of the last is denormal */
    BAD_MULTIPLIER(&zero, "0"),
    BAD_MULTIPLIER(&minus, "-1"),
    BAD_MULTIPLIER(&tiny, "1.00053e-42"),
    BAD_MULTIPLIER(&not_a_number, "nan"),
    BAD_MULTIPLIER(&infinite, "inf"),
    BAD_DIVISOR(&infinite, "inf"),
    BAD_DIVISOR(&tiny, "1.00053e-42"),
    BAD_DIVISOR(&large, "3e+38"),
    BAD_FP8(HD_ST_F32, &not_a_number, "nan"),
    BAD_FP8(HD_ST_F32, &infinite, "inf"),
    BAD_FP8(HD_ST_F32, &minus, "-1"),
    BAD_FP8(HD_ST_F8_E8M0, "\xFF", "nan"),
};

static const refusal shapes[] = {
    /* LOAD-10: FP8 where NVFP4 is announced */
    {{MATRIX("m.weight", HD_ST_F8_E4M3, 32, 32, NULL),
      MATRIX("m.weight_scale", HD_ST_F8_E4M3, 32, 2, NULL), SCALAR("m.weight_scale_2", &one)},
     3,
     32,
     32,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found F8_E4M3 [32, 32], wanted U8 (two codes a byte) [32, 16]"},
    {{NVFP4_OF(NULL, ones), SCALAR("m.weight_scale_2", &one)},
     3,
     3,
     16,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found U8 [2, 8], wanted U8 (two codes a byte) [3, 8]"},
    {{NVFP4_OF(NULL, ones), SCALAR("m.weight_scale_2", &one)},
     3,
     2,
     24,
     HD_ERR_FORMAT,
     "matrix m.weight: 24 columns are not whole blocks of 16"},
    {{MATRIX("m.weight", HD_ST_U8, 2, 8, NULL), MATRIX("m.weight_scale", HD_ST_F8_E4M3, 1, 2, ones),
      SCALAR("m.weight_scale_2", &one)},
     3,
     2,
     16,
     HD_ERR_FORMAT,
     "tensor m.weight_scale" IN_FILE ": found F8_E4M3 [1, 2], wanted F8_E4M3 [2, 1]"},
    {{MATRIX("m.weight", HD_ST_U8, 2, 8, NULL), MATRIX("m.weight_scale", HD_ST_U8, 2, 1, ones),
      SCALAR("m.weight_scale_2", &one)},
     3,
     2,
     16,
     HD_ERR_FORMAT,
     "tensor m.weight_scale" IN_FILE ": found U8 [2, 1], wanted F8_E4M3 [2, 1]"},
    /* NUM-04: rows of 29 scales stored as rows of 32 */
    {{MATRIX("m.weight", HD_ST_U8, 1, 232, NULL),
      MATRIX("m.weight_scale", HD_ST_F8_E4M3, 1, 32, ones), SCALAR("m.weight_scale_2", &one)},
     3,
     1,
     464,
     HD_ERR_FORMAT,
     "tensor m.weight_scale" IN_FILE ": found F8_E4M3 [1, 32], wanted F8_E4M3 [1, 29]"},
    {{NVFP4_OF(NULL, ones), VECTOR("m.weight_scale_2", HD_ST_F32, 2, NULL)},
     3,
     2,
     16,
     HD_ERR_FORMAT,
     "tensor m.weight_scale_2" IN_FILE ": found F32 [2], wanted F32 []"},
    {{NVFP4_OF(NULL, ones), VECTOR("m.weight_scale_2", HD_ST_I32, 1, NULL)},
     3,
     2,
     16,
     HD_ERR_FORMAT,
     "tensor m.weight_scale_2" IN_FILE ": found I32 [1], wanted F32 []"},
    {{MATRIX("m.weight", HD_ST_F4, 2, 8, NULL), MATRIX("m.scale", HD_ST_F8_E8M0, 2, 1, ones)},
     2,
     2,
     32,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found F4 [2, 8], wanted F4 [2, 32]"},
    {{MATRIX("m.weight", HD_ST_I8, 2, 16, NULL), MATRIX("m.scale", HD_ST_F8_E8M0, 2, 2, ones)},
     2,
     2,
     32,
     HD_ERR_FORMAT,
     "tensor m.scale" IN_FILE ": found F8_E8M0 [2, 2], wanted F8_E8M0 [2, 1]"},
    {{MATRIX("m.weight", HD_ST_I8, 2, 8, NULL), MATRIX("m.scale", HD_ST_F8_E8M0, 2, 1, ones)},
     2,
     2,
     16,
     HD_ERR_FORMAT,
     "matrix m.weight: 16 columns are not whole blocks of 32"},
    /* a dtype that would be read two bytes at a time, past the end */
    {{FP8_OF(HD_ST_F8_E4M3, ones)},
     2,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.scale" IN_FILE ": found F8_E4M3 [1, 1], wanted F8_E8M0, F32, BF16 or F16 [1, 1]"},
    {{FP8_OF(HD_ST_I64, NULL)},
     2,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.scale" IN_FILE ": found I64 [1, 1], wanted F8_E8M0, F32, BF16 or F16 [1, 1]"},
    /* blocks of 32 x 32, another architecture's */
    {{MATRIX("m.weight", HD_ST_F8_E4M3, 32, 64, NULL),
      MATRIX("m.scale", HD_ST_F8_E8M0, 1, 2, ones)},
     2,
     32,
     64,
     HD_ERR_FORMAT,
     "tensor m.scale" IN_FILE ": found F8_E8M0 [1, 2], wanted F8_E8M0, F32, BF16 or F16 [1, 1]"},
    {{MATRIX("m.weight", HD_ST_F64, 2, 8, NULL)},
     1,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found F64 [2, 8], wanted BF16, F32, F16, F8_E4M3 with scales, or "
     "four-bit codes with scales"},
    {{MATRIX("m.weight", HD_ST_BF16, 8, 2, NULL)},
     1,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found BF16 [8, 2], wanted BF16, F32 or F16 [2, 8]"},
    {{VECTOR("m.weight", HD_ST_BF16, 16, NULL)},
     1,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE ": found BF16 [16], wanted BF16, F32 or F16 [2, 8]"},
    {{MATRIX("m.weight", HD_ST_BF16, 2, 8, NULL), MATRIX("m.scale", HD_ST_F32, 1, 1, &one)},
     2,
     2,
     8,
     HD_ERR_FORMAT,
     "tensor m.weight" IN_FILE " is BF16, yet has scales: m.scale"},
    {{MATRIX("m.weight", HD_ST_F8_E4M3, 2, 8, NULL), MATRIX("m.scale", HD_ST_F32, 1, 1, &one),
      MATRIX("m.weight_scale_inv", HD_ST_F32, 1, 1, &one)},
     3,
     2,
     8,
     HD_ERR_FORMAT,
     "matrix m has both m.scale and m.weight_scale_inv"},
};

static void check_refusals(const refusal *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fixture   f;
        hd_matrix m;
        open_fixture(&f, all[i].made, all[i].n_made);
        if (hd_take_matrix(&f.taker, "m", all[i].n, all[i].k, &m) != all[i].code)
            fail_msg("not refused as %s: %s", hd_status_name(all[i].code), all[i].message);
        assert_string_equal(f.err.message, all[i].message);
        assert_int_equal(f.err.code, all[i].code);
        close_fixture(&f);
    }
}

/* The check reads many bytes at a time: one bad scale at every place of a row of 67. */
static void test_any_place(void **state)
{
    enum { N = 67 };
    static uint8_t    block[N], codes[N * 16];
    char              want[128];
    const made_tensor made[] = {MATRIX("m.weight", HD_ST_U8, 1, 8 * N, codes),
                                MATRIX("m.weight_scale", HD_ST_F8_E4M3, 1, N, block),
                                SCALAR("m.weight_scale_2", &one),
                                MATRIX("x.weight", HD_ST_U8, 1, 16 * N, codes),
                                MATRIX("x.scale", HD_ST_F8_E8M0, 1, N, block)};
    (void)state;
    for (int at = 0; at < N; at++) {
        fixture   f;
        hd_matrix m;
        memset(block, 0x7E, sizeof block);
        block[at] = 0xFF;
        open_fixture(&f, made, COUNT(made));
        assert_int_equal(hd_take_matrix(&f.taker, "m", 1, 16 * N, &m), HD_ERR_NUMERIC);
        snprintf(want, sizeof want,
                 "tensor m.weight_scale" IN_FILE ": block scale %d is 0xff (NaN)", at);
        assert_string_equal(f.err.message, want);
        assert_int_equal(hd_take_matrix(&f.taker, "x", 1, 32 * N, &m), HD_ERR_NUMERIC);
        snprintf(want, sizeof want, "tensor x.scale" IN_FILE ": scale %d is 0xff (NaN)", at);
        assert_string_equal(f.err.message, want);
        close_fixture(&f);
    }
}

/* Trust takes block scales as they are; those of whole tensors are looked at all the same. */
static void test_trust(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        const refusal *const r = &scales[i];
        bool const           is_block = i < N_BLOCK_SCALES;
        fixture              f;
        hd_matrix            m;
        open_fixture(&f, r->made, r->n_made);
        f.taker.is_trusted = true;
        hd_status const got = hd_take_matrix(&f.taker, "m", r->n, r->k, &m);
        if (got != (is_block ? HD_OK : r->code)) fail_msg("%s: %s", r->message, f.err.message);
        close_fixture(&f);
    }
}

static void test_bad_scales(void **state)
{
    (void)state;
    check_refusals(scales, sizeof scales / sizeof scales[0]);
}

static void test_bad_shapes(void **state)
{
    (void)state;
    check_refusals(shapes, sizeof shapes / sizeof shapes[0]);
}

/* LOAD-04: what is missing is missing, whatever memory held; the message ends with the folder
 * and what was wanted. */
static void test_missing(void **state)
{
    static const struct {
        made_tensor made[2];
        int32_t     n_made;
        const char *what, *wanted;
    } cases[] = {
        {{VECTOR("x", HD_ST_U8, 1, NULL)}, 1, "m.weight", "a matrix"},
        {{MATRIX("m.weight", HD_ST_U8, 2, 8, NULL)},
         1,
         "m.scale",
         "scales beside the quantized weight"},
        {{MATRIX("m.weight", HD_ST_F8_E4M3, 2, 16, NULL)},
         1,
         "m.scale",
         "scales beside the quantized weight"},
        {{NVFP4_OF(NULL, ones)}, 2, "m.weight_scale_2", "F32 [] beside NVFP4 block scales"},
        {{MATRIX("m.weight", HD_ST_U8, 2, 8, NULL), SCALAR("m.weight_scale_2", &one)},
         2,
         "m.weight_scale",
         "F8_E4M3 beside the four-bit codes"},
        {{MATRIX("m.weight_packed", HD_ST_U8, 2, 8, NULL),
          MATRIX("m.weight_scale", HD_ST_F8_E4M3, 2, 1, ones)},
         2,
         "m.weight_global_scale",
         "F32 [1] beside weight_packed"},
        {{MATRIX("m.weight_packed", HD_ST_U8, 2, 8, NULL), SCALAR("m.weight_global_scale", &one)},
         2,
         "m.weight_scale",
         "F8_E4M3 beside the four-bit codes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture   f;
        hd_matrix m;
        char      want[256];
        open_fixture(&f, cases[i].made, cases[i].n_made);
        assert_int_equal(hd_take_matrix(&f.taker, "m", 2, 16, &m), HD_ERR_FORMAT);
        snprintf(want, sizeof want, "tensor %s is missing from %s: wanted %s", cases[i].what,
                 f.folder.path, cases[i].wanted);
        assert_string_equal(f.err.message, want);
        close_fixture(&f);
    }
}

static void test_claimed_twice(void **state)
{
    const made_tensor made[] = {MATRIX("m.weight", HD_ST_BF16, 2, 8, NULL),
                                VECTOR("v", HD_ST_F32, 4, NULL)};
    fixture           f;
    hd_matrix         m;
    const float      *v;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    take(&f, "m", 2, 8);
    assert_int_equal(hd_take_matrix(&f.taker, "m", 2, 8, &m), HD_ERR_FORMAT);
    assert_string_equal(f.err.message, "tensor m.weight" IN_FILE " is claimed twice");
    assert_int_equal(hd_take_f32(&f.taker, "v", 0, 4, &v), HD_OK);
    assert_int_equal(hd_take_f32(&f.taker, "v", 0, 4, &v), HD_ERR_FORMAT);
    assert_string_equal(f.err.message, "tensor v" IN_FILE " is claimed twice");
    assert_int_equal(f.weights.bytes, 2 * 8 * 2 + 4 * 4);
    close_fixture(&f);
}

/* ---- vectors ---- */

static void test_vectors(void **state)
{
    static const float    wide[2] = {1.5f, -2};
    static const uint16_t brain[2] = {0x3FC0, 0xC000}, f16[2] = {0x3E00, 0xC000};
    const made_tensor made[] = {VECTOR("a", HD_ST_F32, 2, wide), VECTOR("b", HD_ST_BF16, 2, brain),
                                VECTOR("c", HD_ST_F16, 2, f16), SCALAR("d", wide),
                                MATRIX("e", HD_ST_F32, 1, 2, wide)};
    static const char *const names[] = {"a", "b", "c"};
    const float             *v = NULL;
    fixture                  f;
    (void)state;
    open_fixture(&f, made, COUNT(made));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hd_take_f32(&f.taker, names[i], 0, 2, &v), HD_OK);
        assert_memory_equal(v, wide, sizeof wide);
    }
    assert_int_equal(hd_take_f32(&f.taker, "d", 0, 1, &v), HD_OK);
    assert_true(*v == 1.5f);
    assert_int_equal(hd_take_f32(&f.taker, "e", 1, 2, &v), HD_OK);
    assert_non_null(hd_take_peek(&f.taker, "a", ""));
    assert_null(hd_take_peek(&f.taker, "a", "weight"));
    close_fixture(&f);
}

static void test_bad_vectors(void **state)
{
    static const float wrong[3] = {1, INFINITY, NAN};
    static const struct {
        made_tensor made;
        int64_t     rows, cols;
        hd_status   code;
        const char *message;
    } cases[] = {
        {VECTOR("v", HD_ST_F32, 3, wrong), 0, 3, HD_ERR_NUMERIC,
         "tensor v" IN_FILE ": element 1 is inf"},
        {VECTOR("v", HD_ST_F32, 3, NULL), 0, 4, HD_ERR_FORMAT,
         "tensor v" IN_FILE ": found F32 [3], wanted F32, BF16 or F16 [4]"},
        {VECTOR("v", HD_ST_F32, 4, NULL), 2, 2, HD_ERR_FORMAT,
         "tensor v" IN_FILE ": found F32 [4], wanted F32, BF16 or F16 [2, 2]"},
        {MATRIX("v", HD_ST_F32, 4, 1, NULL), 0, 4, HD_ERR_FORMAT,
         "tensor v" IN_FILE ": found F32 [4, 1], wanted F32, BF16 or F16 [4]"},
        {VECTOR("v", HD_ST_F64, 4, NULL), 0, 4, HD_ERR_FORMAT,
         "tensor v" IN_FILE ": found F64 [4], wanted F32, BF16 or F16 [4]"},
        {SCALAR("v", &one), 0, 2, HD_ERR_FORMAT,
         "tensor v" IN_FILE ": found F32 [], wanted F32, BF16 or F16 [2]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture      f;
        const float *v = NULL;
        open_fixture(&f, &cases[i].made, 1);
        assert_int_equal(hd_take_f32(&f.taker, "v", cases[i].rows, cases[i].cols, &v),
                         cases[i].code);
        assert_string_equal(f.err.message, cases[i].message);
        close_fixture(&f);
    }
}

/* NUM-13: entries of the routing table are experts. */
static void test_tables(void **state)
{
    static const int64_t wide[4] = {0, 3, 1, 2}, beyond[4] = {0, 1, 4, 0};
    static const int64_t wraps[4] = {0, 0, 0, INT64_C(0x100000001)};
    static const int32_t narrow[4] = {0, 3, 1, 2}, below[4] = {0, 1, 2, -1};
    static const struct {
        made_tensor made;
        const char *message; /* NULL: taken */
    } cases[] = {
        {MATRIX("t", HD_ST_I64, 2, 2, wide), NULL},
        {MATRIX("t", HD_ST_I32, 2, 2, narrow), NULL},
        {MATRIX("t", HD_ST_I64, 2, 2, beyond),
         "tensor t" IN_FILE ": element 2 is 4, wanted 0 .. 3"},
        {MATRIX("t", HD_ST_I64, 2, 2, wraps),
         "tensor t" IN_FILE ": element 3 is 4294967297, wanted 0 .. 3"},
        {MATRIX("t", HD_ST_I32, 2, 2, below),
         "tensor t" IN_FILE ": element 3 is -1, wanted 0 .. 3"},
        {MATRIX("t", HD_ST_U8, 2, 2, NULL),
         "tensor t" IN_FILE ": found U8 [2, 2], wanted I64 or I32 [2, 2]"},
        {MATRIX("t", HD_ST_I64, 1, 4, wide),
         "tensor t" IN_FILE ": found I64 [1, 4], wanted I64 or I32 [2, 2]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture        f;
        const int32_t *t = NULL;
        open_fixture(&f, &cases[i].made, 1);
        hd_status const got = hd_take_i32(&f.taker, "t", 2, 2, 4, &t);
        assert_int_equal(got, cases[i].message ? HD_ERR_FORMAT : HD_OK);
        if (cases[i].message)
            assert_string_equal(f.err.message, cases[i].message);
        else
            assert_memory_equal(t, narrow, sizeof narrow);
        close_fixture(&f);
    }
}

/* ---- short memory ---- */

static void test_short_memory(void **state)
{
    static const uint16_t brain[2] = {0x3FC0, 0xC000};
    const made_tensor     made[] = {
            VECTOR("v", HD_ST_BF16, 2, brain), MATRIX("i", HD_ST_I64, 1, 2, NULL),
            MATRIX("m.weight", HD_ST_F16, 1, 2, NULL), MATRIX("q.scale", HD_ST_F32, 1, 1, &one),
            MATRIX("q.weight", HD_ST_F8_E4M3, 1, 2, NULL)};
    static const char *const names[] = {"v", "i", "m.weight", "q.scale"};
    for (int i = 0; i < 4; i++) {
        fixture        f;
        hd_matrix      m;
        const float   *v;
        const int32_t *t;
        char           want[64];
        (void)state;
        open_fixture(&f, made, COUNT(made));
        hd_memory_fail_at(1);
        hd_status const got = i == 0   ? hd_take_f32(&f.taker, "v", 0, 2, &v)
                              : i == 1 ? hd_take_i32(&f.taker, "i", 1, 2, 8, &t)
                                       : hd_take_matrix(&f.taker, i == 2 ? "m" : "q", 1, 2, &m);
        hd_memory_fail_at(0);
        assert_int_equal(got, HD_ERR_MEMORY);
        snprintf(want, sizeof want, "no memory for tensor %s", names[i]);
        assert_string_equal(f.err.message, want);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_scales),    cmocka_unit_test(test_divisors),
        cmocka_unit_test(test_linear_scales), cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_fp8_scales),    cmocka_unit_test(test_plain),
        cmocka_unit_test(test_scalar_types),  cmocka_unit_test(test_reciprocals),
        cmocka_unit_test(test_dead_experts),  cmocka_unit_test(test_bad_scales),
        cmocka_unit_test(test_trust),         cmocka_unit_test(test_any_place),
        cmocka_unit_test(test_bad_shapes),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_claimed_twice), cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bad_vectors),   cmocka_unit_test(test_tables),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
