#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/python_json.h"

/* What was read and written as Python would reads again, and is written the same. */
static void check_written(const json_object *v)
{
    hd_buffer    once = {0}, twice = {0};
    json_object *again = NULL;
    hd_python_write_json(&once, v, HD_SPELL_PYTHON);
    if (hd_json_parse(&again, once.data, once.used, HD_JSON_PYTHON, "again", NULL) != HD_OK)
        abort();
    hd_python_write_json(&twice, again, HD_SPELL_PYTHON);
    if (once.used != twice.used || memcmp(once.data, twice.data, once.used) != 0) abort();
    hd_buffer_clear(&twice);
    hd_python_write_str(&twice, v);
    json_object_put(again);
    hd_buffer_free(&once);
    hd_buffer_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned modes[] = {HD_JSON_STRICT, HD_JSON_PYTHON, HD_JSON_UNIQUE};

    const char *const text = (const char *)data;
    bool const        is_valid = hd_json_is_valid(text, size);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        json_object    *v = NULL;
        hd_error        err = {0};
        hd_status const status = hd_json_parse(&v, text, size, modes[i], "fuzz", &err);
        if (status != HD_OK && (!err.message[0] || err.where > (int64_t)size)) abort();
        if (status == HD_OK && modes[i] != HD_JSON_PYTHON && !is_valid) abort();
        if (status == HD_OK) check_written(v);
        json_object_put(v);
    }
    return 0;
}
