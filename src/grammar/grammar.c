#include "grammar/grammar.h"

#include <string.h>

#include "grammar/schema_value.h"
#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"
#include "tokenizer/tokenizer.h"

/* ---- what is compiled ---- */

static hd_status write_schema(hd_compiler *c, const json_object *schema, uint32_t *rule)
{
    hd_parts parts = {0};
    HD_TRY(hd_compiler_read(c, schema, "schema"));
    HD_TRY(hd_parts_add(c, &parts, schema));
    HD_TRY(hd_compiler_begin(c, rule));
    HD_TRY(hd_value_write(
        c, &parts,
        (hd_spot){HD_NFA_START, HD_NFA_END, .types = HD_TYPE_ANY, .form = HD_FORM_JSON}));
    HD_TRY(hd_compiler_end(c, *rule, "schema"));
    return hd_compiler_write(c);
}

/* A word of one rule or of the other.  They begin with different bytes, so that the first token
 * decides. */
static hd_status write_either(hd_compiler *c, uint32_t one, uint32_t other, uint32_t *rule)
{
    HD_TRY(hd_compiler_begin(c, rule));
    hd_nfa_call(&c->nfa, HD_NFA_START, one, HD_NFA_END);
    hd_nfa_call(&c->nfa, HD_NFA_START, other, HD_NFA_END);
    return hd_compiler_end(c, *rule, "tools");
}

/* What is compiled: of TOOL_CALLS the tools, and perhaps a schema; else a schema.  JSON's null is
 * a NULL pointer too, and refused as what it is. */
typedef struct hd_sources {
    bool         has_schema, has_tools;
    json_object *schema, *tools; /* owned */
} hd_sources;

static hd_status write_rules(hd_grammar *g, hd_compiler *c, const hd_sources *s,
                             const hd_grammar_options *opt)
{
    hd_calls_options const calls = {opt->function, opt->is_single};
    if (s->has_schema) HD_TRY(write_schema(c, s->schema, &g->whole));
    if (s->has_tools) HD_TRY(hd_calls_write(c, s->tools, &calls, &g->calls));
    if (s->has_schema && s->has_tools)
        HD_TRY(write_either(c, g->whole, g->calls.in_text, &g->whole));
    else if (s->has_tools)
        g->whole = g->calls.in_text;
    return hd_compiler_finish(c);
}

static hd_status compile(hd_grammar *g, const hd_sources *s, const hd_grammar_options *opt,
                         hd_error *err)
{
    const hd_chat_rules *const rules = hd_chat_rules_find(opt->dialect);
    if (!rules) HD_FAIL(err, HD_ERR_INVALID, "grammar: there is no dialect %d", (int)opt->dialect);
    hd_markup const markup = {rules->calls, rules->invoke, rules->parameter, rules->closes_tight};
    hd_compiler     c = {.a = &g->a, .markup = &markup, .err = err};
    hd_status const status = write_rules(g, &c, s, opt);
    hd_compiler_free(&c);
    return status;
}

static hd_status read_sources(hd_sources *s, const hd_grammar_options *opt, hd_error *err)
{
    static const char object[] = "{\"type\":\"object\"}";
    s->has_tools = opt->kind == HD_GRAMMAR_TOOL_CALLS;
    s->has_schema = !s->has_tools || opt->instead;
    if (opt->kind == HD_GRAMMAR_JSON)
        return hd_json_parse(&s->schema, object, sizeof object - 1, HD_JSON_STRICT, "schema", err);
    if (opt->kind == HD_GRAMMAR_SCHEMA)
        return hd_json_parse(&s->schema, opt->json, opt->json_bytes, HD_JSON_PYTHON, "schema", err);
    if (opt->instead)
        HD_TRY(hd_json_parse(&s->schema, opt->instead, opt->instead_bytes, HD_JSON_PYTHON, "schema",
                             err));
    return hd_json_parse(&s->tools, opt->json, opt->json_bytes, HD_JSON_PYTHON, "tools", err);
}

static hd_status compile_texts(hd_grammar *g, const hd_grammar_options *opt, hd_error *err)
{
    hd_sources s = {0};
    hd_status  status = read_sources(&s, opt, err);
    if (status == HD_OK) status = compile(g, &s, opt, err);
    json_object_put(s.schema);
    json_object_put(s.tools);
    return status;
}

/* ---- open, close ---- */

static int32_t find_control(const hd_tokenizer *t, const char *spelling)
{
    return hd_tokenizer_control_id(t, spelling, strlen(spelling));
}

static hd_status check_options(const hd_grammar_options *opt, const hd_tokenizer *t, hd_error *err)
{
    bool const is_known = opt && (unsigned)opt->kind <= HD_GRAMMAR_TOOL_CALLS;
    if (!t || !is_known) HD_FAIL(err, HD_ERR_INVALID, "grammar: no tokenizer or no such kind");
    if (opt->kind != HD_GRAMMAR_JSON && !opt->json)
        HD_FAIL(err, HD_ERR_INVALID, "grammar: no schema or no tools");
    if (opt->instead && (opt->kind != HD_GRAMMAR_TOOL_CALLS || opt->is_optional))
        HD_FAIL(err, HD_ERR_INVALID, "grammar: a schema instead of what is no call anyway");
    if (opt->kind == HD_GRAMMAR_TOOL_CALLS && find_control(t, HD_TOKEN_DSML) < 0)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "grammar: the tokenizer has no token %s", HD_TOKEN_DSML);
    return HD_OK;
}

static hd_status open_grammar(hd_grammar *g, const hd_grammar_options *opt, hd_error *err)
{
    const hd_token_trie *trie;
    HD_TRY(hd_tokenizer_trie(&trie, g->t, err));
    HD_TRY(compile_texts(g, opt, err));
    hd_views_open(&g->views, &g->a, trie, hd_tokenizer_vocab(g->t));
    return HD_OK;
}

hd_status hd_grammar_open(hd_grammar **out, const hd_tokenizer *t, const hd_grammar_options *opt,
                          hd_error *err)
{
    if (!out) HD_FAIL(err, HD_ERR_INVALID, "grammar: no result");
    HD_TRY(check_options(opt, t, err));
    hd_grammar *const g = hd_memory_alloc(sizeof *g);
    if (!g) HD_FAIL(err, HD_ERR_MEMORY, "grammar: no memory");
    g->t = t;
    g->kind = opt->kind;
    g->is_optional = opt->kind == HD_GRAMMAR_TOOL_CALLS && opt->is_optional;
    g->marker = find_control(t, HD_TOKEN_DSML);
    g->think_end = find_control(t, HD_TOKEN_THINK_END);
    hd_status const status = open_grammar(g, opt, err);
    if (status == HD_OK)
        *out = g;
    else
        hd_grammar_close(g);
    return status;
}

void hd_grammar_close(hd_grammar *g)
{
    if (!g) return;
    hd_views_close(&g->views);
    hd_automaton_free(&g->a);
    hd_memory_free(g);
}
