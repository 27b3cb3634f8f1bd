#include <string.h>

#include "grammar/schema_value.h"
#include "tokenizer/chat_tokens.h"
#include "tokenizer/python_json.h"

/* `enum` and `const`: the values of one, as far as all other parts take them. */

static json_object *unconst(const json_object *v) { return (json_object *)(uintptr_t)v; }

static bool is_number(const json_object *v)
{
    return json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
}

/* 1 and 1.0 are the same to JSON Schema. */
static bool are_equal(const json_object *a, const json_object *b)
{
    if (is_number(a) && is_number(b) && !hd_json_big_integer(a) && !hd_json_big_integer(b))
        return json_object_get_double(a) == json_object_get_double(b);
    return json_object_equal(unconst(a), unconst(b));
}

static bool is_listed(const json_object *list, const json_object *v)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (are_equal(json_object_array_get_idx(list, i), v)) return true;
    return false;
}

static unsigned type_of(const json_object *v)
{
    double const d = is_number(v) ? json_object_get_double(v) : 0;
    switch (json_object_get_type(v)) {
    case json_type_null: return HD_TYPE_NULL;
    case json_type_boolean: return HD_TYPE_BOOL;
    case json_type_int: return HD_TYPE_INTEGER;
    case json_type_double:
        return d == (double)(int64_t)d || hd_json_big_integer(v) ? HD_TYPE_INTEGER
                                                                 : HD_TYPE_FRACTION;
    case json_type_string: return HD_TYPE_TEXT;
    case json_type_array: return HD_TYPE_LIST;
    case json_type_object: return HD_TYPE_OBJECT;
    }
    return 0;
}

/* ---- what other parts say ---- */

/* Whether a value is among those that one part lists. */
static bool is_listed_by(const json_object *schema, const json_object *v)
{
    bool const   is_nullable = json_object_get_boolean(hd_json_member(schema, "nullable"));
    json_object *list, *one;
    if (!v && is_nullable) return true;
    if (json_object_object_get_ex(schema, "enum", &list) && !is_listed(list, v)) return false;
    return !json_object_object_get_ex(schema, "const", &one) || are_equal(one, v);
}

/* Keywords about what is inside of objects and lists. */
static const char *find_inner_keyword(const json_object *schema)
{
    static const char *const names[] = {
        "properties",    "patternProperties", "additionalProperties", "unevaluatedProperties",
        "propertyNames", "required",          "minProperties",        "maxProperties",
        "items",         "prefixItems",       "additionalItems",      "minItems",
        "maxItems"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hd_json_member(schema, names[i])) return names[i];
    return NULL;
}

static hd_status check_inner(const hd_compiler *c, const hd_parts *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const char *const name = find_inner_keyword(hd_part_json(c, p, i));
        if (name)
            HD_FAIL(c->err, HD_ERR_UNSUPPORTED,
                    "%s.%s: cannot be held against objects and lists of `enum` or `const`",
                    hd_compiler_schema(c, p->part[i].schema)->path, name);
    }
    return HD_OK;
}

static hd_status fits(hd_compiler *c, const hd_parts *p, const json_object *v, bool *out)
{
    unsigned const type = type_of(v);
    *out = true;
    for (uint32_t i = 0; i < p->n && *out; i++) *out = is_listed_by(hd_part_json(c, p, i), v);
    if (!*out) return HD_OK;
    if (type == HD_TYPE_TEXT) return hd_text_fits(c, p, v, out);
    if (type & HD_TYPE_NUMBER) return hd_number_fits(c, p, v, out);
    return type & (HD_TYPE_LIST | HD_TYPE_OBJECT) ? check_inner(c, p) : HD_OK;
}

/* ---- writing ---- */

static hd_status write_plain(hd_compiler *c, const json_object *v, hd_spot s)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    uint32_t const    end = s.form == HD_FORM_RAW ? hd_nfa_state(&c->nfa) : s.to;
    if (s.form == HD_FORM_RAW && strstr(text, HD_TOKEN_DSML))
        HD_FAIL(c->err, HD_ERR_UNSUPPORTED, "%s: a text of `enum` or `const` that ends a call",
                c->root_path);
    hd_nfa_text(&c->nfa, s.from, text, bytes, end);
    if (s.form == HD_FORM_RAW) hd_nfa_text(&c->nfa, end, "</", 2, s.to);
    return HD_OK;
}

static hd_status write_json(hd_compiler *c, const json_object *v, hd_spot s)
{
    hd_buffer text = {0};
    hd_python_write_json(&text, v, HD_SPELL_PYTHON);
    bool const has_failed = text.failed;
    if (!has_failed) hd_nfa_text(&c->nfa, s.from, text.data, text.used, s.to);
    hd_buffer_free(&text);
    return has_failed ? hd_compiler_fail_memory(c) : HD_OK;
}

static hd_status write_constant(hd_compiler *c, const hd_parts *p, const json_object *v, hd_spot s)
{
    bool is_fit = false;
    if (!(type_of(v) & s.types)) return HD_OK;
    HD_TRY(fits(c, p, v, &is_fit));
    if (!is_fit) return HD_OK;
    return s.form == HD_FORM_JSON ? write_json(c, v, s) : write_plain(c, v, s);
}

hd_status hd_constants_write(hd_compiler *c, const hd_parts *p, hd_spot s)
{
    bool is_null_fit = false;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const schema = hd_part_json(c, p, i);
        json_object             *list, *one;
        if (json_object_object_get_ex(schema, "const", &one))
            HD_TRY(write_constant(c, p, one, s));
        else if (json_object_object_get_ex(schema, "enum", &list))
            for (size_t k = 0; k < json_object_array_length(list); k++)
                HD_TRY(write_constant(c, p, json_object_array_get_idx(list, k), s));
        else
            continue;
        /* `nullable` adds null to what the list has. */
        if (!json_object_get_boolean(hd_json_member(schema, "nullable"))) return HD_OK;
        HD_TRY(fits(c, p, NULL, &is_null_fit));
        return is_null_fit ? write_constant(c, p, NULL, s) : HD_OK;
    }
    return HD_OK;
}
