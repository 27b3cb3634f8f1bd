#ifndef HD_GRAMMAR_SCHEMA_PARTS_H
#define HD_GRAMMAR_SCHEMA_PARTS_H

#include "grammar/compiler.h"

HD_BEGIN_C

/* What is known of one value: the schemas that all hold for it, each once.  No schemas: any
 * value. */

/* Keywords of a schema that were replaced by what they name. */
enum { HD_USED_REF = 1, HD_USED_ALL = 2, HD_USED_ANY = 4, HD_USED_ONE = 8 };

typedef struct hd_part {
    uint32_t schema, used;
} hd_part;

typedef struct hd_parts {
    hd_part *part; /* [n] ascending by schema; owned by the compiler's pool */
    uint32_t n;
    bool     is_false; /* one of them was false: no value */
} hd_parts;

/* Types of JSON values.  A number is one of two: JSON Schema has a type for integers. */
enum {
    HD_TYPE_NULL = 1,
    HD_TYPE_BOOL = 2,
    HD_TYPE_INTEGER = 4,
    HD_TYPE_FRACTION = 8,
    HD_TYPE_TEXT = 16,
    HD_TYPE_LIST = 32,
    HD_TYPE_OBJECT = 64,
    HD_TYPE_NUMBER = HD_TYPE_INTEGER | HD_TYPE_FRACTION,
    HD_TYPE_ANY = 127
};

static inline const json_object *hd_part_json(const hd_compiler *c, const hd_parts *p, uint32_t i)
{
    return hd_compiler_schema(c, p->part[i].schema)->json;
}
/* The path to name in a message about them. */
const char *hd_parts_path(const hd_compiler *c, const hd_parts *p);

/* Adds a schema that was read; NULL is none. */
hd_status hd_parts_add(hd_compiler *c, hd_parts *p, const json_object *json);
/* The alternatives without references and choices: [*n] in the pool. */
hd_status hd_parts_expand(hd_compiler *c, const hd_parts *p, hd_parts **out, uint32_t *n);
/* The types that all of them allow, in parts that were expanded. */
unsigned hd_parts_types(const hd_compiler *c, const hd_parts *p);

/* As the key of a rule. */
hd_status hd_parts_rule(hd_compiler *c, hd_rule_kind kind, const hd_parts *p, uint32_t *rule);
hd_status hd_parts_from_key(hd_compiler *c, const uint32_t *key, size_t n, hd_parts *out);

HD_END_C
#endif
