/* First byte '{' or blank: the input is a tokenizer.json, and what it makes encodes a text.
 * Else: the rest is text for a small tokenizer made here, and must come back from its ids. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

/* Both ways of encoding give ids whose bytes are the text, and counting agrees with writing. */
static void check_text(const hd_tokenizer *t, const char *text, size_t bytes, bool control)
{
    int32_t *const ids = hd_memory_alloc(bytes * sizeof *ids);
    int32_t        n = 0, counted = 0;
    size_t         at = 0;
    hd_error       err = {0};
    require(ids != NULL);
    hd_status const s = hd_tokenizer_encode(t, text, bytes, control, ids, (int32_t)bytes, &n, &err);
    require(s == HD_OK || (s == HD_ERR_FORMAT && err.where >= 0 && (size_t)err.where < bytes));
    for (int32_t i = 0; i < n; i++) {
        size_t            length = 0;
        const char *const token = hd_tokenizer_bytes(t, ids[i], &length);
        require(token && length > 0 && length <= bytes - at);
        require(memcmp(token, text + at, length) == 0);
        at += length;
    }
    require(s != HD_OK || at == bytes);
    if (s == HD_OK) {
        hd_tokenizer_encode(t, text, bytes, control, NULL, 0, &counted, NULL);
        require(counted == n);
    }
    hd_memory_free(ids);
}

/* The character that stands for a byte in tokenizer files, as UTF-8. */
static void add_spelling(hd_buffer *b, int byte)
{
    bool const is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    int const  other = byte < 0x21 ? byte : byte == 0xAD ? 0x43 : byte - 0x7F + 0x21;
    int const  c = is_itself ? byte : 0x100 + other;
    if (c == '"' || c == '\\')
        hd_buffer_printf(b, "\\%c", c);
    else if (c < 0x80)
        hd_buffer_printf(b, "%c", c);
    else
        hd_buffer_printf(b, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 0x3F));
}

static const char rules[] =
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"},"
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+"
    "\"},"
    "\"behavior\":\"Isolated\"},"
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[!\\\"#$%&'()*+,\\\\-./"
    ":;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~]"
    "[A-Za-z]+|[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*"
    "|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\"},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
    "\"decoder\":{\"type\":\"ByteLevel\"},";

static const char added[] = "\"added_tokens\":["
                            "{\"id\":264,\"content\":\"<t>\",\"normalized\":false},"
                            "{\"id\":265,\"content\":\"<t>>\",\"normalized\":false},"
                            "{\"id\":266,\"content\":\"a<\",\"normalized\":true},"
                            "{\"id\":267,\"content\":\"\\uff5cD\\uff5c\",\"normalized\":true}],";

static hd_tokenizer *make_small(void)
{
    hd_buffer     b = {0};
    hd_tokenizer *t = NULL;
    hd_error      err = {0};
    hd_buffer_printf(&b, "{%s%s\"model\":{\"type\":\"BPE\",\"vocab\":{", rules, added);
    for (int i = 0; i < 256; i++) {
        hd_buffer_text(&b, "\"");
        add_spelling(&b, i);
        hd_buffer_printf(&b, "\":%d,", i);
    }
    hd_buffer_text(&b, "\"aa\":256,\"ab\":257,\"aaaa\":258,\"aab\":259,\"ba\":260,\"\xC4\xA0"
                       "a\":261,\"\xC4\xA0\xC4\xA0\":262,\"\xC3\xA4\xC2\xBD\":263},\"merges\":["
                       "\"a a\",\"a b\",\"aa aa\",\"aa b\",\"b a\",\"\xC4\xA0 a\","
                       "\"\xC4\xA0 \xC4\xA0\",\"\xC3\xA4 \xC2\xBD\"]}}");
    require(!b.failed && hd_tokenizer_open_text(&t, b.data, b.used, "small", &err) == HD_OK);
    hd_buffer_free(&b);
    return t;
}

static void try_file(const char *json, size_t bytes)
{
    static const char text[] = "a<t> the  aaab\n\xE4\xBD\xA0 12345 don't <think>";
    hd_tokenizer     *t = NULL;
    hd_error          err = {0};
    if (hd_tokenizer_open_text(&t, json, bytes, "fuzz", &err) != HD_OK) {
        require(err.code != HD_OK && err.message[0] && !t);
        return;
    }
    check_text(t, text, sizeof text - 1, true);
    check_text(t, text, sizeof text - 1, false);
    hd_tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hd_tokenizer *small;
    if (!small) small = make_small();
    if (size == 0) return 0;
    const char *const text = (const char *)data;
    if (text[0] == '{' || text[0] == ' ' || text[0] == '\n') {
        try_file(text, size);
        return 0;
    }
    check_text(small, text + 1, size - 1, true);
    check_text(small, text + 1, size - 1, false);
    return 0;
}
