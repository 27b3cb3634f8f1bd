#include <string.h>

#include "grammar/regex.h"
#include "grammar/schema_value.h"

/* The members that an object may have: those with a name, in the order in which the schemas
 * declare them, then others. */

#define MAX_MEMBERS  4096
#define MAX_PATTERNS 16 /* of names, in one object */
#define MAX_OTHERS   64 /* kinds of names that they make */

void hd_members_free(hd_members *m)
{
    for (uint32_t i = 0; i < m->n_others; i++) hd_dfa_free(&m->others[i].names);
    m->n_others = 0;
}

/* ---- names ---- */

static size_t count_names(const hd_compiler *c, const hd_parts *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const properties = hd_json_member(hd_part_json(c, p, i), "properties");
        const json_object *const required = hd_json_member(hd_part_json(c, p, i), "required");
        if (properties) n += (size_t)json_object_object_length(properties);
        if (required) n += json_object_array_length(required);
    }
    return n;
}

static void add_name(hd_members *m, const char *name, bool is_required)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (strcmp(m->member[i].name, name) == 0) {
            m->member[i].is_required |= is_required;
            return;
        }
    m->member[m->n++] =
        (hd_member){.name = name, .bytes = strlen(name), .is_required = is_required};
}

static hd_status gather_names(hd_compiler *c, const hd_parts *p, hd_members *m)
{
    size_t const n_names = count_names(c, p);
    if (n_names > MAX_MEMBERS)
        HD_FAIL(c->err, HD_ERR_LIMIT, "%s: more than %d members", hd_parts_path(c, p), MAX_MEMBERS);
    m->member = hd_pool_alloc(&c->pool, n_names * sizeof *m->member);
    if (!m->member) return hd_compiler_fail_memory(c);
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const properties = hd_json_member(hd_part_json(c, p, i), "properties");
        if (!properties) continue;
        json_object_object_foreach(properties, key, value)
        {
            (void)value;
            add_name(m, key, false);
        }
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const required = hd_json_member(hd_part_json(c, p, i), "required");
        size_t const             n = required ? json_object_array_length(required) : 0;
        for (size_t k = 0; k < n; k++)
            add_name(m, hd_json_text(json_object_array_get_idx(required, k), NULL), true);
    }
    return HD_OK;
}

/* ---- patterns of names ---- */

typedef struct pattern {
    uint32_t           part; /* index of the part that has it */
    const json_object *schema;
    hd_dfa             names;
} pattern;

typedef struct reader {
    hd_compiler    *c;
    const hd_parts *parts;
    hd_members     *members;
    pattern         patterns[MAX_PATTERNS];
    uint32_t        n_patterns;
    uint32_t        matched[MAX_OTHERS]; /* of each kind of other names, bits of patterns */
} reader;

static hd_status read_patterns(reader *r)
{
    hd_compiler *const c = r->c;
    for (uint32_t i = 0; i < r->parts->n; i++) {
        const json_object *const map =
            hd_json_member(hd_part_json(c, r->parts, i), "patternProperties");
        const char *const path = hd_compiler_schema(c, r->parts->part[i].schema)->path;
        if (!map) continue;
        json_object_object_foreach(map, key, value)
        {
            if (r->n_patterns == MAX_PATTERNS)
                HD_FAIL(c->err, HD_ERR_LIMIT, "%s.patternProperties: more than %d patterns", path,
                        MAX_PATTERNS);
            pattern *const p = &r->patterns[r->n_patterns++];
            p->part = i;
            p->schema = value;
            HD_TRY(hd_regex_make(&p->names, key, strlen(key), path, c->err));
        }
    }
    return HD_OK;
}

static void free_patterns(reader *r)
{
    for (uint32_t i = 0; i < r->n_patterns; i++) hd_dfa_free(&r->patterns[i].names);
}

static uint32_t match_patterns(const reader *r, const hd_member *m)
{
    uint32_t matched = 0;
    for (uint32_t i = 0; i < r->n_patterns; i++)
        if (hd_dfa_matches(&r->patterns[i].names, m->name, m->bytes)) matched |= 1u << i;
    return matched;
}

/* ---- values ---- */

/* The schema of members that a part neither names nor has a pattern for; NULL: it says nothing. */
static const json_object *additional_of(const json_object *schema)
{
    const json_object *const additional = hd_json_member(schema, "additionalProperties");
    return additional ? additional : hd_json_member(schema, "unevaluatedProperties");
}

/* Adds what one part says of a member; `name` is NULL for one that no part names. */
static hd_status add_of_part(const reader *r, uint32_t part, const char *name, uint32_t matched,
                             hd_parts *value)
{
    const json_object *const schema = hd_part_json(r->c, r->parts, part);
    json_object             *own = NULL;
    bool                     is_known = false;
    if (name)
        is_known = json_object_object_get_ex(hd_json_member(schema, "properties"), name, &own);
    HD_TRY(hd_parts_add(r->c, value, own));
    for (uint32_t i = 0; i < r->n_patterns; i++) {
        if (r->patterns[i].part != part || !(matched >> i & 1)) continue;
        HD_TRY(hd_parts_add(r->c, value, r->patterns[i].schema));
        is_known = true;
    }
    return is_known ? HD_OK : hd_parts_add(r->c, value, additional_of(schema));
}

static hd_status gather_value(const reader *r, const char *name, uint32_t matched, hd_parts *value)
{
    *value = (hd_parts){0};
    for (uint32_t i = 0; i < r->parts->n; i++) HD_TRY(add_of_part(r, i, name, matched, value));
    return HD_OK;
}

/* ---- other names ---- */

static hd_status start_others(reader *r)
{
    hd_members *const   m = r->members;
    hd_nfa              n = {0};
    hd_dfa              any = {0}, named = {0};
    hd_char_range const all = {0, HD_MAX_UNICODE};
    hd_status           status;
    hd_nfa_begin(&n);
    hd_nfa_chars(&n, HD_NFA_START, all, 0, HD_NFA_START);
    hd_nfa_skip(&n, HD_NFA_START, HD_NFA_END);
    status = hd_dfa_make(&any, &n, hd_parts_path(r->c, r->parts), r->c->err);
    hd_nfa_begin(&n);
    for (uint32_t i = 0; i < m->n; i++)
        hd_nfa_text(&n, HD_NFA_START, m->member[i].name, m->member[i].bytes, HD_NFA_END);
    if (status == HD_OK) status = hd_dfa_make(&named, &n, hd_parts_path(r->c, r->parts), r->c->err);
    if (status == HD_OK)
        status = hd_dfa_combine(&m->others[0].names, &any, &named, HD_DFA_MINUS,
                                hd_parts_path(r->c, r->parts), r->c->err);
    hd_nfa_free(&n);
    hd_dfa_free(&any);
    hd_dfa_free(&named);
    m->n_others = 1;
    m->others[0].is_any = m->n == 0;
    return status;
}

/* Splits a kind of names into those that match a pattern and those that do not. */
static hd_status split_kind(reader *r, uint32_t kind, uint32_t at)
{
    hd_members *const   m = r->members;
    hd_others *const    old = &m->others[kind];
    const hd_dfa *const names = &r->patterns[at].names;
    const char *const   path = hd_parts_path(r->c, r->parts);
    hd_dfa              with = {0}, without = {0};
    hd_status status = hd_dfa_combine(&with, &old->names, names, HD_DFA_BOTH, path, r->c->err);
    if (status == HD_OK)
        status = hd_dfa_combine(&without, &old->names, names, HD_DFA_MINUS, path, r->c->err);
    bool const is_split = status == HD_OK && !hd_dfa_is_empty(&with);
    if (is_split && m->n_others == MAX_OTHERS)
        status =
            hd_error_set(r->c->err, HD_ERR_LIMIT, -1,
                         "%s.patternProperties: more than %d kinds of names", path, MAX_OTHERS);
    if (status == HD_OK && is_split) {
        hd_dfa_free(&old->names);
        old->is_any = false;
        old->names = without;
        r->matched[m->n_others] = r->matched[kind] | 1u << at;
        m->others[m->n_others++].names = with;
    } else {
        hd_dfa_free(&with);
        hd_dfa_free(&without);
    }
    return status;
}

static hd_status split_others(reader *r)
{
    for (uint32_t at = 0; at < r->n_patterns; at++)
        for (uint32_t kind = r->members->n_others; kind-- > 0;) HD_TRY(split_kind(r, kind, at));
    return HD_OK;
}

/* Members that nothing names are there only where a schema asks for them: with
 * `additionalProperties`, or when it names none at all. */
static bool are_others_wanted(const reader *r)
{
    bool are_named = false;
    for (uint32_t i = 0; i < r->parts->n; i++) {
        const json_object *const schema = hd_part_json(r->c, r->parts, i);
        if (additional_of(schema)) return true;
        are_named = are_named || hd_json_member(schema, "properties") ||
                    hd_json_member(schema, "patternProperties");
    }
    return !are_named;
}

/* ---- propertyNames ---- */

static hd_status narrow_by(reader *r, const hd_dfa *language)
{
    hd_members *const m = r->members;
    const char *const path = hd_parts_path(r->c, r->parts);
    for (uint32_t i = 0; i < m->n; i++)
        if (!hd_dfa_matches(language, m->member[i].name, m->member[i].bytes))
            m->member[i].value.is_false = true;
    for (uint32_t i = 0; i < m->n_others; i++) {
        hd_dfa          both = {0};
        hd_status const status =
            hd_dfa_combine(&both, &m->others[i].names, language, HD_DFA_BOTH, path, r->c->err);
        hd_dfa_free(&m->others[i].names);
        m->others[i].names = both;
        m->others[i].is_any = false;
        HD_TRY(status);
    }
    return HD_OK;
}

static hd_status narrow_names(reader *r)
{
    hd_compiler *const c = r->c;
    for (uint32_t i = 0; i < r->parts->n; i++) {
        const json_object *const schema =
            hd_json_member(hd_part_json(c, r->parts, i), "propertyNames");
        hd_parts  parts = {0};
        hd_dfa    language = {0};
        hd_status status;
        if (!schema) continue;
        HD_TRY(hd_parts_add(c, &parts, schema));
        status = hd_text_all(c, &parts, &language);
        if (status == HD_OK) status = narrow_by(r, &language);
        hd_dfa_free(&language);
        HD_TRY(status);
    }
    return HD_OK;
}

/* ---- the whole ---- */

/* Keeps the kinds that may be there, with what is known of their values. */
static hd_status finish_others(reader *r)
{
    hd_members *const m = r->members;
    bool const        are_wanted = are_others_wanted(r);
    uint32_t          kept = 0;
    for (uint32_t i = 0; i < m->n_others; i++) {
        hd_others one = m->others[i];
        m->others[i] = (hd_others){0};
        hd_status const status = gather_value(r, NULL, r->matched[i], &one.value);
        bool const is_out = status != HD_OK || one.value.is_false || hd_dfa_is_empty(&one.names) ||
                            (r->matched[i] == 0 && !are_wanted);
        if (is_out)
            hd_dfa_free(&one.names);
        else
            m->others[kept++] = one;
        HD_TRY(status);
    }
    m->n_others = kept;
    return HD_OK;
}

/* What cannot be counted is only taken where it holds anyway. */
static hd_status read_counts(reader *r)
{
    hd_members *const m = r->members;
    const char *const path = hd_parts_path(r->c, r->parts);
    uint32_t          n_required = 0;
    for (uint32_t i = 0; i < m->n; i++) n_required += m->member[i].is_required;
    m->min = hd_parts_count(r->c, r->parts, "minProperties", false, 0);
    m->max = hd_parts_count(r->c, r->parts, "maxProperties", true, HD_COUNT_ANY);
    if (m->n > 0 && m->min <= n_required) m->min = 0;
    if (m->n_others == 0 && m->max >= m->n) m->max = HD_COUNT_ANY;
    if (m->min > 1 || (m->n > 0 && m->min > 0))
        HD_FAIL(r->c->err, HD_ERR_UNSUPPORTED,
                "%s.minProperties: cannot be enforced beyond those required, or one", path);
    if (m->n > 0 && m->max != HD_COUNT_ANY)
        HD_FAIL(r->c->err, HD_ERR_UNSUPPORTED,
                "%s.maxProperties: cannot be enforced together with `properties`", path);
    return HD_OK;
}

static hd_status read_members(reader *r)
{
    hd_members *const m = r->members;
    HD_TRY(gather_names(r->c, r->parts, m));
    HD_TRY(read_patterns(r));
    HD_TRY(start_others(r));
    HD_TRY(split_others(r));
    for (uint32_t i = 0; i < m->n; i++)
        HD_TRY(gather_value(r, m->member[i].name, match_patterns(r, &m->member[i]),
                            &m->member[i].value));
    HD_TRY(narrow_names(r));
    HD_TRY(finish_others(r));
    return read_counts(r);
}

hd_status hd_members_read(hd_compiler *c, const hd_parts *p, hd_members *out)
{
    reader r = {.c = c, .parts = p, .members = out};
    *out = (hd_members){.others = hd_pool_alloc(&c->pool, MAX_OTHERS * sizeof *out->others)};
    if (!out->others) return hd_compiler_fail_memory(c);
    hd_status const status = read_members(&r);
    free_patterns(&r);
    return status;
}
