#include "base/json.h"

#include <json-c/json_visit.h>
#include <limits.h>
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

typedef enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END,
    EXPECT_NAME,
    EXPECT_NAME_OR_END,
    EXPECT_COLON,
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING
} expect;

typedef struct scan {
    const char  *text;
    size_t       bytes, at;
    unsigned     flags;
    bool         is_check; /* nothing is built, so nothing that json-c lacks matters */
    const char  *what;
    hd_error    *err;
    expect       want;
    int          depth, deepest;
    char         open[HD_JSON_MAX_DEPTH];  /* '[' or '{' of each open level             */
    json_object *names[HD_JSON_MAX_DEPTH]; /* owned; names seen so far, for HD_JSON_UNIQUE */
    hd_buffer    copy;                     /* text [0, copied), with replacements           */
    size_t       copied;
} scan;

static hd_status fail(const scan *s, size_t at, const char *message)
{
    return hd_error_set(s->err, HD_ERR_FORMAT, (int64_t)at, "%s: byte %zu: %s", s->what, at,
                        message);
}

static hd_status fail_memory(const scan *s, const char *doing)
{
    HD_FAIL(s->err, HD_ERR_MEMORY, "%s: out of memory %s %zu bytes of JSON", s->what, doing,
            s->bytes);
}

static int peek(const scan *s) { return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1; }

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static void skip_space(scan *s)
{
    for (int c; (c = peek(s)) == ' ' || c == '\t' || c == '\n' || c == '\r';) s->at++;
}

/* ---- strings ---- */

/* Four hexadecimal digits of an escape that began at `start`. */
static hd_status scan_hex(scan *s, size_t start, uint32_t *value)
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
static void replace(scan *s, size_t start, const char *text, size_t bytes)
{
    if (s->is_check) return;
    hd_buffer_add(&s->copy, s->text + s->copied, start - s->copied);
    hd_buffer_add(&s->copy, text, bytes);
    s->copied = s->at;
}

/* The second half of a pair of surrogates that began at `start`, if there is one. */
static hd_status scan_low_surrogate(scan *s, size_t start, uint32_t high)
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

static hd_status scan_escape(scan *s, bool *has_nul)
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
static hd_status scan_string(scan *s, bool *has_escape, bool *has_nul)
{
    size_t const start = s->at++;
    *has_escape = *has_nul = false;
    for (;;) {
        int const c = peek(s);
        if (c < 0) return fail(s, start, "a string is not closed");
        if (c == '"') break;
        if (c < 0x20) return fail(s, s->at, "control character in a string");
        if (c == '\\') {
            *has_escape = true;
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
static hd_status decode_name(const scan *s, size_t start, bool has_escape, json_object **name)
{
    const char *const quoted = s->text + start;
    size_t const      bytes = s->at - start;
    if (has_escape) return hd_json_parse(name, quoted, bytes, HD_JSON_STRICT, s->what, s->err);
    *name = json_object_new_string_len(quoted + 1, (int)bytes - 2);
    return *name ? HD_OK : fail_memory(s, "reading");
}

static hd_status note_name(scan *s, size_t start, bool has_escape)
{
    json_object **const names = &s->names[s->depth - 1];
    json_object        *name = NULL;
    HD_TRY(decode_name(s, start, has_escape, &name));
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

static hd_status scan_name(scan *s)
{
    size_t const start = s->at;
    bool         has_escape, has_nul;
    HD_TRY(scan_string(s, &has_escape, &has_nul));
    if (has_nul && !s->is_check) return fail(s, start, "a name holds U+0000");
    if (s->flags & HD_JSON_UNIQUE) HD_TRY(note_name(s, start, has_escape));
    s->want = EXPECT_COLON;
    return HD_OK;
}

/* ---- numbers ---- */

static size_t skip_digits(scan *s)
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

static hd_status scan_number(scan *s)
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

static bool scan_word(scan *s, const char *word)
{
    size_t const n = strlen(word);
    if (s->bytes - s->at < n || memcmp(s->text + s->at, word, n) != 0) return false;
    s->at += n;
    return true;
}

static hd_status scan_scalar(scan *s)
{
    int const c = peek(s);
    bool      has_escape, has_nul;
    if (c == '"') return scan_string(s, &has_escape, &has_nul);
    if (scan_word(s, "true") || scan_word(s, "false") || scan_word(s, "null")) return HD_OK;
    if (s->flags & HD_JSON_PYTHON &&
        (scan_word(s, "NaN") || scan_word(s, "Infinity") || scan_word(s, "-Infinity")))
        return HD_OK;
    if (c == '-' || is_digit(c)) return scan_number(s);
    return fail(s, s->at, c < 0 ? "the text ends where a value is needed" : "a value is needed");
}

static hd_status scan_open(scan *s, int c)
{
    if (s->depth == HD_JSON_MAX_DEPTH)
        return hd_error_set(s->err, HD_ERR_FORMAT, (int64_t)s->at,
                            "%s: byte %zu: nested deeper than %d levels", s->what, s->at,
                            HD_JSON_MAX_DEPTH);
    s->open[s->depth++] = (char)c;
    if (s->depth > s->deepest) s->deepest = s->depth;
    s->at++;
    s->want = c == '{' ? EXPECT_NAME_OR_END : EXPECT_VALUE_OR_END;
    return HD_OK;
}

static void scan_close(scan *s)
{
    json_object **const names = &s->names[--s->depth];
    json_object_put(*names);
    *names = NULL;
    s->at++;
    s->want = s->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static hd_status scan_value(scan *s)
{
    int const c = peek(s);
    if (c == '{' || c == '[') return scan_open(s, c);
    HD_TRY(scan_scalar(s));
    s->want = s->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
    return HD_OK;
}

static hd_status scan_comma(scan *s, int c)
{
    bool const in_object = s->open[s->depth - 1] == '{';
    if (c != ',') return fail(s, s->at, in_object ? "needed: , or }" : "needed: , or ]");
    s->at++;
    s->want = in_object ? EXPECT_NAME : EXPECT_VALUE;
    return HD_OK;
}

static hd_status scan_token(scan *s)
{
    int const  c = peek(s);
    bool const is_end = s->depth && c == (s->open[s->depth - 1] == '{' ? '}' : ']');
    switch (s->want) {
    case EXPECT_COLON:
        if (c != ':') return fail(s, s->at, "needed: a colon");
        s->at++;
        s->want = EXPECT_VALUE;
        return HD_OK;
    case EXPECT_COMMA_OR_END:
    case EXPECT_NAME_OR_END:
    case EXPECT_VALUE_OR_END:
        if (!is_end) break;
        scan_close(s);
        return HD_OK;
    default: break;
    }
    if (s->want == EXPECT_COMMA_OR_END) return scan_comma(s, c);
    if (s->want == EXPECT_VALUE || s->want == EXPECT_VALUE_OR_END) return scan_value(s);
    return c == '"' ? scan_name(s) : fail(s, s->at, "needed: a name in quotes");
}

static hd_status scan_text(scan *s)
{
    while (s->want != EXPECT_NOTHING) {
        skip_space(s);
        HD_TRY(scan_token(s));
    }
    skip_space(s);
    if (s->at < s->bytes) return fail(s, s->at, "text after the JSON value");
    if (s->copied) hd_buffer_add(&s->copy, s->text + s->copied, s->bytes - s->copied);
    return s->copy.failed ? fail_memory(s, "copying") : HD_OK;
}

/* ---- json-c ---- */

static int unmark_big(json_object *v, int flags, json_object *parent, const char *key,
                      size_t *index, void *user)
{
    (void)parent, (void)key, (void)index, (void)user;
    if (flags & JSON_C_VISIT_SECOND || !json_object_is_type(v, json_type_double))
        return JSON_C_VISIT_RETURN_CONTINUE;
    char *const  source = json_object_get_userdata(v);
    size_t const n = source ? strlen(source) : 0;
    if (n && source[n - 1] == '.') source[n - 1] = 0;
    return JSON_C_VISIT_RETURN_CONTINUE;
}

/* A number at the very end is only known to be complete when something follows it. */
static json_object *build_tree(json_tokener *tok, const char *text, size_t bytes)
{
    json_object *v = json_tokener_parse_ex(tok, text, (int)bytes);
    if (json_tokener_get_error(tok) == json_tokener_continue)
        v = json_tokener_parse_ex(tok, "\n", 1);
    return v;
}

static hd_status build(json_object **out, const scan *s)
{
    json_tokener *const tok = json_tokener_new_ex(s->deepest + 2);
    if (!tok) return fail_memory(s, "reading");
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
    const bool         is_marked = s->copied > 0;
    json_object *const v =
        build_tree(tok, is_marked ? s->copy.data : s->text, is_marked ? s->copy.used : s->bytes);
    enum json_tokener_error const failure = json_tokener_get_error(tok);
    json_tokener_free(tok);
    /* The text was checked, so only memory is left to fail. */
    if (failure != json_tokener_success) return fail_memory(s, "reading");
    if (is_marked) json_c_visit(v, 0, unmark_big, NULL);
    *out = v;
    return HD_OK;
}

hd_status hd_json_parse(json_object **out, const char *text, size_t bytes, unsigned flags,
                        const char *what, hd_error *err)
{
    if (bytes >= INT_MAX)
        HD_FAIL(err, HD_ERR_LIMIT, "%s: %zu bytes of JSON; at most %d can be read", what, bytes,
                INT_MAX - 1);
    scan s = {.text = text, .bytes = bytes, .flags = flags, .what = what, .err = err};

    hd_status status = scan_text(&s);
    if (status == HD_OK && s.copy.used >= INT_MAX) status = fail_memory(&s, "copying");
    if (status == HD_OK) status = build(out, &s);
    for (int i = 0; i < s.depth; i++) json_object_put(s.names[i]);
    hd_buffer_free(&s.copy);
    return status;
}

bool hd_json_is_valid(const char *text, size_t bytes)
{
    scan s = {.text = text, .bytes = bytes, .is_check = true, .what = ""};
    return scan_text(&s) == HD_OK;
}

/* json-c's getters take pointers to non-const but change nothing that we see. */
static json_object *unconst(const json_object *v) { return (json_object *)(uintptr_t)v; }

const char *hd_json_big_integer(const json_object *v)
{
    if (!json_object_is_type(v, json_type_double)) return NULL;
    /* json-c keeps the text of a double that it parsed as the object's userdata. */
    const char *const source = json_object_get_userdata(unconst(v));
    return source && source[strspn(source, "-0123456789")] == 0 ? source : NULL;
}

const char *hd_json_text(const json_object *v, size_t *bytes)
{
    if (!json_object_is_type(v, json_type_string)) return NULL;
    if (bytes) *bytes = (size_t)json_object_get_string_len(v);
    return json_object_get_string(unconst(v));
}

bool hd_json_equals(const json_object *v, const char *text)
{
    size_t            bytes;
    const char *const s = hd_json_text(v, &bytes);
    return s && bytes == strlen(text) && memcmp(s, text, bytes) == 0;
}

const json_object *hd_json_member(const json_object *v, const char *name)
{
    json_object *member = NULL;
    if (json_object_is_type(v, json_type_object)) json_object_object_get_ex(v, name, &member);
    return member;
}
