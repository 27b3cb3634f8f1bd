#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/compiler.h"

/* Reading a document: from its root, every schema that can matter is found and its keywords are
 * checked, so that what writes rules need not look at forms again. */

/* ---- keywords ---- */

typedef enum form {
    ANYTHING, /* says nothing about the value, or is looked at elsewhere */
    COUNT,
    NUMBER,
    POSITIVE,
    LIMIT, /* a number; a boolean beside `minimum`, as older drafts have it */
    TEXT,
    PATTERN,
    FLAG,
    TYPES,
    NAMES,
    VALUES, /* a list that is not empty */
    SCHEMA,
    SCHEMA_OR_LIST,
    SCHEMA_LIST,
    SCHEMA_MAP,
    REFERENCE,
    DEFINITIONS,  /* schemas that only references lead to */
    UNLESS_FALSE, /* cannot be enforced, unless it is false */
    REFUSED
} form;

typedef struct keyword {
    const char *name;
    form        form;
} keyword;

static const keyword keywords[] = {
    {"type", TYPES},
    {"enum", VALUES},
    {"const", ANYTHING},
    {"properties", SCHEMA_MAP},
    {"patternProperties", SCHEMA_MAP},
    {"additionalProperties", SCHEMA},
    {"unevaluatedProperties", SCHEMA},
    {"propertyNames", SCHEMA},
    {"required", NAMES},
    {"minProperties", COUNT},
    {"maxProperties", COUNT},
    {"items", SCHEMA_OR_LIST},
    {"prefixItems", SCHEMA_LIST},
    {"additionalItems", SCHEMA},
    {"minItems", COUNT},
    {"maxItems", COUNT},
    {"uniqueItems", UNLESS_FALSE},
    {"minLength", COUNT},
    {"maxLength", COUNT},
    {"pattern", PATTERN},
    {"format", TEXT},
    {"minimum", NUMBER},
    {"maximum", NUMBER},
    {"exclusiveMinimum", LIMIT},
    {"exclusiveMaximum", LIMIT},
    {"multipleOf", POSITIVE},
    {"anyOf", SCHEMA_LIST},
    {"oneOf", SCHEMA_LIST},
    {"allOf", SCHEMA_LIST},
    {"nullable", FLAG},
    {"$ref", REFERENCE},
    {"$defs", DEFINITIONS},
    {"definitions", DEFINITIONS},
    {"not", REFUSED},
    {"if", REFUSED},
    {"then", ANYTHING}, /* means nothing without `if` */
    {"else", ANYTHING},
    {"contains", REFUSED},
    {"minContains", ANYTHING}, /* mean nothing without `contains` */
    {"maxContains", ANYTHING},
    {"unevaluatedItems", REFUSED},
    {"dependentRequired", REFUSED},
    {"dependentSchemas", REFUSED},
    {"dependencies", REFUSED},
    {"$dynamicRef", REFUSED},
    {"$recursiveRef", REFUSED},
};

typedef struct place {
    hd_compiler *c;
    const char  *path; /* of the schema */
    const char  *name; /* of the keyword */
} place;

static hd_status fail(const place *p, const json_object *v, const char *wanted)
{
    static const char *const found[] = {"null",      "a boolean", "a number", "a number",
                                        "an object", "a list",    "a string"};
    HD_FAIL(p->c->err, HD_ERR_FORMAT, "%s.%s: found %s, wanted %s", p->path, p->name,
            found[json_object_get_type(v)], wanted);
}

/* ---- schemas within ---- */

static void address_of(const json_object *json, uint32_t address[2])
{
    uint64_t const bits = (uintptr_t)json;
    address[0] = (uint32_t)bits;
    address[1] = (uint32_t)(bits >> 32);
}

uint32_t hd_compiler_find(hd_compiler *c, const json_object *json)
{
    uint32_t address[2];
    address_of(json, address);
    return hd_state_sets_put(&c->pointers, address, 2);
}

hd_status hd_compiler_add(hd_compiler *c, const json_object *json, const char *path)
{
    uint32_t const n_known = c->pointers.n;
    if (hd_compiler_find(c, json) == HD_NO_SET) return hd_compiler_fail_memory(c);
    if (c->pointers.n == n_known) return HD_OK;
    if (n_known == HD_MAX_SCHEMAS)
        HD_FAIL(c->err, HD_ERR_LIMIT, "%s: more than %u schemas", c->root_path, HD_MAX_SCHEMAS);
    const char *const copy = hd_compiler_text(c, "%s", path);
    hd_schema const   s = {.json = json, .path = copy};
    hd_buffer_add(&c->schemas, &s, sizeof s);
    return copy && !c->schemas.failed ? HD_OK : hd_compiler_fail_memory(c);
}

static hd_status add_schema(const place *p, const json_object *v, const char *path)
{
    if (!path) return hd_compiler_fail_memory(p->c);
    if (json_object_is_type(v, json_type_object) || json_object_is_type(v, json_type_boolean))
        return hd_compiler_add(p->c, v, path);
    HD_FAIL(p->c->err, HD_ERR_FORMAT, "%s: wanted a schema, an object or a boolean", path);
}

static hd_status add_named(const place *p, const json_object *v)
{
    return add_schema(p, v, hd_compiler_text(p->c, "%s.%s", p->path, p->name));
}

static hd_status add_list(const place *p, const json_object *list)
{
    if (!json_object_is_type(list, json_type_array)) return fail(p, list, "a list of schemas");
    size_t const n = json_object_array_length(list);
    if (n == 0 && strcmp(p->name, "prefixItems") != 0 && strcmp(p->name, "items") != 0)
        return fail(p, list, "at least one schema");
    for (size_t i = 0; i < n; i++)
        HD_TRY(add_schema(p, json_object_array_get_idx(list, i),
                          hd_compiler_text(p->c, "%s.%s[%zu]", p->path, p->name, i)));
    return HD_OK;
}

static hd_status add_map(const place *p, const json_object *map)
{
    if (!json_object_is_type(map, json_type_object)) return fail(p, map, "an object of schemas");
    json_object_object_foreach(map, key, value)
    {
        HD_TRY(add_schema(p, value, hd_compiler_text(p->c, "%s.%s.%s", p->path, p->name, key)));
    }
    return HD_OK;
}

/* ---- references ---- */

/* The next step of a JSON pointer, with its escapes undone: %7E is ~, ~1 is /, ~0 is ~. */
static void decode_step(const char *step, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        char const hex[] = {step[i] == '%' && i + 2 < n ? step[i + 1] : 0,
                            step[i] == '%' && i + 2 < n ? step[i + 2] : 0, 0};
        char      *end;
        long const code = strtol(hex, &end, 16);
        bool const is_code = hex[0] && end == hex + 2 && code > 0;
        if (is_code) i += 2;
        *out++ = is_code ? (char)code : step[i];
    }
    *out = 0;
}

static void undo_tildes(char *s)
{
    char *out = s;
    for (; *s; s++) {
        bool const is_escape = s[0] == '~' && (s[1] == '0' || s[1] == '1');
        *out++ = !is_escape ? *s : s[1] == '0' ? '~' : '/';
        s += is_escape;
    }
    *out = 0;
}

static const json_object *enter_json(const json_object *v, const char *step)
{
    char      *end;
    long const index = strtol(step, &end, 10);
    if (json_object_is_type(v, json_type_array) && *step && !*end && index >= 0 &&
        (size_t)index < json_object_array_length(v))
        return json_object_array_get_idx(v, (size_t)index);
    return hd_json_member(v, step);
}

/* Follows a pointer from the root; NULL when it leads nowhere.  path: gets its steps */
static const json_object *follow(const json_object *v, const char *pointer, hd_buffer *path)
{
    while (v && *pointer == '/') {
        char         step[256];
        size_t const n = strcspn(++pointer, "/");
        if (n >= sizeof step) return NULL;
        decode_step(pointer, n, step);
        undo_tildes(step);
        hd_buffer_printf(path, ".%s", step);
        v = enter_json(v, step);
        pointer += n;
    }
    return *pointer ? NULL : v;
}

hd_status hd_schema_resolve(hd_compiler *c, const json_object *json, const char *path,
                            hd_buffer *target, const json_object **out)
{
    const char *const reference = hd_json_text(hd_json_member(json, "$ref"), NULL);
    bool const        is_pointer = reference[0] == '#' && (!reference[1] || reference[1] == '/');
    if (!is_pointer)
        HD_FAIL(c->err, HD_ERR_UNSUPPORTED,
                "%s.$ref: %.80s is no place in this schema, as \"#/$defs/name\" is", path,
                reference);
    hd_buffer_text(target, c->root_path);
    *out = follow(c->root, reference + 1, target);
    if (target->failed) return hd_compiler_fail_memory(c);
    if (!*out) HD_FAIL(c->err, HD_ERR_FORMAT, "%s.$ref: there is no %.80s", path, reference);
    return HD_OK;
}

static hd_status add_reference(const place *p, const json_object *v, const json_object *schema)
{
    hd_buffer          path = {0};
    const json_object *target;
    if (!hd_json_text(v, NULL)) return fail(p, v, "a string");
    hd_status status = hd_schema_resolve(p->c, schema, p->path, &path, &target);
    if (status == HD_OK) status = add_schema(p, target, path.data);
    hd_buffer_free(&path);
    return status;
}

/* ---- forms of keywords ---- */

static bool is_number(const json_object *v)
{
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

/* 2.0 is a count as well. */
static bool is_count(const json_object *v)
{
    double const d = json_object_get_double(v);
    return is_number(v) && d >= 0 && d <= INT32_MAX && d == (double)(int64_t)d;
}

static hd_status check_types(const place *p, const json_object *v)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    bool const               is_list = json_object_is_type(v, json_type_array);
    size_t const             n = is_list ? json_object_array_length(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_object *const type = is_list ? json_object_array_get_idx(v, i) : v;
        bool                     is_known = false;
        if (!hd_json_text(type, NULL)) return fail(p, type, "the name of a type, or a list");
        for (int k = 0; k < 7; k++) is_known = is_known || hd_json_equals(type, names[k]);
        if (!is_known)
            HD_FAIL(p->c->err, HD_ERR_FORMAT, "%s.type: there is no type %.60s", p->path,
                    hd_json_text(type, NULL));
    }
    return HD_OK;
}

static hd_status check_names(const place *p, const json_object *v)
{
    size_t const n = json_object_is_type(v, json_type_array) ? json_object_array_length(v) : 0;
    /* Draft 3 had a boolean there, and who writes it for one member means no more. */
    if (!json_object_is_type(v, json_type_array)) return fail(p, v, "a list of names");
    for (size_t i = 0; i < n; i++)
        if (!hd_json_text(json_object_array_get_idx(v, i), NULL)) return fail(p, v, "only names");
    return HD_OK;
}

static hd_status refuse(const place *p)
{
    HD_FAIL(p->c->err, HD_ERR_UNSUPPORTED, "%s.%s: this keyword cannot be enforced", p->path,
            p->name);
}

static hd_status check_values(const place *p, const json_object *v)
{
    if (json_object_is_type(v, json_type_array) && json_object_array_length(v)) return HD_OK;
    return fail(p, v, "a list of values");
}

static hd_status check_keyword(const place *p, form f, const json_object *v,
                               const json_object *schema)
{
    bool const is_flag = json_object_is_type(v, json_type_boolean);
    bool const is_list = json_object_is_type(v, json_type_array);
    switch (f) {
    case ANYTHING:
    case DEFINITIONS: return HD_OK;
    case COUNT: return is_count(v) ? HD_OK : fail(p, v, "a count up to 2147483647");
    case NUMBER: return is_number(v) ? HD_OK : fail(p, v, "a number");
    case POSITIVE:
        return is_number(v) && json_object_get_double(v) > 0 ? HD_OK : fail(p, v, "above zero");
    case LIMIT: return is_number(v) || is_flag ? HD_OK : fail(p, v, "a number");
    case PATTERN:
    case TEXT: return hd_json_text(v, NULL) ? HD_OK : fail(p, v, "a string");
    case FLAG: return is_flag ? HD_OK : fail(p, v, "a boolean");
    case TYPES: return check_types(p, v);
    case NAMES: return check_names(p, v);
    case VALUES: return check_values(p, v);
    case SCHEMA: return add_named(p, v);
    case SCHEMA_OR_LIST: return is_list ? add_list(p, v) : add_named(p, v);
    case SCHEMA_LIST: return add_list(p, v);
    case SCHEMA_MAP: return add_map(p, v);
    case REFERENCE: return add_reference(p, v, schema);
    case UNLESS_FALSE: return is_flag && !json_object_get_boolean(v) ? HD_OK : refuse(p);
    case REFUSED: return refuse(p);
    }
    return HD_OK;
}

static const keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(keywords[i].name, name) == 0) return &keywords[i];
    return NULL;
}

static bool is_bare(const keyword *k)
{
    static const char *const names[] = {"$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"};
    for (int i = 0; i < 6; i++)
        if (strcmp(k->name, names[i]) == 0) return true;
    return false;
}

/* Keywords that nobody defined say nothing, as the standard has it. */
static hd_status check_schema(hd_compiler *c, uint32_t number)
{
    hd_schema const s = *hd_compiler_schema(c, number);
    bool            says_more = false;
    if (!json_object_is_type(s.json, json_type_object)) return HD_OK;
    json_object_object_foreach(s.json, key, value)
    {
        place const          p = {c, s.path, key};
        const keyword *const k = find_keyword(key);
        if (!k) continue;
        HD_TRY(check_keyword(&p, k->form, value, s.json));
        says_more = says_more || !is_bare(k);
    }
    hd_compiler_schema(c, number)->is_bare = !says_more;
    return HD_OK;
}

/* ---- circles ---- */

enum { NEW, ON_THE_WAY, DONE };
#define MAX_CHAIN 200 /* schemas that stand for the same value, one by the other */

static hd_status check_circle(hd_compiler *c, uint32_t number, int depth);

static hd_status check_circle_list(hd_compiler *c, const json_object *list, int depth)
{
    size_t const n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        const json_object *const branch = json_object_array_get_idx(list, i);
        HD_TRY(check_circle(c, hd_compiler_find(c, branch), depth + 1));
    }
    return HD_OK;
}

static hd_status check_circle_below(hd_compiler *c, const hd_schema *s, int depth)
{
    if (hd_json_member(s->json, "$ref")) {
        hd_buffer          path = {0};
        const json_object *target;
        hd_status const    status = hd_schema_resolve(c, s->json, s->path, &path, &target);
        hd_buffer_free(&path);
        HD_TRY(status);
        HD_TRY(check_circle(c, hd_compiler_find(c, target), depth + 1));
    }
    HD_TRY(check_circle_list(c, hd_json_member(s->json, "allOf"), depth));
    HD_TRY(check_circle_list(c, hd_json_member(s->json, "anyOf"), depth));
    return check_circle_list(c, hd_json_member(s->json, "oneOf"), depth);
}

/* A schema that stands for itself, without any value around, says nothing. */
static hd_status check_circle(hd_compiler *c, uint32_t number, int depth)
{
    hd_schema const s = *hd_compiler_schema(c, number);
    if (s.color == DONE) return HD_OK;
    if (s.color == ON_THE_WAY)
        HD_FAIL(c->err, HD_ERR_FORMAT, "%s: refers to itself in a circle", s.path);
    if (depth > MAX_CHAIN)
        HD_FAIL(c->err, HD_ERR_LIMIT, "%s: more than %d references in a row", s.path, MAX_CHAIN);
    hd_compiler_schema(c, number)->color = ON_THE_WAY;
    HD_TRY(check_circle_below(c, &s, depth));
    hd_compiler_schema(c, number)->color = DONE;
    return HD_OK;
}

/* ---- the whole ---- */

hd_status hd_compiler_read(hd_compiler *c, const json_object *json, const char *path)
{
    place const    p = {c, path, ""};
    uint32_t const first = c->pointers.n;
    c->root = json;
    c->root_path = hd_compiler_text(c, "%s", path);
    HD_TRY(add_schema(&p, json, c->root_path));
    for (uint32_t i = first; i < c->pointers.n; i++) HD_TRY(check_schema(c, i));
    for (uint32_t i = first; i < c->pointers.n; i++) HD_TRY(check_circle(c, i, 0));
    return HD_OK;
}
