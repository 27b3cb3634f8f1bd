#include "grammar/schema_value.h"

#include <string.h>

uint32_t hd_parts_count(const hd_compiler *c, const hd_parts *p, const char *name, bool is_least,
                        uint32_t other)
{
    bool     is_said = false;
    uint32_t count = other;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const v = hd_json_member(hd_part_json(c, p, i), name);
        if (!v) continue;
        uint32_t const said = (uint32_t)json_object_get_double(v);
        if (!is_said || (is_least ? said < count : said > count)) count = said;
        is_said = true;
    }
    return count;
}

hd_status hd_space_write(hd_compiler *c, uint32_t from, uint32_t to)
{
    uint32_t rule;
    HD_TRY(hd_compiler_rule(c, HD_RULE_SPACE, NULL, 0, &rule));
    hd_nfa_call(&c->nfa, from, rule, to);
    hd_nfa_skip(&c->nfa, from, to);
    return HD_OK;
}

static void write_word(hd_compiler *c, hd_spot s, const char *word)
{
    hd_nfa_text(&c->nfa, s.from, word, strlen(word), s.to);
}

static hd_status write_container(hd_compiler *c, const hd_parts *p, hd_spot s, hd_rule_kind kind)
{
    uint32_t rule;
    HD_TRY(hd_parts_rule(c, kind, p, &rule));
    hd_nfa_call(&c->nfa, s.from, rule, s.to);
    return HD_OK;
}

static bool has_constants(const hd_compiler *c, const hd_parts *p)
{
    json_object *v;
    for (uint32_t i = 0; i < p->n; i++)
        if (json_object_object_get_ex(hd_part_json(c, p, i), "enum", &v) ||
            json_object_object_get_ex(hd_part_json(c, p, i), "const", &v))
            return true;
    return false;
}

static hd_status write_alternative(hd_compiler *c, const hd_parts *p, hd_spot s)
{
    s.types &= hd_parts_types(c, p);
    if (has_constants(c, p)) return hd_constants_write(c, p, s);
    if (s.types & HD_TYPE_NULL) write_word(c, s, "null");
    if (s.types & HD_TYPE_BOOL) write_word(c, s, "true");
    if (s.types & HD_TYPE_BOOL) write_word(c, s, "false");
    if (s.types & HD_TYPE_NUMBER) HD_TRY(hd_number_write(c, p, s));
    if (s.types & HD_TYPE_TEXT) HD_TRY(hd_text_write(c, p, s));
    if (s.types & HD_TYPE_LIST) HD_TRY(write_container(c, p, s, HD_RULE_LIST));
    if (s.types & HD_TYPE_OBJECT) HD_TRY(write_container(c, p, s, HD_RULE_OBJECT));
    return HD_OK;
}

hd_status hd_value_write(hd_compiler *c, const hd_parts *p, hd_spot s)
{
    hd_parts *alternatives;
    uint32_t  n;
    HD_TRY(hd_parts_expand(c, p, &alternatives, &n));
    for (uint32_t i = 0; i < n; i++) HD_TRY(write_alternative(c, &alternatives[i], s));
    return HD_OK;
}
