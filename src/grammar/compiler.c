#include "grammar/compiler.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grammar/schema_value.h"

void hd_compiler_free(hd_compiler *c)
{
    hd_pool_free(&c->pool);
    hd_state_sets_free(&c->pointers);
    hd_buffer_free(&c->schemas);
    hd_state_sets_free(&c->keys);
    hd_buffer_free(&c->requests);
    hd_buffer_free(&c->own);
    hd_nfa_free(&c->nfa);
}

hd_status hd_compiler_fail_memory(const hd_compiler *c)
{
    HD_FAIL(c->err, HD_ERR_MEMORY, "grammar: no memory for the schema");
}

const char *hd_compiler_text(hd_compiler *c, const char *fmt, ...)
{
    hd_buffer text = {0};
    char      line[1024];
    va_list   ap;
    va_start(ap, fmt);
    int const n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    /* Longer paths are cut: they are only shown. */
    if (n >= 0) hd_buffer_add(&text, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    const char *const copy = text.failed ? NULL : hd_pool_copy(&c->pool, text.data, text.used);
    hd_buffer_free(&text);
    return copy;
}

/* ---- rules on request ---- */

static hd_status declare(hd_compiler *c, uint32_t *rule)
{
    *rule = hd_automaton_declare(c->a);
    if (*rule == HD_NO_RULE && c->a->n_rules == HD_MAX_RULES)
        HD_FAIL(c->err, HD_ERR_LIMIT, "grammar: more than %u rules", HD_MAX_RULES);
    return *rule == HD_NO_RULE ? hd_compiler_fail_memory(c) : HD_OK;
}

static uint32_t *rules_of(const hd_compiler *c) { return (uint32_t *)(void *)c->requests.data; }

hd_status hd_compiler_rule(hd_compiler *c, hd_rule_kind kind, const uint32_t *key, size_t n,
                           uint32_t *rule)
{
    uint32_t const  n_known = c->keys.n;
    uint32_t *const whole = hd_memory_alloc((n + 1) * sizeof *whole);
    if (!whole) return hd_compiler_fail_memory(c);
    whole[0] = kind;
    if (n) memcpy(whole + 1, key, n * sizeof *key);
    uint32_t const number = hd_state_sets_put(&c->keys, whole, n + 1);
    hd_memory_free(whole);
    if (number == HD_NO_SET) return hd_compiler_fail_memory(c);
    if (number == n_known) {
        uint32_t made;
        HD_TRY(declare(c, &made));
        hd_buffer_add(&c->requests, &made, sizeof made);
        if (c->requests.failed) return hd_compiler_fail_memory(c);
    }
    *rule = rules_of(c)[number];
    return HD_OK;
}

/* ---- writing ---- */

/* A newline may be followed by so many blanks: any indentation, but not blanks without end. */
#define MAX_INDENT 64

static hd_status write_space(hd_compiler *c)
{
    hd_nfa *const n = &c->nfa;
    uint32_t      at = hd_nfa_state(n);
    hd_nfa_range(n, HD_NFA_START, ' ', ' ', HD_NFA_END);
    hd_nfa_range(n, HD_NFA_START, '\n', '\n', at);
    for (int i = 0; i < MAX_INDENT; i++) {
        uint32_t const next = hd_nfa_state(n);
        hd_nfa_skip(n, at, HD_NFA_END);
        hd_nfa_range(n, at, ' ', ' ', next);
        hd_nfa_range(n, at, '\t', '\t', next);
        at = next;
    }
    hd_nfa_skip(n, at, HD_NFA_END);
    return HD_OK;
}

static hd_status write_close(hd_compiler *c)
{
    hd_nfa_text(&c->nfa, HD_NFA_START, "</", 2, HD_NFA_END);
    return HD_OK;
}

static hd_status write_rule(hd_compiler *c, hd_rule_kind kind, const uint32_t *key, size_t n,
                            hd_rule_shape *shape, const char **path)
{
    hd_parts parts = {0};
    *shape = (hd_rule_shape){.is_container = kind == HD_RULE_OBJECT || kind == HD_RULE_LIST,
                             .max = HD_COUNT_ANY};
    if (kind >= HD_RULE_OBJECT) {
        HD_TRY(hd_parts_from_key(c, key, n, &parts));
        *path = hd_parts_path(c, &parts);
    }
    switch (kind) {
    case HD_RULE_SPACE: return write_space(c);
    case HD_RULE_CLOSE: return write_close(c);
    case HD_RULE_TEXT:
    case HD_RULE_RAW: shape->min = key[0], shape->max = key[1]; return hd_text_rule(c, kind, key);
    case HD_RULE_NUMBER: return hd_number_rule(c);
    case HD_RULE_OBJECT: return hd_object_rule(c, &parts, shape);
    case HD_RULE_LIST: return hd_list_rule(c, &parts, shape);
    case HD_RULE_PARAMETERS: return hd_parameters_rule(c, &parts);
    }
    return HD_OK;
}

/* The key is copied: asking for rules moves the keys. */
static hd_status write_request(hd_compiler *c, uint32_t number)
{
    size_t                n;
    const uint32_t *const key = hd_state_sets_get(&c->keys, number, &n);
    uint32_t *const       copy = hd_pool_alloc(&c->pool, n * sizeof *copy);
    hd_rule_shape         shape;
    const char           *path = c->root_path;
    if (!copy) return hd_compiler_fail_memory(c);
    memcpy(copy, key, n * sizeof *copy);
    hd_nfa_begin(&c->nfa);
    HD_TRY(write_rule(c, (hd_rule_kind)copy[0], copy + 1, n - 1, &shape, &path));
    return hd_automaton_define(c->a, rules_of(c)[number], &c->nfa, shape, path, c->err);
}

hd_status hd_compiler_write(hd_compiler *c)
{
    for (; c->n_done < c->keys.n; c->n_done++) HD_TRY(write_request(c, c->n_done));
    return HD_OK;
}

/* ---- rules without a key ---- */

typedef struct own_rule {
    uint32_t    rule;
    const char *path; /* borrowed from the pool or constant */
} own_rule;

hd_status hd_compiler_begin(hd_compiler *c, uint32_t *rule)
{
    HD_TRY(declare(c, rule));
    hd_nfa_begin(&c->nfa);
    return HD_OK;
}

hd_status hd_compiler_end(hd_compiler *c, uint32_t rule, const char *path)
{
    own_rule const      own = {rule, path};
    hd_rule_shape const shape = {.max = HD_COUNT_ANY};
    hd_buffer_add(&c->own, &own, sizeof own);
    if (c->own.failed) return hd_compiler_fail_memory(c);
    return hd_automaton_define(c->a, rule, &c->nfa, shape, path, c->err);
}

hd_status hd_compiler_finish(hd_compiler *c)
{
    const own_rule *const own = (const own_rule *)(const void *)c->own.data;
    HD_TRY(hd_automaton_finish(c->a, c->err));
    for (size_t i = 0; i < c->own.used / sizeof *own; i++)
        if (!hd_automaton_has_word(c->a, own[i].rule))
            HD_FAIL(c->err, HD_ERR_UNSUPPORTED,
                    "%s: no value fits, or only some that are nested more than %u deep",
                    own[i].path, HD_MAX_NESTING);
    return HD_OK;
}
