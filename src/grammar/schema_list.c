#include "grammar/schema_value.h"

/* Lists: the first items each by their own schemas, the rest by one. */

/* The schemas of the first items: `prefixItems`, or a list `items` as older drafts have it. */
static const json_object *prefix_of(const json_object *schema)
{
    const json_object *const prefix = hd_json_member(schema, "prefixItems");
    const json_object *const items = hd_json_member(schema, "items");
    if (prefix) return prefix;
    return json_object_is_type(items, json_type_array) ? items : NULL;
}

/* The schema of all others; NULL: any. */
static const json_object *rest_of(const json_object *schema)
{
    const json_object *const items = hd_json_member(schema, "items");
    if (json_object_is_type(items, json_type_array))
        return hd_json_member(schema, "additionalItems");
    return items;
}

static size_t count_prefix(const hd_compiler *c, const hd_parts *p)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const prefix = prefix_of(hd_part_json(c, p, i));
        size_t const             n = prefix ? json_object_array_length(prefix) : 0;
        if (n > most) most = n;
    }
    return most;
}

/* What is known of item `at`. */
static hd_status gather_item(hd_compiler *c, const hd_parts *p, size_t at, hd_parts *out)
{
    *out = (hd_parts){0};
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const schema = hd_part_json(c, p, i), *const prefix = prefix_of(schema);
        bool const is_first = prefix && at < json_object_array_length(prefix);
        HD_TRY(hd_parts_add(c, out,
                            is_first ? json_object_array_get_idx(prefix, at) : rest_of(schema)));
    }
    return HD_OK;
}

typedef struct list {
    hd_compiler    *c;
    const hd_parts *parts;
    uint32_t        min, max;
    uint32_t        last; /* behind the white space in front of the closing bracket */
} list;

static hd_status write_item(list *l, size_t at, uint32_t from, uint32_t to)
{
    hd_parts item;
    HD_TRY(gather_item(l->c, l->parts, at, &item));
    return hd_value_write(l->c, &item, (hd_spot){.from = from, .to = to, .types = HD_TYPE_ANY});
}

/* A comma and white space.  A rule can count only what it reads by itself: commas. */
static hd_status write_comma(list *l, uint32_t from, uint32_t to, uint32_t flags)
{
    uint32_t const behind = hd_nfa_state(&l->c->nfa);
    hd_nfa_edge_add(&l->c->nfa, from,
                    &(hd_nfa_edge){.lo = ',', .hi = ',', .to = behind, .flags = flags});
    return hd_space_write(l->c, behind, to);
}

/* Not even white space comes in front of a bracket that may not come yet. */
static hd_status write_closing_space(list *l, uint32_t from, uint32_t to)
{
    uint32_t space;
    HD_TRY(hd_compiler_rule(l->c, HD_RULE_SPACE, NULL, 0, &space));
    uint32_t const label = HD_LABEL_CALL + space;
    hd_nfa_edge_add(&l->c->nfa, from,
                    &(hd_nfa_edge){.lo = label, .hi = label, .to = to, .flags = HD_EDGE_ENOUGH});
    hd_nfa_skip(&l->c->nfa, from, to);
    return HD_OK;
}

/* Any number of items that are alike, from `before` on: with one comma fewer than items. */
static hd_status write_rest(list *l, size_t n_prefix, uint32_t before, hd_rule_shape *shape)
{
    hd_nfa *const  n = &l->c->nfa;
    uint32_t const behind = hd_nfa_state(n), close = hd_nfa_state(n);
    uint32_t const first = (uint32_t)n_prefix + 1;
    shape->min = l->min > first ? l->min - first : 0;
    shape->max = l->max == HD_COUNT_ANY ? HD_COUNT_ANY : l->max - first;
    HD_TRY(write_item(l, n_prefix, before, behind));
    HD_TRY(write_comma(l, behind, before, HD_EDGE_COUNT));
    HD_TRY(write_closing_space(l, behind, close));
    hd_nfa_edge_add(
        n, close, &(hd_nfa_edge){.lo = ']', .hi = ']', .to = HD_NFA_END, .flags = HD_EDGE_ENOUGH});
    return HD_OK;
}

/* The first items; *before is behind the comma after the last one. */
static hd_status write_prefix(list *l, size_t n_prefix, uint32_t *before)
{
    hd_nfa *const n = &l->c->nfa;
    for (size_t i = 0; i < n_prefix && i < l->max && !n->is_full; i++) {
        uint32_t const behind = hd_nfa_state(n), next = hd_nfa_state(n);
        HD_TRY(write_item(l, i, *before, behind));
        HD_TRY(write_comma(l, behind, next, 0));
        if (i + 1 >= l->min) HD_TRY(hd_space_write(l->c, behind, l->last));
        *before = next;
    }
    return HD_OK;
}

hd_status hd_list_rule(hd_compiler *c, const hd_parts *p, hd_rule_shape *shape)
{
    hd_nfa *const  n = &c->nfa;
    size_t const   n_prefix = count_prefix(c, p);
    uint32_t const open = hd_nfa_state(n), inside = hd_nfa_state(n);
    uint32_t       before = hd_nfa_state(n);
    list           l = {c, p, hd_parts_count(c, p, "minItems", false, 0),
                        hd_parts_count(c, p, "maxItems", true, HD_COUNT_ANY), hd_nfa_state(n)};
    if (l.max < l.min) return HD_OK;
    hd_nfa_text(n, HD_NFA_START, "[", 1, open);
    HD_TRY(hd_space_write(c, open, inside));
    hd_nfa_skip(n, inside, before);
    hd_nfa_text(n, l.last, "]", 1, HD_NFA_END);
    if (l.min == 0) hd_nfa_skip(n, inside, l.last);
    HD_TRY(write_prefix(&l, n_prefix, &before));
    return l.max > n_prefix ? write_rest(&l, n_prefix, before, shape) : HD_OK;
}
