#include "cli/prompt_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

void hd_prompt_ids_list(hd_prompt_ids *p, hd_option question[HD_N_QUESTION_OPTIONS],
                        hd_option template_options[HD_N_TEMPLATE_OPTIONS])
{
    hd_question_list(&p->question, question);
    hd_question_list_template(&p->question, template_options);
}

bool hd_prompt_ids_is_given(const hd_prompt_ids *p)
{
    const hd_question *const q = &p->question;
    return p->text || q->text || q->messages || q->system || q->is_raw || q->think >= 0 ||
           q->dialect >= 0;
}

int hd_prompt_ids_check(const hd_prompt_ids *p, const char *verb)
{
    const hd_question *const q = &p->question;
    if (!p->text) return hd_question_check(q, verb);
    if (q->text || q->messages || q->system || q->is_raw || q->think >= 0 || q->dialect >= 0)
        return hd_cli_misuse(verb, "--ids is the whole prompt: no other option makes one");
    return -1;
}

/* The range of ids is the model's and is checked there. */
static hd_status read_ids(const char *text, hd_asked *out, hd_error *err)
{
    size_t n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    out->ids = hd_memory_alloc(n * sizeof *out->ids);
    if (!out->ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu ids", n);
    for (const char *p = text; (size_t)out->n < n; p++) {
        char        *end = NULL;
        size_t const bytes = strcspn(p, ",");
        errno = 0;
        long const id = strtol(p, &end, 10);
        if (bytes == 0 || *p < '0' || *p > '9' || end != p + bytes || errno || id > INT32_MAX)
            HD_FAIL(err, HD_ERR_INVALID, "--ids: '%.*s' is no token id", (int)bytes, p);
        out->ids[out->n++] = (int32_t)id;
        p = end;
    }
    return HD_OK;
}

/* The template's dialect and the tokenizer are the engine's, but how long its only pass will be
 * is known after the prompt: a first engine of the smallest size encodes it. */
static hd_status encode_question(hd_prompt_ids *p, const hd_model_options *model, hd_error *err)
{
    hd_model_options small = *model;
    hd_engine       *e = NULL;
    hd_screen        silent = {.is_quiet = true, .percent = -1};
    small.context = 1;
    small.chunk = 1;
    HD_TRY(hd_question_read(&p->question, &p->source, err));
    HD_TRY(hd_model_options_open(&small, &silent, &e, err));
    hd_status const s = hd_question_encode(&p->question, &p->source, e, &p->asked, err);
    hd_engine_close(e);
    if (s == HD_OK && p->asked.n == 0) HD_FAIL(err, HD_ERR_INVALID, "an empty prompt");
    return s;
}

hd_status hd_prompt_ids_read(hd_prompt_ids *p, const hd_model_options *model, hd_error *err)
{
    return p->text ? read_ids(p->text, &p->asked, err) : encode_question(p, model, err);
}

void hd_prompt_ids_free(hd_prompt_ids *p)
{
    hd_asked_free(&p->asked);
    hd_buffer_free(&p->source);
}
