#ifndef HD_GRAMMAR_COMPILER_H
#define HD_GRAMMAR_COMPILER_H

#include "base/json.h"
#include "grammar/automaton.h"
#include "grammar/state_sets.h"

HD_BEGIN_C

/* JSON Schema to rules, in steps:
 *
 *   schema_read.c      finds the schemas that a document uses, checks their keywords, follows $ref
 *   schema_parts.c     the schemas that hold for one value at a time; their alternatives
 *   schema_value.c     writes what these allow into an NFA, by type, each in a file of its own:
 *                      schema_text.c, _number.c, _object.c (with _members.c), _list.c, _constant.c
 *   calls.c            the markup of tool calls around all this
 *   compiler.c         the rules: each is asked for by a key and written when its turn comes, so
 *                      that schemas may contain themselves
 *
 * What a keyword means stands in doc/grammar.md. */

#define HD_MAX_SCHEMAS      20000u
#define HD_MAX_ALTERNATIVES 1000u /* of one value */

typedef enum hd_rule_kind {
    HD_RULE_SPACE,     /* white space where JSON allows it, never nothing     */
    HD_RULE_TEXT,      /* a JSON string; key: least and most characters        */
    HD_RULE_RAW,       /* text as it is, and "</" behind it; the same key      */
    HD_RULE_CLOSE,     /* "</"                                                 */
    HD_RULE_NUMBER,    /* any number                                           */
    HD_RULE_OBJECT,    /* key: parts                                           */
    HD_RULE_LIST,      /* key: parts                                           */
    HD_RULE_PARAMETERS /* of a call; key: parts                             */
} hd_rule_kind;

/* A schema object of the document, or a boolean that stands for one. */
typedef struct hd_schema {
    const json_object *json;
    const char        *path;    /* owned by the pool */
    int                color;   /* while circles of references are looked for */
    bool               is_bare; /* says nothing of the value but by other schemas */
} hd_schema;

/* Names that the markup of calls uses; see tokenizer/chat.h. */
typedef struct hd_markup {
    const char *calls, *invoke, *parameter;
    bool        closes_tight;
} hd_markup;

typedef struct hd_compiler {
    hd_automaton      *a;
    const hd_markup   *markup; /* NULL: no calls */
    hd_error          *err;
    hd_pool            pool;
    const json_object *root; /* that references start at */
    const char        *root_path;
    hd_state_sets      pointers; /* address of JSON -> number of the schema */
    hd_buffer          schemas;  /* hd_schema */
    hd_state_sets      keys;     /* kind and key -> number of the request */
    hd_buffer          requests; /* uint32_t: rule of each request */
    uint32_t           n_done;   /* requests whose rule is defined */
    hd_buffer          own;      /* own_rule: rules without a key */
    hd_nfa             nfa;      /* of the rule being written */
} hd_compiler;

static inline hd_schema *hd_compiler_schema(const hd_compiler *c, uint32_t number)
{
    return (hd_schema *)(void *)c->schemas.data + number;
}

void hd_compiler_free(hd_compiler *c);
/* Puts a schema, an object or a boolean, in the list of those to read, once.  `path` is copied. */
hd_status hd_compiler_add(hd_compiler *c, const json_object *json, const char *path);
/* The number of a schema that was added. */
uint32_t hd_compiler_find(hd_compiler *c, const json_object *json);
/* Makes `json` the document: checks it and all that it uses. */
hd_status hd_compiler_read(hd_compiler *c, const json_object *json, const char *path);
/* The JSON that the $ref of a schema names.
 * path     of the schema
 * target   the path of *out is added
 * returns  HD_ERR_FORMAT, HD_ERR_UNSUPPORTED */
hd_status hd_schema_resolve(hd_compiler *c, const json_object *json, const char *path,
                            hd_buffer *target, const json_object **out);
/* A text in the pool; NULL when memory is short. */
const char *hd_compiler_text(hd_compiler *c, const char *fmt, ...) HD_PRINTF(2, 3);

/* The rule for a kind and key [n]. */
hd_status hd_compiler_rule(hd_compiler *c, hd_rule_kind kind, const uint32_t *key, size_t n,
                           uint32_t *rule);
/* A rule that nobody asks for by key, written into the NFA between begin and end; it must have a
 * word. */
hd_status hd_compiler_begin(hd_compiler *c, uint32_t *rule);
hd_status hd_compiler_end(hd_compiler *c, uint32_t rule, const char *path);
/* Writes all rules that were asked for. */
hd_status hd_compiler_write(hd_compiler *c);
/* Once all is written: finishes the automaton.
 * returns  HD_ERR_UNSUPPORTED with the path of what no value fits */
hd_status hd_compiler_finish(hd_compiler *c);
hd_status hd_compiler_fail_memory(const hd_compiler *c);

HD_END_C
#endif
