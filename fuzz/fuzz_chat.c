#include <stdlib.h>
#include <string.h>

#include "hadal.h"

/* A control token spells one, and nothing that a client sent can stand where one ends. */
static void check_prompt(hd_prompt *p)
{
    size_t last = 0;
    if (!p->text || p->text[p->text_bytes] != 0) abort();
    for (size_t i = 0; i < p->n_control; i++) {
        hd_span const s = p->control[i];
        if (s.start < last || s.end <= s.start || s.end > p->text_bytes) abort();
        if (p->text[s.start] != '<' && p->text[s.start] != '\xEF') abort();
        last = s.end;
    }
    hd_prompt_free(p);
}

/* The first byte says how, the rest is the JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *const json = (const char *)data + 1;
    hd_dialect const  dialect = (hd_dialect)((data[0] & 1) | (data[0] >> 3 & 2));
    hd_think const    think = (hd_think)((data[0] >> 1 & 7) % (HD_THINK_ASKED + 1));
    hd_prompt         p = {0};
    hd_error          err = {0};
    if (hd_prompt_render(&p, json, size - 1, dialect, &err) == HD_OK)
        check_prompt(&p);
    else if (p.text || !err.message[0])
        abort();
    if (hd_prompt_chat(&p, json, size - 1, dialect, think, &err) == HD_OK)
        check_prompt(&p);
    else if (p.text || !err.message[0])
        abort();
    return 0;
}
