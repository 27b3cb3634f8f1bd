#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/audit_parts.h"

const char *hd_severity_name(hd_severity s)
{
    static const char *const names[HD_N_SEVERITIES] = {"note", "warning", "error"};
    return (unsigned)s < HD_N_SEVERITIES ? names[s] : "unknown";
}

static hd_finding_kind *kind_of(hd_findings *f, const char *name)
{
    for (int32_t i = 0; i < f->n_kinds; i++)
        if (strcmp(f->kinds[i].name, name) == 0) return &f->kinds[i];
    if (f->n_kinds == HD_MAX_FINDING_KINDS) return &f->kinds[f->n_kinds - 1];
    f->kinds[f->n_kinds].name = name;
    return &f->kinds[f->n_kinds++];
}

/* Doubles the list; what it held stays when there is no memory. */
static bool grow(hd_findings *f)
{
    int64_t const     cap = f->cap ? 2 * f->cap : 64;
    hd_finding *const list = hd_memory_alloc((size_t)cap * sizeof *list);
    if (!list) return false;
    if (f->used) memcpy(list, f->list, (size_t)f->used * sizeof *list);
    hd_memory_free(f->list);
    f->list = list;
    f->cap = cap;
    return true;
}

static const char *copy(hd_findings *f, const char *text)
{
    const char *const c = text ? hd_pool_copy(&f->pool, text, strlen(text)) : NULL;
    f->failed = f->failed || (text && !c);
    return c;
}

void hd_findings_add(hd_findings *f, const hd_finding_head *head, const char *fmt, ...)
{
    hd_finding_kind *const kind = kind_of(f, head->kind);
    f->n[head->severity]++;
    if (kind->n++ >= HD_MAX_FINDINGS_OF_KIND || f->failed) return;
    if (f->used == f->cap && !grow(f)) {
        f->failed = true;
        return;
    }
    hd_error said = {0}; /* writes hostile bytes harmlessly */
    char     line[sizeof said.message];
    va_list  ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    hd_error_set(&said, HD_ERR_FORMAT, -1, "%s", line);
    kind->kept++;
    f->list[f->used++] = (hd_finding){head->severity, kind->name, copy(f, head->tensor),
                                      copy(f, head->file), copy(f, said.message)};
}

void hd_findings_free(hd_findings *f)
{
    hd_memory_free(f->list);
    hd_pool_free(&f->pool);
    *f = (hd_findings){0};
}
