#include "tokenizer/tokenizer.h"

static hd_status append_gap(const hd_prompt *p, const hd_tokenizer *t, hd_span gap,
                            hd_bpe_scratch *scratch, hd_ids *out, hd_error *err)
{
    hd_text const text = {p->text + gap.start, gap.end - gap.start, gap.start, false};
    return hd_tokenizer_append(t, &text, scratch, out, err);
}

static hd_status append_control(const hd_prompt *p, const hd_tokenizer *t, hd_span span,
                                hd_ids *out, hd_error *err)
{
    size_t const  bytes = span.end - span.start;
    int32_t const id = hd_tokenizer_control_id(t, p->text + span.start, bytes);
    if (id < 0)
        return hd_error_set(err, HD_ERR_FORMAT, (int64_t)span.start,
                            "prompt: \"%.*s\" at offset %zu is no control token of this tokenizer",
                            bytes < 100 ? (int)bytes : 100, p->text + span.start, span.start);
    hd_ids_add(out, id);
    return HD_OK;
}

static hd_status append_prompt(const hd_prompt *p, const hd_tokenizer *t, hd_bpe_scratch *scratch,
                               hd_ids *out, hd_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < p->n_control; i++) {
        hd_span const span = p->control[i];
        if (span.start < at || span.end <= span.start || span.end > p->text_bytes)
            HD_FAIL(err, HD_ERR_INVALID,
                    "prompt: control range %zu is [%zu, %zu): want it in [%zu, %zu)", i, span.start,
                    span.end, at, p->text_bytes);
        HD_TRY(append_gap(p, t, (hd_span){at, span.start}, scratch, out, err));
        HD_TRY(append_control(p, t, span, out, err));
        at = span.end;
    }
    return append_gap(p, t, (hd_span){at, p->text_bytes}, scratch, out, err);
}

hd_status hd_prompt_encode(const hd_prompt *p, const hd_tokenizer *t, int32_t *ids, int32_t cap,
                           int32_t *n, hd_error *err)
{
    if (!p || !t || !n || (!p->text && p->text_bytes) || (!p->control && p->n_control))
        HD_FAIL(err, HD_ERR_INVALID, "prompt: nothing to encode");
    hd_ids out;
    HD_TRY(hd_ids_start(&out, ids, cap, p->text_bytes, err));
    hd_bpe_scratch  scratch = {0};
    hd_status const s = append_prompt(p, t, &scratch, &out, err);
    hd_bpe_scratch_free(&scratch);
    HD_TRY(s);
    return hd_ids_finish(&out, n, err);
}
