#include "weights/take_survey.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- siblings ---- */

static const struct {
    const char *suffix;
    size_t      field;
} sibling_kinds[] = {
    {"weight", offsetof(hd_siblings, weight)},
    {"weight_packed", offsetof(hd_siblings, packed)},
    {"scale", offsetof(hd_siblings, scale)},
    {"weight_scale", offsetof(hd_siblings, scale)},
    {"weight_scale_inv", offsetof(hd_siblings, scale)},
    {"weight_scale_2", offsetof(hd_siblings, scale_2)},
    {"weight_global_scale", offsetof(hd_siblings, global_scale)},
    {"input_scale", offsetof(hd_siblings, input_scale)},
    {"input_global_scale", offsetof(hd_siblings, input_global_scale)},
};

/* Keeps the first of a kind.  Returns it when there is one already, else NULL. */
static hd_tensor *add_sibling(hd_siblings *s, const char *suffix, hd_tensor *t)
{
    for (size_t i = 0; i < sizeof sibling_kinds / sizeof sibling_kinds[0]; i++) {
        if (strcmp(suffix, sibling_kinds[i].suffix) != 0) continue;
        hd_tensor **const field = (hd_tensor **)(void *)((char *)s + sibling_kinds[i].field);
        if (*field) return *field;
        *field = t;
    }
    return NULL;
}

/* They are neighbours by name, so one search finds them all. */
hd_status hd_siblings_find(hd_taker *k, const char *name, hd_siblings *s)
{
    char      prefix[HD_NAME_MAX];
    hd_status status = HD_OK;
    *s = (hd_siblings){.weight = NULL};
    hd_survey_blame(k, HD_FAULT_SIBLINGS, name, "", NULL);
    int const n = snprintf(prefix, sizeof prefix, "%s.", name);
    if (n < 0 || (size_t)n >= sizeof prefix) return HD_OK;
    hd_tensor *t;
    for (int32_t at = -1; (t = hd_checkpoint_next(k->ck, prefix, &at));) {
        const hd_tensor *const first = add_sibling(s, t->name + n, t);
        if (first && status == HD_OK)
            status = hd_error_set(k->err, HD_ERR_FORMAT, -1, "matrix %s has both %s and %s", name,
                                  first->st.name, t->st.name);
    }
    return status;
}

/* ---- telling ---- */

void hd_survey_blame(hd_taker *k, hd_fault_kind kind, const char *tensor, const char *suffix,
                     const char *file)
{
    if (!k->survey) return;
    k->fault = kind;
    k->fault_file = file;
    snprintf(k->fault_tensor, sizeof k->fault_tensor, "%s%s%s", tensor, *suffix ? "." : "", suffix);
}

hd_status hd_survey_fault(hd_taker *k, hd_status s)
{
    if (s == HD_OK || s == HD_ERR_MEMORY || !k->survey) return s;
    hd_fault const f = {k->fault, k->fault_tensor, k->fault_file, k->err->message};
    k->survey->fault(k->survey->user, &f);
    return HD_OK;
}

hd_status hd_survey_values(const hd_taker *k, hd_tensor *t, int32_t limit)
{
    k->survey->values(k->survey->user, t, limit);
    return HD_OK;
}

static void tell_matrix(const hd_taker *k, const char *name, const hd_siblings *s,
                        const hd_matrix *m)
{
    bool const            is_divisor = s->packed != NULL;
    hd_found_matrix const found = {
        .name = name,
        .format = m->format,
        .n = m->n,
        .k = m->k,
        .w = is_divisor ? s->packed : s->weight,
        .scale = s->scale,
        .tensor_scale = is_divisor ? s->global_scale : s->scale_2,
        .input_scale = is_divisor ? s->input_global_scale : s->input_scale,
        .is_divisor = is_divisor,
        .is_wanted = k->is_wanted,
    };
    k->survey->matrix(k->survey->user, &found);
}

/* Tensors that make no matrix are told one by one, so that none is looked at by nobody. */
static void tell_siblings(const hd_taker *k, const char *name)
{
    for (size_t i = 0; i < sizeof sibling_kinds / sizeof sibling_kinds[0]; i++) {
        hd_tensor *const t = hd_take_peek(k, name, sibling_kinds[i].suffix);
        if (!t) continue;
        t->ticked = 1;
        k->survey->values(k->survey->user, t, 0);
    }
}

hd_status hd_survey_matrix(hd_taker *k, const char *name, const hd_siblings *s, hd_status status,
                           hd_matrix *m)
{
    if (status == HD_OK) {
        tell_matrix(k, name, s, m);
        return HD_OK;
    }
    HD_TRY(hd_survey_fault(k, status));
    tell_siblings(k, name);
    *m = (hd_matrix){0};
    return HD_OK;
}
