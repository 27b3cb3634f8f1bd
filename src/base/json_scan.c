#include "base/json_scan.h"

#include <string.h>

#include "base/utf8_scan.h"

/* The text is checked here in full, so errors have exact places and json-c, which builds the
 * tree, only ever sees good text.  Three things json-c 0.16 cannot do are arranged on the
 * way, in a copy of the text if need be:
 *
 * - It clamps integers beyond 64 bits and makes -0 a 0.  The copy has a '.' behind such an
 *   integer, a spelling that the check refuses and json-c takes for a double whose source text
 *   it keeps; afterwards the '.' is cut from that text.  A double whose text has digits only is
 *   then such an integer, and no input can spell one.
 * - It takes an escaped character such as U+2D800 for a surrogate, for its low 16 bits look
 *   like one.  The copy has the character itself.
 * - It keeps names as C strings.  A name that holds U+0000 is refused. */

static hd_status fail(const hd_json_scan *s, size_t at, const char *message)
{
    return hd_error_set(s->err, HD_ERR_FORMAT, (int64_t)at, "%s: byte %zu: %s", s->what, at,
                        message);
}

static hd_status fail_memory(const hd_json_scan *s, const char *doing)
{
    HD_FAIL(s->err, HD_ERR_MEMORY, "%s: out of memory %s %zu bytes of JSON", s->what, doing,
            s->bytes);
}

static int peek(const hd_json_scan *s)
{
    return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static void skip_space(hd_json_scan *s)
{
    for (int c; (c = peek(s)) == ' ' || c == '\t' || c == '\n' || c == '\r';) s->at++;
}

/* ---- strings ---- */

/* Four hexadecimal digits of an escape that began at `start`. */
static hd_status scan_hex(hd_json_scan *s, size_t start, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int const h = peek(s);
        if (is_digit(h))
            *value = *value * 16 + (uint32_t)(h - '0');
        else if ((h | 0x20) >= 'a' && (h | 0x20) <= 'f')
            *value = *value * 16 + (uint32_t)((h | 0x20) - 'a' + 10);
        else
            return fail(s, start, "\\u needs four hexadecimal digits");
    }
    return HD_OK;
}

/* Lets the copy have `text` in place of what was scanned since `start`. */
static void replace(hd_json_scan *s, size_t start, const char *text, size_t bytes)
{
    if (s->is_check) return;
    hd_buffer_add(&s->copy, s->text + s->copied, start - s->copied);
    hd_buffer_add(&s->copy, text, bytes);
    s->copied = s->at;
}

/* The second half of a pair of surrogates that began at `start`, if there is one. */
static hd_status scan_low_surrogate(hd_json_scan *s, size_t start, uint32_t high)
{
    uint32_t low;
    if (s->bytes - s->at < 2 || memcmp(s->text + s->at, "\\u", 2) != 0) return HD_OK;
    size_t const second = s->at;
    s->at += 2;
    HD_TRY(scan_hex(s, second, &low));
    if (low < 0xDC00 || low > 0xDFFF) {
        s->at = second; /* an escape by itself, which may begin a pair */
        return HD_OK;
    }
    uint32_t const c = 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
    if ((c & 0xF800) != 0xD800) return HD_OK;
    char const utf8[4] = {(char)(0xF0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3F)),
                          (char)(0x80 | (c >> 6 & 0x3F)), (char)(0x80 | (c & 0x3F))};
    replace(s, start, utf8, sizeof utf8);
    return HD_OK;
}

static hd_status scan_escape(hd_json_scan *s, bool *has_nul)
{
    size_t const start = s->at++;
    int const    c = peek(s);
    if (c < 0) return fail(s, start, "a string is not closed");
    s->at++;
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? HD_OK : fail(s, start, "bad escape in a string");
    uint32_t value;
    HD_TRY(scan_hex(s, start, &value));
    if (value == 0) *has_nul = true;
    return value >= 0xD800 && value <= 0xDBFF ? scan_low_surrogate(s, start, value) : HD_OK;
}

/* Moves from the opening quote past the closing one. */
static hd_status scan_string(hd_json_scan *s, bool *has_nul)
{
    size_t const start = s->at++;
    s->has_escape = *has_nul = false;
    for (;;) {
        int const c = peek(s);
        if (c < 0) return fail(s, start, "a string is not closed");
        if (c == '"') break;
        if (c < 0x20) return fail(s, s->at, "control character in a string");
        if (c == '\\') {
            s->has_escape = true;
            HD_TRY(scan_escape(s, has_nul));
            continue;
        }
        if (c < 0x80) {
            s->at++;
            continue;
        }
        int const n = hd_utf8_scan_measure(s->text + s->at, s->bytes - s->at);
        if (n <= 0) return fail(s, s->at, "not UTF-8");
        s->at += (size_t)n;
    }
    s->at++;
    return HD_OK;
}

/* Two spellings of one name are the same name, so one with escapes is decoded. */
static hd_status decode_name(const hd_json_scan *s, size_t start, json_object **name)
{
    const char *const quoted = s->text + start;
    size_t const      bytes = s->at - start;
    if (s->has_escape) return hd_json_parse(name, quoted, bytes, HD_JSON_STRICT, s->what, s->err);
    *name = json_object_new_string_len(quoted + 1, (int)bytes - 2);
    return *name ? HD_OK : fail_memory(s, "reading");
}

static hd_status note_name(hd_json_scan *s, size_t start)
{
    json_object **const names = &s->names[s->depth - 1];
    json_object        *name = NULL;
    HD_TRY(decode_name(s, start, &name));
    if (!*names) *names = json_object_new_object();
    const char *const key = hd_json_text(name, NULL);
    hd_status         status = HD_OK;
    if (!*names)
        status = fail_memory(s, "reading");
    else if (json_object_object_get_ex(*names, key, NULL))
        status = hd_error_set(s->err, HD_ERR_FORMAT, (int64_t)start,
                              "%s: byte %zu: the name %.100s stands twice in one object", s->what,
                              start, key);
    else if (json_object_object_add(*names, key, NULL) != 0)
        status = fail_memory(s, "reading");
    json_object_put(name);
    return status;
}

static hd_status scan_name(hd_json_scan *s)
{
    size_t const start = s->at;
    bool         has_nul;
    HD_TRY(scan_string(s, &has_nul));
    if (has_nul && !s->is_check) return fail(s, start, "a name holds U+0000");
    if (s->flags & HD_JSON_UNIQUE) HD_TRY(note_name(s, start));
    s->want = HD_JSON_WANT_COLON;
    return HD_OK;
}

/* ---- numbers ---- */

static size_t skip_digits(hd_json_scan *s)
{
    size_t const start = s->at;
    while (is_digit(peek(s))) s->at++;
    return s->at - start;
}

/* Whether digits [n], without a leading zero, fit neither int64_t nor uint64_t. */
static bool is_big(const char *digits, size_t n, bool is_negative)
{
    const char *const most = is_negative ? "9223372036854775808" : "18446744073709551615";
    size_t const      n_most = strlen(most);
    return n > n_most || (n == n_most && memcmp(digits, most, n) > 0);
}

static hd_status scan_number(hd_json_scan *s)
{
    size_t const start = s->at;
    bool const   is_negative = peek(s) == '-';
    s->at += is_negative;
    size_t const digits = s->at, n = skip_digits(s);
    if (n == 0 || (n > 1 && s->text[digits] == '0')) return fail(s, start, "bad number");
    bool is_integer = true;
    if (peek(s) == '.') {
        is_integer = false;
        s->at++;
        if (skip_digits(s) == 0) return fail(s, start, "bad number");
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        is_integer = false;
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        if (skip_digits(s) == 0) return fail(s, start, "bad number");
    }
    if (s->is_check || !is_integer) return HD_OK;
    bool const keeps = s->flags & HD_JSON_PYTHON, big = is_big(s->text + digits, n, is_negative);
    if (big && !keeps) return fail(s, start, "an integer does not fit 64 bits");
    if (big || (keeps && is_negative && s->text[digits] == '0')) replace(s, s->at, ".", 1);
    return HD_OK;
}

/* ---- structure ---- */

static bool scan_word(hd_json_scan *s, const char *word)
{
    size_t const n = strlen(word);
    if (s->bytes - s->at < n || memcmp(s->text + s->at, word, n) != 0) return false;
    s->at += n;
    return true;
}

static hd_status scan_scalar(hd_json_scan *s)
{
    int const c = peek(s);
    bool      has_nul;
    if (c == '"') return scan_string(s, &has_nul);
    if (scan_word(s, "true") || scan_word(s, "false") || scan_word(s, "null")) return HD_OK;
    if (s->flags & HD_JSON_PYTHON &&
        (scan_word(s, "NaN") || scan_word(s, "Infinity") || scan_word(s, "-Infinity")))
        return HD_OK;
    if (c == '-' || is_digit(c)) return scan_number(s);
    return fail(s, s->at, c < 0 ? "the text ends where a value is needed" : "a value is needed");
}

static hd_status scan_open(hd_json_scan *s, int c)
{
    if (s->depth == HD_JSON_MAX_DEPTH)
        return hd_error_set(s->err, HD_ERR_FORMAT, (int64_t)s->at,
                            "%s: byte %zu: nested deeper than %d levels", s->what, s->at,
                            HD_JSON_MAX_DEPTH);
    s->open[s->depth++] = (char)c;
    if (s->depth > s->deepest) s->deepest = s->depth;
    s->at++;
    s->want = c == '{' ? HD_JSON_WANT_NAME_OR_END : HD_JSON_WANT_VALUE_OR_END;
    return HD_OK;
}

static void scan_close(hd_json_scan *s)
{
    json_object **const names = &s->names[--s->depth];
    json_object_put(*names);
    *names = NULL;
    s->at++;
    s->want = s->depth ? HD_JSON_WANT_COMMA_OR_END : HD_JSON_WANT_NOTHING;
}

static hd_status scan_value(hd_json_scan *s)
{
    int const c = peek(s);
    if (c == '{' || c == '[') return scan_open(s, c);
    HD_TRY(scan_scalar(s));
    s->want = s->depth ? HD_JSON_WANT_COMMA_OR_END : HD_JSON_WANT_NOTHING;
    return HD_OK;
}

static hd_status scan_comma(hd_json_scan *s, int c)
{
    bool const in_object = s->open[s->depth - 1] == '{';
    if (c != ',') return fail(s, s->at, in_object ? "needed: , or }" : "needed: , or ]");
    s->at++;
    s->want = in_object ? HD_JSON_WANT_NAME : HD_JSON_WANT_VALUE;
    return HD_OK;
}

static hd_status scan_token(hd_json_scan *s)
{
    int const  c = peek(s);
    bool const is_end = s->depth && c == (s->open[s->depth - 1] == '{' ? '}' : ']');
    switch (s->want) {
    case HD_JSON_WANT_COLON:
        if (c != ':') return fail(s, s->at, "needed: a colon");
        s->at++;
        s->want = HD_JSON_WANT_VALUE;
        return HD_OK;
    case HD_JSON_WANT_COMMA_OR_END:
    case HD_JSON_WANT_NAME_OR_END:
    case HD_JSON_WANT_VALUE_OR_END:
        if (!is_end) break;
        scan_close(s);
        return HD_OK;
    default: break;
    }
    if (s->want == HD_JSON_WANT_COMMA_OR_END) return scan_comma(s, c);
    if (s->want == HD_JSON_WANT_VALUE || s->want == HD_JSON_WANT_VALUE_OR_END) return scan_value(s);
    return c == '"' ? scan_name(s) : fail(s, s->at, "needed: a name in quotes");
}

/* ---- pieces ---- */

static hd_json_kind kind_of(char first, bool is_name)
{
    switch (first) {
    case '{': return HD_JSON_OBJECT;
    case '[': return HD_JSON_LIST;
    case '}':
    case ']': return HD_JSON_CLOSE;
    case '"': return is_name ? HD_JSON_NAME : HD_JSON_TEXT;
    default: break;
    }
    return is_digit(first) || first == '-' ? HD_JSON_NUMBER : HD_JSON_WORD;
}

static hd_status scan_end(hd_json_scan *s, hd_json_piece *out)
{
    skip_space(s);
    if (s->at < s->bytes) return fail(s, s->at, "text after the JSON value");
    if (s->copied) hd_buffer_add(&s->copy, s->text + s->copied, s->bytes - s->copied);
    *out = (hd_json_piece){HD_JSON_END, {s->at, 0}, false};
    return s->copy.failed ? fail_memory(s, "copying") : HD_OK;
}

hd_status hd_json_scan_next(hd_json_scan *s, hd_json_piece *out)
{
    for (;;) {
        if (s->want == HD_JSON_WANT_NOTHING) return scan_end(s, out);
        skip_space(s);
        size_t const       start = s->at;
        hd_json_want const want = s->want;
        HD_TRY(scan_token(s));
        char const first = s->text[start];
        if (first == ':' || first == ',') continue;
        bool const is_name = want == HD_JSON_WANT_NAME || want == HD_JSON_WANT_NAME_OR_END;
        *out = (hd_json_piece){kind_of(first, is_name), {start, s->at - start}, s->has_escape};
        return HD_OK;
    }
}

hd_status hd_json_scan_rest(hd_json_scan *s, const hd_json_piece *first, hd_json_span *value)
{
    hd_json_piece p = *first;
    if (first->kind == HD_JSON_OBJECT || first->kind == HD_JSON_LIST)
        for (int const depth = s->depth; p.kind != HD_JSON_CLOSE || s->depth >= depth;)
            HD_TRY(hd_json_scan_next(s, &p));
    *value = (hd_json_span){first->span.at, p.span.at + p.span.bytes - first->span.at};
    return HD_OK;
}

void hd_json_scan_close(hd_json_scan *s)
{
    for (int i = 0; i < s->depth; i++) json_object_put(s->names[i]);
    hd_buffer_free(&s->copy);
}
