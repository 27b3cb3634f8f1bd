#ifndef HD_TOKENIZER_PYTHON_JSON_H
#define HD_TOKENIZER_PYTHON_JSON_H

#include "base/json.h"

/* The model was trained on prompts that Python wrote; these spell JSON values as it does.  The
 * prompts of the service differ in numbers only. */

HD_BEGIN_C

typedef enum hd_spelling {
    HD_SPELL_PYTHON,  /* big integers exact; exponents below 1e-4, of two digits: 1e-05        */
    HD_SPELL_ROUNDED, /* as Python, but integers beyond 64 bits and -0 become floats           */
    HD_SPELL_SERVICE  /* rounded, too; exponents below 1e-5, of as many digits as needed: 1e-6 */
} hd_spelling;

/* json.dumps(v, ensure_ascii=False): ", " and ": ", floats by their shortest digits, NaN,
 * Infinity. */
void hd_python_write_json(hd_buffer *out, const json_object *v, hd_spelling spelling);
/* str(v): a string as it is, None, True, 1.0, and inside lists and objects repr(). */
void hd_python_write_str(hd_buffer *out, const json_object *v);
/* bool(v): false for null, false, 0, "", [] and {}. */
bool hd_python_is_true(const json_object *v);

HD_END_C
#endif
