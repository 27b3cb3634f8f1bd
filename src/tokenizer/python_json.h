#ifndef HD_TOKENIZER_PYTHON_JSON_H
#define HD_TOKENIZER_PYTHON_JSON_H

#include "base/json.h"

/* The model was trained on prompts that Python wrote; these spell JSON values as it does. */

HD_BEGIN_C

/* json.dumps(v, ensure_ascii=False): ", " and ": ", floats by their shortest digits, NaN,
 * Infinity, big integers exact. */
void hd_python_write_json(hd_buffer *out, const json_object *v);
/* str(v): a string as it is, None, True, 1.0, and inside lists and objects repr(). */
void hd_python_write_str(hd_buffer *out, const json_object *v);
/* bool(v): false for null, false, 0, "", [] and {}. */
bool hd_python_is_true(const json_object *v);

HD_END_C
#endif
