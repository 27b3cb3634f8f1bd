#include "grammar/schema_parts.h"

#include <string.h>

const char *hd_parts_path(const hd_compiler *c, const hd_parts *p)
{
    return p->n ? hd_compiler_schema(c, p->part[0].schema)->path : c->root_path;
}

/* ---- sets of schemas ---- */

/* A copy with room for one more; out may be p. */
static hd_status copy_parts(hd_compiler *c, const hd_parts *p, hd_parts *out)
{
    hd_part *const copy = hd_pool_alloc(&c->pool, ((size_t)p->n + 1) * sizeof *copy);
    if (!copy) return hd_compiler_fail_memory(c);
    if (p->n) memcpy(copy, p->part, p->n * sizeof *copy);
    *out = *p;
    out->part = copy;
    return HD_OK;
}

hd_status hd_parts_add(hd_compiler *c, hd_parts *p, const json_object *json)
{
    uint32_t at = 0;
    if (json_object_is_type(json, json_type_boolean)) {
        if (!json_object_get_boolean(json)) p->is_false = true;
        return HD_OK;
    }
    if (!json) return HD_OK;
    uint32_t const schema = hd_compiler_find(c, json);
    if (schema == HD_NO_SET) return hd_compiler_fail_memory(c);
    while (at < p->n && p->part[at].schema < schema) at++;
    if (at < p->n && p->part[at].schema == schema) return HD_OK;
    HD_TRY(copy_parts(c, p, p));
    memmove(p->part + at + 1, p->part + at, (p->n - at) * sizeof *p->part);
    p->part[at] = (hd_part){.schema = schema};
    p->n++;
    return HD_OK;
}

hd_status hd_parts_rule(hd_compiler *c, hd_rule_kind kind, const hd_parts *p, uint32_t *rule)
{
    return hd_compiler_rule(c, kind, (const uint32_t *)(const void *)p->part, (size_t)p->n * 2,
                            rule);
}

hd_status hd_parts_from_key(hd_compiler *c, const uint32_t *key, size_t n, hd_parts *out)
{
    hd_parts const p = {.part = (hd_part *)(uintptr_t)key, .n = (uint32_t)(n / 2)};
    return copy_parts(c, &p, out);
}

/* ---- alternatives ---- */

/* A keyword that names other schemas for the same value. */
typedef struct applicator {
    const char *name;
    uint32_t    used;
} applicator;
static const applicator applicators[] = {
    {"$ref", HD_USED_REF}, {"allOf", HD_USED_ALL}, {"anyOf", HD_USED_ANY}, {"oneOf", HD_USED_ONE}};

typedef struct expander {
    hd_compiler  *c;
    hd_state_sets seen; /* sets of parts that were met */
    hd_buffer     todo; /* hd_parts */
    hd_buffer     flat; /* hd_parts: without applicators */
} expander;

/* The first part that has an applicator left; NULL: none. */
static const applicator *find_applicator(const hd_compiler *c, const hd_parts *p, uint32_t *at)
{
    for (*at = 0; *at < p->n; ++*at)
        for (int i = 0; i < 4; i++)
            if (!(p->part[*at].used & applicators[i].used) &&
                hd_json_member(hd_part_json(c, p, *at), applicators[i].name))
                return &applicators[i];
    return NULL;
}

static hd_status meet(expander *e, const hd_parts *p)
{
    uint32_t const n_known = e->seen.n;
    if (p->is_false) return HD_OK;
    uint32_t const number =
        hd_state_sets_put(&e->seen, (const uint32_t *)(const void *)p->part, (size_t)p->n * 2);
    if (number == HD_NO_SET) return hd_compiler_fail_memory(e->c);
    if (e->seen.n == n_known) return HD_OK;
    if (e->seen.n > HD_MAX_ALTERNATIVES * 4)
        HD_FAIL(e->c->err, HD_ERR_LIMIT, "%s: more than %u alternatives", hd_parts_path(e->c, p),
                HD_MAX_ALTERNATIVES);
    hd_buffer_add(&e->todo, p, sizeof *p);
    return e->todo.failed ? hd_compiler_fail_memory(e->c) : HD_OK;
}

static hd_status meet_with(expander *e, const hd_parts *p, const json_object *more)
{
    hd_parts next = *p;
    HD_TRY(hd_parts_add(e->c, &next, more));
    return meet(e, &next);
}

static hd_status meet_reference(expander *e, const hd_parts *p, const hd_schema *s)
{
    hd_buffer          path = {0};
    const json_object *target = NULL;
    hd_status const    status = hd_schema_resolve(e->c, s->json, s->path, &path, &target);
    hd_buffer_free(&path);
    return status == HD_OK ? meet_with(e, p, target) : status;
}

static hd_status meet_all(expander *e, const hd_parts *p, const json_object *list)
{
    hd_parts next = *p;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        HD_TRY(hd_parts_add(e->c, &next, json_object_array_get_idx(list, i)));
    return meet(e, &next);
}

static hd_status meet_any(expander *e, const hd_parts *p, const json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        HD_TRY(meet_with(e, p, json_object_array_get_idx(list, i)));
    return HD_OK;
}

/* A schema of which all that it says was replaced is left out: so ways to the same alternative
 * meet. */
static void leave_out(const hd_compiler *c, hd_parts *p, uint32_t at)
{
    const hd_schema *const s = hd_compiler_schema(c, p->part[at].schema);
    bool                   is_done = s->is_bare;
    for (int i = 0; i < 4; i++)
        if (!(p->part[at].used & applicators[i].used) &&
            hd_json_member(s->json, applicators[i].name))
            is_done = false;
    if (!is_done) return;
    memmove(p->part + at, p->part + at + 1, (p->n - at - 1) * sizeof *p->part);
    p->n--;
}

static hd_status replace(expander *e, const hd_parts *p, uint32_t at, const applicator *a)
{
    hd_parts           next = *p;
    const json_object *list = hd_json_member(hd_part_json(e->c, p, at), a->name);
    HD_TRY(copy_parts(e->c, p, &next));
    next.part[at].used |= a->used;
    hd_schema const s = *hd_compiler_schema(e->c, next.part[at].schema);
    leave_out(e->c, &next, at);
    switch (a->used) {
    case HD_USED_REF: return meet_reference(e, &next, &s);
    case HD_USED_ALL: return meet_all(e, &next, list);
    default: return meet_any(e, &next, list);
    }
}

/* First met, first served: alternatives keep the order in which they are written. */
static hd_status expand_all(expander *e)
{
    for (size_t i = 0; i < e->todo.used / sizeof(hd_parts); i++) {
        hd_parts const          p = ((hd_parts *)(void *)e->todo.data)[i];
        uint32_t                at;
        const applicator *const a = find_applicator(e->c, &p, &at);
        if (a)
            HD_TRY(replace(e, &p, at, a));
        else
            hd_buffer_add(&e->flat, &p, sizeof p);
    }
    return e->flat.failed ? hd_compiler_fail_memory(e->c) : HD_OK;
}

hd_status hd_parts_expand(hd_compiler *c, const hd_parts *p, hd_parts **out, uint32_t *n)
{
    expander  e = {.c = c};
    hd_status status = meet(&e, p);
    if (status == HD_OK) status = expand_all(&e);
    *n = (uint32_t)(e.flat.used / sizeof **out);
    *out = hd_pool_alloc(&c->pool, e.flat.used);
    if (status == HD_OK && *n > HD_MAX_ALTERNATIVES)
        status = hd_error_set(c->err, HD_ERR_LIMIT, -1, "%s: more than %u alternatives",
                              hd_parts_path(c, p), HD_MAX_ALTERNATIVES);
    if (status == HD_OK && !*out) status = hd_compiler_fail_memory(c);
    if (status == HD_OK && *n) memcpy(*out, e.flat.data, e.flat.used);
    hd_state_sets_free(&e.seen);
    hd_buffer_free(&e.todo);
    hd_buffer_free(&e.flat);
    return status;
}

/* ---- types ---- */

static unsigned type_of_name(const json_object *name)
{
    static const struct {
        const char *name;
        unsigned    types;
    } names[] = {{"null", HD_TYPE_NULL},       {"boolean", HD_TYPE_BOOL},
                 {"integer", HD_TYPE_INTEGER}, {"number", HD_TYPE_NUMBER},
                 {"string", HD_TYPE_TEXT},     {"array", HD_TYPE_LIST},
                 {"object", HD_TYPE_OBJECT}};
    for (int i = 0; i < 7; i++)
        if (hd_json_equals(name, names[i].name)) return names[i].types;
    return 0;
}

/* What a schema without `type` is about, when its keywords are about some types only.  By the
 * standard it would also take any value of the others, which nobody means who writes it. */
static unsigned types_of_keywords(const json_object *schema)
{
    static const struct {
        const char *name;
        unsigned    types;
    } names[] = {{"properties", HD_TYPE_OBJECT},
                 {"patternProperties", HD_TYPE_OBJECT},
                 {"additionalProperties", HD_TYPE_OBJECT},
                 {"required", HD_TYPE_OBJECT},
                 {"propertyNames", HD_TYPE_OBJECT},
                 {"minProperties", HD_TYPE_OBJECT},
                 {"maxProperties", HD_TYPE_OBJECT},
                 {"items", HD_TYPE_LIST},
                 {"prefixItems", HD_TYPE_LIST},
                 {"minItems", HD_TYPE_LIST},
                 {"maxItems", HD_TYPE_LIST},
                 {"minLength", HD_TYPE_TEXT},
                 {"maxLength", HD_TYPE_TEXT},
                 {"pattern", HD_TYPE_TEXT},
                 {"minimum", HD_TYPE_NUMBER},
                 {"maximum", HD_TYPE_NUMBER},
                 {"exclusiveMinimum", HD_TYPE_NUMBER},
                 {"exclusiveMaximum", HD_TYPE_NUMBER},
                 {"multipleOf", HD_TYPE_NUMBER}};
    unsigned types = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hd_json_member(schema, names[i].name)) types |= names[i].types;
    return types ? types : HD_TYPE_ANY;
}

static unsigned types_of(const json_object *schema)
{
    const json_object *const type = hd_json_member(schema, "type");
    bool const is_nullable = json_object_get_boolean(hd_json_member(schema, "nullable"));
    unsigned   types = type_of_name(type);
    if (!type) types = types_of_keywords(schema);
    for (size_t i = 0;
         json_object_is_type(type, json_type_array) && i < json_object_array_length(type); i++)
        types |= type_of_name(json_object_array_get_idx(type, i));
    return is_nullable ? types | HD_TYPE_NULL : types;
}

unsigned hd_parts_types(const hd_compiler *c, const hd_parts *p)
{
    unsigned types = HD_TYPE_ANY;
    for (uint32_t i = 0; i < p->n; i++) types &= types_of(hd_part_json(c, p, i));
    return types;
}
