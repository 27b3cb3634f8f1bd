#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/audit_parts.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/tensor_take.h"

/* An input or a tensor of this largest magnitude has the NVFP4 scale 1. */
#define AMAX_OF_SCALE (HD_E2M1_MAX * HD_E4M3_MAX)

/* Blocks at the largest scale are told from a share on that the largest weight alone cannot make,
 * and are a warning from one on that no distribution of weights makes either. */
#define SOME       0.01
#define MANY       0.1
#define SOME_LEAST 16
#define MANY_LEAST 100

/* No weight of a working model is as large, nor a whole matrix as small. */
#define LARGEST_WEIGHT   1e4
#define SMALLEST_LARGEST 1e-8

/* Four-bit weights are about 0.1 away from what they were made of. */
#define LARGE_ERROR 0.25

static hd_finding_head about(const hd_audit *a, hd_severity s, const char *kind, const hd_tensor *t)
{
    return (hd_finding_head){s, kind, t->st.name, hd_audit_file(&a->model, t)};
}

/* "tensor NAME in FILE: n of total WHAT, the first is number i". */
static void add_tally(hd_audit *a, hd_finding_head head, hd_tally t, int64_t total,
                      const char *what)
{
    if (t.n == 0) return;
    hd_findings_add(&a->findings, &head,
                    "tensor %s in %s: %" PRId64 " of %" PRId64 " %s, the first is number %" PRId64,
                    head.tensor, head.file, t.n, total, what, t.first);
}

/* ---- values and block scales ---- */

static void judge_values(hd_audit *a, const hd_audit_item *it)
{
    const hd_tensor *const w = it->what.w;
    const hd_scan *const   s = &it->scan;
    add_tally(a, about(a, HD_ERROR, "nan", w), s->broken, s->values, "values are NaN or infinite");
    add_tally(a, about(a, HD_ERROR, "table", w), s->outside, s->values,
              "entries are outside their range");
    bool const is_zero = s->values > 0 && s->amax == 0 && it->what.limit == 0;
    if (!is_zero || it->what.format == HD_FMT_NONE || s->lost.n > 0 || s->nan.n > 0) return;
    hd_severity const     severity = it->what.is_wanted ? HD_WARNING : HD_NOTE;
    hd_finding_head const head = about(a, severity, "zero", w);
    hd_findings_add(&a->findings, &head, "tensor %s in %s: all %" PRId64 " weights are 0",
                    w->st.name, head.file, s->values);
}

static bool is_share(hd_tally t, int64_t blocks, double share, int64_t least)
{
    return t.n >= least && (double)t.n >= share * (double)blocks;
}

static void judge_saturated(hd_audit *a, const hd_audit_item *it)
{
    hd_tally const    t = it->scan.saturated;
    int64_t const     blocks = it->scan.blocks;
    hd_severity const s = is_share(t, blocks, MANY, MANY_LEAST) ? HD_WARNING : HD_NOTE;
    if (is_share(t, blocks, SOME, SOME_LEAST))
        add_tally(a, about(a, s, "scale-saturated", it->what.scale), t, blocks,
                  "blocks have the largest scale, 448, and the largest code: cut, perhaps");
}

static void judge_block_scales(hd_audit *a, const hd_audit_item *it)
{
    const hd_tensor *const t = it->what.scale;
    const hd_scan *const   s = &it->scan;
    if (!t || s->blocks == 0) return;
    add_tally(a, about(a, HD_ERROR, "scale-nan", t), s->nan, s->blocks,
              "block scales are NaN or infinite");
    add_tally(a, about(a, HD_ERROR, "scale-negative", t), s->negative, s->blocks,
              "block scales are negative");
    add_tally(a, about(a, HD_WARNING, "scale-zero", t), s->lost, s->blocks,
              "block scales are 0 though the codes are not: these weights vanish");
    hd_severity const by_share =
        is_share(s->denormal, s->blocks, MANY, MANY_LEAST) ? HD_WARNING : HD_NOTE;
    add_tally(a, about(a, by_share, "scale-denormal", t), s->denormal, s->blocks,
              "block scales are denormal: they have fewer digits");
    judge_saturated(a, it);
}

/* ---- scales of whole tensors ---- */

static void judge_tensor_scale(hd_audit *a, const hd_audit_item *it)
{
    const hd_tensor *const t = it->what.tensor_scale;
    if (!t) return;
    double const    stored = (double)hd_take_read(&t->st, 0), x = it->scan.tensor_scale;
    bool const      is_bad = !hd_take_is_scale((float)stored) || !hd_take_is_scale((float)x);
    hd_finding_head head = about(a, is_bad ? HD_ERROR : HD_WARNING, "tensor-scale", t);
    if (is_bad)
        hd_findings_add(&a->findings, &head,
                        "tensor %s in %s is %g, wanted a positive, normal number", t->st.name,
                        head.file, stored);
    else if (x > 1)
        hd_findings_add(&a->findings, &head,
                        "tensor %s in %s is %g, so weights are scaled up by %g: is it a "
                        "reciprocal?",
                        t->st.name, head.file, stored, x);
    if (t->st.dtype == HD_ST_F32) return;
    head = about(a, HD_NOTE, "tensor-scale-dtype", t);
    hd_findings_add(&a->findings, &head,
                    "tensor %s in %s is %s: a program that reads it as F32 gets another number",
                    t->st.name, head.file, hd_st_dtype_name(t->st.dtype));
}

static void judge_input_scale(hd_audit *a, const hd_audit_item *it)
{
    const hd_tensor *const t = it->what.input_scale;
    if (!t || it->what.format != HD_FMT_NVFP4) return;
    double const stored = (double)hd_take_read(&t->st, 0), x = it->scan.input_scale;
    bool const   is_usable = hd_take_is_scale((float)stored) && hd_take_is_scale((float)x);
    if (is_usable && x < 1) return;
    hd_finding_head const head = about(a, is_usable ? HD_NOTE : HD_ERROR, "input-scale", t);
    if (!is_usable)
        hd_findings_add(&a->findings, &head,
                        "tensor %s in %s is %g, wanted a positive, normal number", t->st.name,
                        head.file, stored);
    else
        hd_findings_add(&a->findings, &head,
                        "tensor %s in %s is %g, an input of up to %g: not calibrated, perhaps",
                        t->st.name, head.file, stored, x * AMAX_OF_SCALE);
}

static void judge_range(hd_audit *a, const hd_audit_item *it)
{
    const hd_scanned *const m = &it->what;
    double const            amax = it->scan.amax;
    bool const              is_scaled =
        m->scale && (!m->tensor_scale || hd_take_is_scale((float)it->scan.tensor_scale));
    if (!is_scaled || amax == 0 || (amax <= LARGEST_WEIGHT && amax >= SMALLEST_LARGEST)) return;
    hd_finding_head const head = about(a, HD_WARNING, "range", m->w);
    hd_findings_add(&a->findings, &head,
                    "tensor %s in %s: the largest weight is %g: scales of another convention?",
                    m->w->st.name, head.file, amax);
}

static void judge_difference(hd_audit *a, const hd_audit_item *it)
{
    const hd_difference *const d = &it->difference;
    if (!d->is_known || d->error <= LARGE_ERROR) return;
    hd_finding_head const head = about(a, HD_WARNING, "differs", it->what.w);
    hd_findings_add(&a->findings, &head,
                    "tensor %s in %s: relative error %.4g, cosine %.6f, norm %.4g times the "
                    "other's",
                    it->what.w->st.name, head.file, d->error, d->cosine, d->ratio);
}

static void judge_presence(hd_audit *a, const hd_audit_item *it)
{
    if (!a->has_other || it->difference.is_known || hd_audit_find(&a->other, it->what.name)) return;
    hd_finding_head const head = about(a, HD_NOTE, "only-here", it->what.w);
    hd_findings_add(&a->findings, &head, "tensor %s in %s: nothing to compare it with",
                    it->what.w->st.name, head.file);
}

static void judge_other(hd_audit *a)
{
    for (int64_t i = 0; i < a->other.used; i++) {
        const hd_scanned *const m = &a->other.items[i].what;
        hd_finding_head const   head = {HD_NOTE, "only-there", m->w->st.name, NULL};
        if (hd_audit_find(&a->model, m->name)) continue;
        hd_findings_add(&a->findings, &head, "tensor %s is in %s only", m->w->st.name,
                        hd_checkpoint_folder(a->other.ck));
    }
}

void hd_audit_judge(hd_audit *a)
{
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_audit_item *const it = &a->model.items[i];
        judge_values(a, it);
        judge_block_scales(a, it);
        judge_tensor_scale(a, it);
        judge_input_scale(a, it);
        judge_range(a, it);
        judge_difference(a, it);
        judge_presence(a, it);
    }
    judge_other(a);
}
