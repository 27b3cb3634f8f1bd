#ifndef HD_GRAMMAR_SCHEMA_VALUE_H
#define HD_GRAMMAR_SCHEMA_VALUE_H

#include "grammar/schema_parts.h"

HD_BEGIN_C

/* How texts are spelled. */
typedef enum hd_form {
    HD_FORM_JSON,
    HD_FORM_RAW, /* as they are, and "</" behind them */
    HD_FORM_BARE /* as they are */
} hd_form;

/* Where something is written: between two states of the compiler's NFA. */
typedef struct hd_spot {
    uint32_t from, to;
    unsigned types; /* those wanted: HD_TYPE_... */
    hd_form  form;
} hd_spot;

/* Writes what the parts allow of the wanted types. */
hd_status hd_value_write(hd_compiler *c, const hd_parts *p, hd_spot s);

/* One type each, of parts that were expanded. */
hd_status hd_text_write(hd_compiler *c, const hd_parts *p, hd_spot s);
hd_status hd_number_write(hd_compiler *c, const hd_parts *p, hd_spot s);
hd_status hd_constants_write(hd_compiler *c, const hd_parts *p, hd_spot s);

/* Rules, written from START to END. */
hd_status hd_text_rule(hd_compiler *c, hd_rule_kind kind, const uint32_t *key);
hd_status hd_number_rule(hd_compiler *c);
hd_status hd_object_rule(hd_compiler *c, const hd_parts *p, hd_rule_shape *shape);
hd_status hd_list_rule(hd_compiler *c, const hd_parts *p, hd_rule_shape *shape);
hd_status hd_parameters_rule(hd_compiler *c, const hd_parts *p);

/* ---- what they share ---- */

/* White space or nothing. */
hd_status hd_space_write(hd_compiler *c, uint32_t from, uint32_t to);
/* Whether a value fits what the parts say of texts or of numbers. */
hd_status hd_text_fits(hd_compiler *c, const hd_parts *p, const json_object *v, bool *fits);
hd_status hd_number_fits(hd_compiler *c, const hd_parts *p, const json_object *v, bool *fits);
/* The texts that the parts allow, as far as they say something of it besides the length.
 * is_any   true: nothing, and *out is untouched
 * owns     the caller frees *out, also after a failure */
hd_status hd_text_language(hd_compiler *c, const hd_parts *p, hd_dfa *out, bool *is_any);
/* All texts that the parts allow, in a DFA; the same owner. */
hd_status hd_text_all(hd_compiler *c, const hd_parts *p, hd_dfa *out);
/* A language of texts as JSON strings, with their quotes. */
void hd_text_embed(hd_nfa *n, const hd_dfa *d, uint32_t from, uint32_t to);
/* A count among all parts: the greatest of `name`, or the least; `other` when none says it. */
uint32_t hd_parts_count(const hd_compiler *c, const hd_parts *p, const char *name, bool is_least,
                        uint32_t other);

/* ---- members of objects, and parameters of calls ---- */

typedef struct hd_member {
    const char *name;
    size_t      bytes;
    hd_parts    value;
    bool        is_required;
} hd_member;

/* Any other members: their names are those of a language. */
typedef struct hd_others {
    hd_dfa   names;  /* owned by whoever holds the struct; UTF-8 */
    bool     is_any; /* all names */
    hd_parts value;
} hd_others;

typedef struct hd_members {
    hd_member *member; /* [n] in the order in which they are written; in the pool */
    uint32_t   n;
    hd_others *others; /* [n_others] in the pool */
    uint32_t   n_others;
    uint32_t   min, max; /* how many; min is 0 or 1, and both say nothing when any has a name */
} hd_members;

/* owns     hd_members_free, also after a failure */
hd_status hd_members_read(hd_compiler *c, const hd_parts *p, hd_members *out);
void      hd_members_free(hd_members *m);

HD_END_C
#endif
