#include "grammar/calls.h"

#include <string.h>

#include "grammar/schema_value.h"

/* A block of calls, with the marker's control token as ｜DSML｜:
 *
 *   \n\n<｜DSML｜tool_calls>\n
 *   <｜DSML｜invoke name="N">\n
 *   <｜DSML｜parameter name="K" string="true">text as it is</｜DSML｜parameter>\n
 *   <｜DSML｜parameter name="L" string="false">JSON</｜DSML｜parameter>\n
 *   </｜DSML｜invoke>\n
 *   </｜DSML｜tool_calls>                                                          */

/* ---- pieces of tags ---- */

static void write_words(hd_compiler *c, uint32_t *at, const char *text)
{
    uint32_t const next = hd_nfa_state(&c->nfa);
    hd_nfa_text(&c->nfa, *at, text, strlen(text), next);
    *at = next;
}

static void write_marker(hd_compiler *c, uint32_t *at)
{
    uint32_t const next = hd_nfa_state(&c->nfa);
    hd_nfa_range(&c->nfa, *at, HD_LABEL_MARKER, HD_LABEL_MARKER, next);
    *at = next;
}

static void write_open(hd_compiler *c, uint32_t *at, const char *tag)
{
    write_words(c, at, "<");
    write_marker(c, at);
    write_words(c, at, tag);
}

/* Behind "</". */
static void write_close(hd_compiler *c, uint32_t *at, const char *tag)
{
    write_marker(c, at);
    write_words(c, at, tag);
    write_words(c, at, ">");
}

/* Tags have no way to spell these. */
static hd_status check_name(const hd_compiler *c, const char *name, size_t bytes, const char *path)
{
    bool is_bad = bytes == 0;
    for (size_t i = 0; i < bytes; i++)
        is_bad = is_bad || (unsigned char)name[i] < 0x20 || strchr("\"<>", name[i]);
    if (is_bad)
        HD_FAIL(c->err, HD_ERR_UNSUPPORTED, "%s: the tags of calls cannot hold the name \"%.60s\"",
                path, name);
    return HD_OK;
}

/* ---- parameters ---- */

/* Strings stand there as they are, all else as JSON. */
static hd_status write_value(hd_compiler *c, const hd_parts *value, uint32_t from, uint32_t to)
{
    uint32_t text = from, other = from, close = hd_nfa_state(&c->nfa);
    write_words(c, &text, "\" string=\"true\">");
    HD_TRY(hd_value_write(c, value,
                          (hd_spot){text, close, .types = HD_TYPE_TEXT, .form = HD_FORM_RAW}));
    write_words(c, &other, "\" string=\"false\">");
    uint32_t const end = hd_nfa_state(&c->nfa);
    HD_TRY(hd_value_write(c, value,
                          (hd_spot){other, end, .types = HD_TYPE_ANY & ~(unsigned)HD_TYPE_TEXT}));
    hd_nfa_text(&c->nfa, end, "</", 2, close);
    write_close(c, &close, c->markup->parameter);
    hd_nfa_text(&c->nfa, close, "\n", 1, to);
    return HD_OK;
}

static uint32_t open_parameter(hd_compiler *c, uint32_t at)
{
    write_open(c, &at, c->markup->parameter);
    write_words(c, &at, " name=\"");
    return at;
}

/* As the members of an object, but for commas: nothing stands between parameters. */
static hd_status write_parameter(hd_compiler *c, const hd_member *m, const char *path,
                                 uint32_t at[2])
{
    uint32_t const open = hd_nfa_state(&c->nfa);
    uint32_t const next[] = {hd_nfa_state(&c->nfa), hd_nfa_state(&c->nfa)};
    for (int i = 0; i < 2; i++) {
        hd_nfa_skip(&c->nfa, at[i], open);
        if (!m->is_required) hd_nfa_skip(&c->nfa, at[i], next[i]);
        at[i] = next[i];
    }
    if (m->value.is_false) return HD_OK;
    HD_TRY(check_name(c, m->name, m->bytes, path));
    uint32_t name = open_parameter(c, open);
    write_words(c, &name, m->name);
    return write_value(c, &m->value, name, at[1]);
}

/* Names that the tag can hold. */
static hd_status make_names(hd_compiler *c, const char *path, hd_dfa *out)
{
    static const hd_char_range ranges[] = {
        {0x20, '!'}, {'#', ';'}, {'=', '='}, {'?', HD_MAX_UNICODE}};
    hd_nfa n = {0};
    hd_nfa_begin(&n);
    for (int i = 0; i < 4; i++) {
        hd_nfa_chars(&n, HD_NFA_START, ranges[i], 0, HD_NFA_END);
        hd_nfa_chars(&n, HD_NFA_END, ranges[i], 0, HD_NFA_END);
    }
    hd_status const status = hd_dfa_make(out, &n, path, c->err);
    hd_nfa_free(&n);
    return status;
}

static hd_status write_other(hd_compiler *c, const hd_others *other, const char *path,
                             const uint32_t at[2])
{
    hd_dfa         names = {0}, both = {0};
    uint32_t const open = hd_nfa_state(&c->nfa), behind = hd_nfa_state(&c->nfa);
    for (int i = 0; i < 2; i++) hd_nfa_skip(&c->nfa, at[i], open);
    uint32_t const name = open_parameter(c, open);
    hd_status      status = make_names(c, path, &names);
    if (status == HD_OK)
        status = hd_dfa_combine(&both, &other->names, &names, HD_DFA_BOTH, path, c->err);
    if (status == HD_OK) hd_dfa_embed(&both, &c->nfa, name, behind);
    if (status == HD_OK) status = write_value(c, &other->value, behind, at[1]);
    hd_dfa_free(&names);
    hd_dfa_free(&both);
    return status;
}

/* To behind the closing tag of the invoke, so that the rule reads something even without
 * parameters. */
static hd_status write_parameters(hd_compiler *c, const hd_members *m, const char *path)
{
    uint32_t at[] = {HD_NFA_START, hd_nfa_state(&c->nfa)}, close = hd_nfa_state(&c->nfa);
    if (m->max != HD_COUNT_ANY)
        HD_FAIL(c->err, HD_ERR_UNSUPPORTED, "%s.maxProperties: cannot be enforced in a call", path);
    for (uint32_t i = 0; i < m->n && !c->nfa.is_full; i++)
        HD_TRY(write_parameter(c, &m->member[i], path, at));
    for (uint32_t i = 0; i < m->n_others; i++) HD_TRY(write_other(c, &m->others[i], path, at));
    /* Where there are none, some encoders write a blank line. */
    const char *const blank = c->markup->closes_tight ? "" : "\n";
    if (m->min == 0) hd_nfa_text(&c->nfa, at[0], blank, strlen(blank), close);
    hd_nfa_skip(&c->nfa, at[1], close);
    write_words(c, &close, "</");
    write_close(c, &close, c->markup->invoke);
    hd_nfa_text(&c->nfa, close, "\n", 1, HD_NFA_END);
    return HD_OK;
}

hd_status hd_parameters_rule(hd_compiler *c, const hd_parts *p)
{
    hd_members members;
    hd_status  status = hd_members_read(c, p, &members);
    if (status == HD_OK) status = write_parameters(c, &members, hd_parts_path(c, p));
    hd_members_free(&members);
    return status;
}

/* ---- tools ---- */

typedef struct tool {
    const char        *name;
    const json_object *parameters;
    const char        *path; /* of the parameters */
} tool;

static hd_status read_tool(hd_compiler *c, const json_object *tools, size_t at, tool *out)
{
    const json_object *const source = json_object_array_get_idx(tools, at);
    const json_object *const type = hd_json_member(source, "type");
    const json_object *const function = hd_json_member(source, "function");
    size_t                   bytes = 0;
    out->name = hd_json_text(hd_json_member(function, "name"), &bytes);
    out->parameters = hd_json_member(function, "parameters");
    out->path = hd_compiler_text(c, "tools[%zu].function.parameters", at);
    const char *const path = hd_compiler_text(c, "tools[%zu].function.name", at);
    if (!out->path || !path) return hd_compiler_fail_memory(c);
    if ((type && !hd_json_equals(type, "function")) || !function)
        HD_FAIL(c->err, HD_ERR_FORMAT, "tools[%zu]: wanted a function", at);
    if (!out->name) HD_FAIL(c->err, HD_ERR_FORMAT, "%s: wanted a string", path);
    return check_name(c, out->name, bytes, path);
}

/* `name` and what follows, as a rule of its own. */
static hd_status write_tool(hd_compiler *c, const tool *t, uint32_t *rule)
{
    hd_parts parts = {0}, *alternatives;
    uint32_t n, at = HD_NFA_START;
    HD_TRY(hd_compiler_read(c, t->parameters, t->path));
    HD_TRY(hd_parts_add(c, &parts, t->parameters));
    HD_TRY(hd_parts_expand(c, &parts, &alternatives, &n));
    HD_TRY(hd_compiler_begin(c, rule));
    write_words(c, &at, t->name);
    write_words(c, &at, "\">\n");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t one;
        if (!(hd_parts_types(c, &alternatives[i]) & HD_TYPE_OBJECT)) continue;
        HD_TRY(hd_parts_rule(c, HD_RULE_PARAMETERS, &alternatives[i], &one));
        hd_nfa_call(&c->nfa, at, one, HD_NFA_END);
    }
    HD_TRY(hd_compiler_end(c, *rule, t->path));
    return hd_compiler_write(c);
}

/* ---- the block ---- */

typedef struct block {
    hd_compiler *c;
    uint32_t    *tools; /* [n] rules */
    uint32_t     n;
    bool         is_single;
} block;

static hd_status write_calls(const block *b, uint32_t *rule)
{
    hd_compiler *const c = b->c;
    HD_TRY(hd_compiler_begin(c, rule));
    uint32_t       at = HD_NFA_START, close = hd_nfa_state(&c->nfa);
    uint32_t const behind = hd_nfa_state(&c->nfa);
    write_open(c, &at, c->markup->invoke);
    write_words(c, &at, " name=\"");
    for (uint32_t i = 0; i < b->n; i++) hd_nfa_call(&c->nfa, at, b->tools[i], behind);
    if (!b->is_single) hd_nfa_skip(&c->nfa, behind, HD_NFA_START);
    hd_nfa_text(&c->nfa, behind, "</", 2, close);
    write_close(c, &close, c->markup->calls);
    hd_nfa_skip(&c->nfa, close, HD_NFA_END);
    return hd_compiler_end(c, *rule, "tools");
}

/* The opening tag, from behind its marker or with all in front of it, and the calls. */
static hd_status write_entry(hd_compiler *c, uint32_t calls, bool is_whole, uint32_t *rule)
{
    HD_TRY(hd_compiler_begin(c, rule));
    uint32_t at = HD_NFA_START;
    if (is_whole) {
        write_words(c, &at, "\n\n<");
        write_marker(c, &at);
    }
    write_words(c, &at, c->markup->calls);
    write_words(c, &at, ">\n");
    hd_nfa_call(&c->nfa, at, calls, HD_NFA_END);
    return hd_compiler_end(c, *rule, "tools");
}

/* A tool that names no parameters has none. */
static const char no_parameters[] = "{\"type\":\"object\",\"properties\":{}}";

static hd_status write_tools(block *b, const json_object *tools, const char *function,
                             const json_object *none)
{
    hd_compiler *const c = b->c;
    size_t const       n = json_object_array_length(tools);
    b->tools = hd_pool_alloc(&c->pool, n * sizeof *b->tools);
    if (!b->tools) return hd_compiler_fail_memory(c);
    for (size_t i = 0; i < n; i++) {
        tool t;
        HD_TRY(read_tool(c, tools, i, &t));
        if (function && strcmp(function, t.name) != 0) continue;
        if (!t.parameters) t.parameters = none;
        HD_TRY(write_tool(c, &t, &b->tools[b->n++]));
    }
    if (b->n == 0 && function)
        HD_FAIL(c->err, HD_ERR_FORMAT, "tool_choice: there is no tool %.60s", function);
    if (b->n == 0) HD_FAIL(c->err, HD_ERR_FORMAT, "tools: there are none to call");
    return HD_OK;
}

hd_status hd_calls_write(hd_compiler *c, const json_object *tools, const hd_calls_options *opt,
                         hd_calls_rules *out)
{
    block        b = {.c = c, .is_single = opt->is_single};
    json_object *none = NULL;
    if (!json_object_is_type(tools, json_type_array))
        HD_FAIL(c->err, HD_ERR_FORMAT, "tools: wanted a list");
    HD_TRY(hd_json_parse(&none, no_parameters, sizeof no_parameters - 1, HD_JSON_STRICT, "tools",
                         c->err));
    hd_status status = write_tools(&b, tools, opt->function, none);
    if (status == HD_OK) status = write_calls(&b, &out->behind_tag);
    if (status == HD_OK) status = write_entry(c, out->behind_tag, true, &out->in_text);
    if (status == HD_OK) status = write_entry(c, out->behind_tag, false, &out->in_tag);
    json_object_put(none);
    return status;
}
