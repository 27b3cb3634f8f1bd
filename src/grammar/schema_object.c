#include "base/json_write.h"
#include "grammar/schema_value.h"

/* Objects: the named members in their order, where those that are not required may be left out,
 * then others.  For each named member there are two states, before it without and with a member
 * in front: only the second needs a comma. */

typedef struct object {
    hd_compiler      *c;
    const hd_members *members;
    uint32_t          last; /* behind the white space in front of the closing brace */
} object;

static hd_status write_colon(object *o, uint32_t from, const hd_parts *value, uint32_t to)
{
    hd_nfa *const  n = &o->c->nfa;
    uint32_t const behind = hd_nfa_state(n), at = hd_nfa_state(n);
    hd_nfa_text(n, from, ":", 1, behind);
    HD_TRY(hd_space_write(o->c, behind, at));
    return hd_value_write(o->c, value, (hd_spot){.from = at, .to = to, .types = HD_TYPE_ANY});
}

static hd_status write_member(object *o, const hd_member *m, uint32_t from, uint32_t to)
{
    hd_buffer      name = {0};
    uint32_t const behind = hd_nfa_state(&o->c->nfa);
    hd_json_write_string(&name, m->name, m->bytes);
    bool const has_failed = name.failed;
    if (!has_failed) hd_nfa_text(&o->c->nfa, from, name.data, name.used, behind);
    hd_buffer_free(&name);
    return has_failed ? hd_compiler_fail_memory(o->c) : write_colon(o, behind, &m->value, to);
}

/* Any name at all is a string like others. */
static hd_status write_other(object *o, const hd_others *other, uint32_t from, uint32_t to)
{
    uint32_t const behind = hd_nfa_state(&o->c->nfa), any[] = {0, HD_COUNT_ANY};
    uint32_t       rule;
    if (other->is_any) {
        HD_TRY(hd_compiler_rule(o->c, HD_RULE_TEXT, any, 2, &rule));
        hd_nfa_call(&o->c->nfa, from, rule, behind);
    } else
        hd_text_embed(&o->c->nfa, &other->names, from, behind);
    return write_colon(o, behind, &other->value, to);
}

static hd_status write_comma(object *o, uint32_t from, uint32_t to, uint32_t flags)
{
    uint32_t const behind = hd_nfa_state(&o->c->nfa);
    hd_nfa_edge_add(&o->c->nfa, from,
                    &(hd_nfa_edge){.lo = ',', .hi = ',', .to = behind, .flags = flags});
    return hd_space_write(o->c, behind, to);
}

/* From the states before member i to those behind it. */
static hd_status write_step(object *o, const hd_member *m, uint32_t at[2])
{
    hd_nfa *const  n = &o->c->nfa;
    uint32_t const name = hd_nfa_state(n), next[] = {hd_nfa_state(n), hd_nfa_state(n)};
    hd_nfa_skip(n, at[0], name);
    HD_TRY(write_comma(o, at[1], name, 0));
    if (!m->value.is_false) HD_TRY(write_member(o, m, name, next[1]));
    for (int i = 0; i < 2 && !m->is_required; i++) hd_nfa_skip(n, at[i], next[i]);
    at[0] = next[0];
    at[1] = next[1];
    return HD_OK;
}

/* Members that no schema names; they may repeat, with one comma fewer than there are. */
static hd_status write_others(object *o, const uint32_t at[2])
{
    uint32_t const name = hd_nfa_state(&o->c->nfa);
    if (o->members->n_others == 0 || o->members->max == 0) return HD_OK;
    hd_nfa_skip(&o->c->nfa, at[0], name);
    HD_TRY(write_comma(o, at[1], name, HD_EDGE_COUNT));
    for (uint32_t i = 0; i < o->members->n_others; i++)
        HD_TRY(write_other(o, &o->members->others[i], name, at[1]));
    return HD_OK;
}

static hd_status write_object(object *o)
{
    hd_nfa *const  n = &o->c->nfa;
    uint32_t const open = hd_nfa_state(n);
    uint32_t       at[] = {hd_nfa_state(n), hd_nfa_state(n)};
    o->last = hd_nfa_state(n);
    hd_nfa_text(n, HD_NFA_START, "{", 1, open);
    HD_TRY(hd_space_write(o->c, open, at[0]));
    for (uint32_t i = 0; i < o->members->n && !n->is_full; i++)
        HD_TRY(write_step(o, &o->members->member[i], at));
    HD_TRY(write_others(o, at));
    if (o->members->min == 0) hd_nfa_skip(n, at[0], o->last);
    HD_TRY(hd_space_write(o->c, at[1], o->last));
    hd_nfa_text(n, o->last, "}", 1, HD_NFA_END);
    return HD_OK;
}

hd_status hd_object_rule(hd_compiler *c, const hd_parts *p, hd_rule_shape *shape)
{
    hd_members      members;
    hd_status const status = hd_members_read(c, p, &members);
    object          o = {.c = c, .members = &members};
    hd_status       written = status;
    if (status == HD_OK) written = write_object(&o);
    if (members.max != HD_COUNT_ANY && members.max > 0) shape->max = members.max - 1;
    hd_members_free(&members);
    return written;
}
