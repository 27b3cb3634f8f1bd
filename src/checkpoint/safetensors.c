#include "checkpoint/safetensors.h"
#include "base/json_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META             "__metadata__"
#define LENGTH_BYTES     ((size_t)8) /* the header's length, little-endian, opens the file */
#define MAX_TENSORS      10000000
#define MAX_ENTRY_BYTES  ((size_t)64 << 10) /* text of one tensor in the header */
#define MAX_META_BYTES   ((size_t)16 << 20) /* text of __metadata__             */
#define MIN_TENSOR_BYTES ((size_t)40)       /* no entry of a tensor is shorter  */

/* ---- the header's outermost object ---- */

/* The outermost object is walked here and its entries go to the JSON parser one by one: a
 * header of 100 MB may hold millions of tensors, whose parse tree would take gigabytes. */
typedef struct cursor {
    const char *text; /* the header */
    size_t      bytes, at;
} cursor;

typedef struct header_entry {
    size_t at, bytes; /* of `"name": value` in the header */
} header_entry;

static char peek(const cursor *c) { return c->at < c->bytes ? c->text[c->at] : '\0'; }

static void skip_space(cursor *c)
{
    while (c->at < c->bytes && memchr(" \t\r\n", c->text[c->at], 4)) c->at++;
}

/* From an opening quote to behind the closing one, or to the end of the text. */
static void skip_string(cursor *c)
{
    for (c->at++; c->at < c->bytes && c->text[c->at] != '"'; c->at++)
        if (c->text[c->at] == '\\') c->at++;
    if (c->at < c->bytes) c->at++;
    if (c->at > c->bytes) c->at = c->bytes;
}

/* To the comma or brace that ends the entry.  Whether what lies between is JSON is for the
 * parser to say. */
static void skip_entry(cursor *c)
{
    for (int64_t depth = 0; c->at < c->bytes;) {
        char const ch = c->text[c->at];
        if (depth == 0 && (ch == ',' || ch == '}')) return;
        if (ch == '{' || ch == '[') depth++;
        if (ch == '}' || ch == ']') depth--;
        if (ch == '"')
            skip_string(c);
        else
            c->at++;
    }
}

typedef enum walk { WALK_ENTRY, WALK_END, WALK_BAD } walk;

/* The next entry; the cursor starts at 0. */
static walk next_entry(cursor *c, header_entry *out)
{
    bool const is_first = c->at == 0;
    skip_space(c);
    if (!is_first && peek(c) == '}') {
        c->at++;
        skip_space(c);
        return c->at == c->bytes ? WALK_END : WALK_BAD;
    }
    if (peek(c) != (is_first ? '{' : ',')) return WALK_BAD;
    c->at++;
    skip_space(c);
    if (is_first && peek(c) == '}') return next_entry(c, out);
    if (peek(c) != '"') return WALK_BAD;
    out->at = c->at;
    skip_entry(c);
    out->bytes = c->at - out->at;
    return WALK_ENTRY;
}

static bool entry_is_meta(const cursor *c, const header_entry *e)
{
    static const char key[] = "\"" META "\"";
    return e->bytes >= sizeof key - 1 && memcmp(c->text + e->at, key, sizeof key - 1) == 0;
}

/* ---- one entry ---- */

typedef struct parse_state {
    hd_st_file    *file;
    const char    *what;
    const uint8_t *data; /* [data_bytes] behind the header */
    size_t         data_bytes;
    cursor         header;
    hd_buffer      entry; /* text of the entry in hand, as an object of one */
    hd_error      *err;
} parse_state;

/* Reports at an offset of the header. */
#define FAIL_AT(s, at, code, ...) \
    return hd_error_set((s)->err, (code), (int64_t)(LENGTH_BYTES + (at)), __VA_ARGS__)

/* Copies an entry to s->entry, as an object of one member. */
static hd_status copy_entry(parse_state *s, const header_entry *e)
{
    size_t const most = entry_is_meta(&s->header, e) ? MAX_META_BYTES : MAX_ENTRY_BYTES;
    if (e->bytes > most)
        FAIL_AT(s, e->at, HD_ERR_FORMAT,
                "%s: header entry %.80s...: %zu bytes, at most %zu are read", s->what,
                s->header.text + e->at, e->bytes, most);
    hd_buffer_clear(&s->entry);
    hd_buffer_text(&s->entry, "{");
    hd_buffer_add(&s->entry, s->header.text + e->at, e->bytes);
    hd_buffer_text(&s->entry, "}");
    if (s->entry.failed) HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for the header", s->what);
    return HD_OK;
}

/* The entry in hand as a tree.  owns  *out is the caller's */
static hd_status parse_entry(parse_state *s, const header_entry *e, json_object **out)
{
    char what[256]; /* offsets in the parser's messages count from the entry */
    snprintf(what, sizeof what, "%.200s: header entry at byte %zu", s->what, LENGTH_BYTES + e->at);
    hd_status const status =
        hd_json_parse(out, s->entry.data, s->entry.used, HD_JSON_STRICT, what, s->err);
    if (status != HD_OK && s->err && s->err->where > 0)
        s->err->where += (int64_t)(LENGTH_BYTES + e->at) - 1;
    return status;
}

/* ---- a tensor's entry ----
 * A header has one for each of up to millions of tensors, so no tree is built: the scanner checks
 * the text and tells where the values stand. */

/* What an entry says, where it stands in s->entry; of members that are there twice the last. */
typedef struct tensor_text {
    hd_json_span value, dtype, shape, data_offsets; /* bytes = 0: missing */
    bool         is_object;
} tensor_text;

static bool piece_is(const parse_state *s, const hd_json_piece *p, const char *name)
{
    size_t const n = strlen(name);
    return p->span.bytes == n + 2 && memcmp(s->entry.data + p->span.at + 1, name, n) == 0;
}

static hd_status scan_members(parse_state *s, hd_json_scan *j, tensor_text *out)
{
    for (;;) {
        hd_json_piece name, first;
        hd_json_span  value;
        HD_TRY(hd_json_scan_next(j, &name));
        if (name.kind == HD_JSON_CLOSE) return HD_OK;
        HD_TRY(hd_json_scan_next(j, &first));
        HD_TRY(hd_json_scan_rest(j, &first, &value));
        if (piece_is(s, &name, "dtype")) out->dtype = value;
        if (piece_is(s, &name, "shape")) out->shape = value;
        if (piece_is(s, &name, "data_offsets")) out->data_offsets = value;
    }
}

static hd_status scan_tensor(parse_state *s, hd_json_scan *j, hd_json_piece *name, tensor_text *out)
{
    hd_json_piece p;
    HD_TRY(hd_json_scan_next(j, &p));
    HD_TRY(hd_json_scan_next(j, name));
    HD_TRY(hd_json_scan_next(j, &p));
    out->is_object = p.kind == HD_JSON_OBJECT;
    if (out->is_object)
        HD_TRY(scan_members(s, j, out));
    else
        HD_TRY(hd_json_scan_rest(j, &p, &out->value));
    while (p.kind != HD_JSON_END) HD_TRY(hd_json_scan_next(j, &p));
    return HD_OK;
}

/* Text of a value for messages, which cut it off; "nothing" for a missing one. */
static const char *show(const parse_state *s, hd_json_span v)
{
    if (!v.bytes) return "nothing";
    s->entry.data[v.at + v.bytes] = '\0'; /* the entry is not read again */
    return s->entry.data + v.at;
}

/* The next of the counts in a list, each at most INT64_MAX; *at starts behind the bracket.
 * Returns false for any other value. */
static bool next_count(const char *text, size_t *at, int64_t *out)
{
    while (strchr(" \t\r\n,", text[*at]) && text[*at]) ++*at;
    if (text[*at] < '0' || text[*at] > '9') return false;
    uint64_t n = 0;
    for (; text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        uint64_t const digit = (uint64_t)(text[*at] - '0');
        if (n > (INT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    *out = (int64_t)n;
    return text[*at] && strchr(" \t\r\n,]", text[*at]);
}

/* How many values a list holds that has no list or object among them. */
static size_t list_length(const char *text, hd_json_span v)
{
    size_t n = 0, at = v.at + 1;
    while (strchr(" \t\r\n", text[at]) && text[at]) at++;
    if (text[at] == ']') return 0;
    for (; at < v.at + v.bytes; at++) n += text[at] == ',';
    return n + 1;
}

static bool is_list(const parse_state *s, hd_json_span v)
{
    return v.bytes && s->entry.data[v.at] == '[';
}

static hd_status read_dtype(parse_state *s, hd_json_span v, size_t at, hd_st_tensor *t)
{
    char name[64];
    if (!v.bytes || s->entry.data[v.at] != '"')
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: dtype is %.60s, not a string", s->what,
                t->name, show(s, v));
    snprintf(name, sizeof name, "%.*s", v.bytes > 62 ? 62 : (int)v.bytes - 2,
             s->entry.data + v.at + 1);
    if (!hd_st_dtype_from_name(&t->dtype, name))
        FAIL_AT(s, at, HD_ERR_UNSUPPORTED, "%s: tensor %.200s: unknown dtype %.60s", s->what,
                t->name, name);
    return HD_OK;
}

static hd_status read_shape(parse_state *s, hd_json_span v, size_t at, hd_st_tensor *t)
{
    if (!is_list(s, v))
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: shape is %.60s, not an array", s->what,
                t->name, show(s, v));
    size_t const rank = list_length(s->entry.data, v);
    if (rank > HD_ST_MAX_RANK)
        FAIL_AT(s, at, HD_ERR_UNSUPPORTED, "%s: tensor %.200s: %zu dimensions, at most %d are read",
                s->what, t->name, rank, HD_ST_MAX_RANK);
    t->rank = (int32_t)rank;
    size_t place = v.at + 1;
    for (size_t i = 0; i < rank; i++)
        if (!next_count(s->entry.data, &place, &t->shape[i]))
            FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: shape %.100s, want counts", s->what,
                    t->name, show(s, v));
    return HD_OK;
}

static hd_status read_range(parse_state *s, hd_json_span v, size_t at, hd_st_tensor *t)
{
    int64_t begin, end;
    size_t  place = v.at + 1;
    if (!is_list(s, v) || list_length(s->entry.data, v) != 2 ||
        !next_count(s->entry.data, &place, &begin) || !next_count(s->entry.data, &place, &end))
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: data_offsets %.100s, want two offsets",
                s->what, t->name, show(s, v));
    if (begin > end || (uint64_t)end > s->data_bytes)
        FAIL_AT(s, at, HD_ERR_FORMAT,
                "%s: tensor %.200s: data_offsets [%" PRId64 ", %" PRId64
                "], want a rising range in the file's %zu bytes of data",
                s->what, t->name, begin, end, s->data_bytes);
    t->data = s->data + begin;
    t->bytes = (size_t)(end - begin);
    return HD_OK;
}

static hd_status check_size(parse_state *s, size_t at, const hd_st_tensor *t)
{
    char   shape[160];
    size_t want;
    if (!hd_st_rows_end_on_bytes(t->dtype, t->rank, t->shape))
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: rows of %s do not end on a byte", s->what,
                t->name, hd_st_tensor_print(t, shape, sizeof shape));
    if (!hd_st_tensor_bytes(t->dtype, t->rank, t->shape, &want))
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s: %s is larger than any file", s->what,
                t->name, hd_st_tensor_print(t, shape, sizeof shape));
    if (want != t->bytes)
        FAIL_AT(s, at, HD_ERR_FORMAT,
                "%s: tensor %.200s: %s takes %zu bytes, data_offsets span %zu", s->what, t->name,
                hd_st_tensor_print(t, shape, sizeof shape), want, t->bytes);
    return HD_OK;
}

/* A name is what stands between the quotes, unless escapes stand for something else. */
static hd_status copy_name(parse_state *s, const header_entry *e, const hd_json_piece *name,
                           const char **out)
{
    json_object *tree = NULL;
    if (name->has_escape) {
        HD_TRY(parse_entry(s, e, &tree));
        struct json_object_iterator const it = json_object_iter_begin(tree);
        const char *const                 text = json_object_iter_peek_name(&it);
        *out = hd_pool_copy(&s->file->pool, text, strlen(text));
        json_object_put(tree);
    } else
        *out =
            hd_pool_copy(&s->file->pool, s->entry.data + name->span.at + 1, name->span.bytes - 2);
    if (!*out) HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for tensor names", s->what);
    return HD_OK;
}

static hd_status read_tensor(parse_state *s, size_t at, const tensor_text *x, hd_st_tensor *t)
{
    if (!x->is_object)
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: tensor %.200s is %.60s, not an object", s->what, t->name,
                show(s, x->value));
    HD_TRY(read_dtype(s, x->dtype, at, t));
    HD_TRY(read_shape(s, x->shape, at, t));
    HD_TRY(read_range(s, x->data_offsets, at, t));
    HD_TRY(check_size(s, at, t));
    s->file->n_tensors++;
    return HD_OK;
}

/* Borrowed from the value. */
static const char *show_tree(json_object *v)
{
    return v ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN) : "nothing";
}

static hd_status read_meta(parse_state *s, size_t at, json_object *strings)
{
    hd_st_file *const f = s->file;
    if (!json_object_is_type(strings, json_type_object))
        FAIL_AT(s, at, HD_ERR_FORMAT, "%s: __metadata__ is %.60s, not an object", s->what,
                show_tree(strings));
    if (f->meta) FAIL_AT(s, at, HD_ERR_FORMAT, "%s: __metadata__ is there twice", s->what);
    size_t const n = (size_t)json_object_object_length(strings);
    if (!(f->meta = hd_pool_alloc(&f->pool, n * sizeof *f->meta)))
        HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for __metadata__", s->what);
    json_object_object_foreach(strings, key, value)
    {
        if (!json_object_is_type(value, json_type_string))
            FAIL_AT(s, at, HD_ERR_FORMAT, "%s: __metadata__ %.80s is %.60s, not a string", s->what,
                    key, show_tree(value));
        hd_st_meta *const m = f->meta + f->n_meta++;
        m->key = hd_pool_copy(&f->pool, key, strlen(key));
        m->value = hd_pool_copy(&f->pool, json_object_get_string(value),
                                (size_t)json_object_get_string_len(value));
        if (!m->key || !m->value)
            HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for __metadata__", s->what);
    }
    return HD_OK;
}

/* Writers escape little: where one does, the entry is spelled anew with no more than it needs. */
static hd_status respell_entry(parse_state *s, const header_entry *e)
{
    json_object *tree;
    HD_TRY(parse_entry(s, e, &tree));
    const char *const text = json_object_to_json_string_ext(
        tree, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    hd_buffer_clear(&s->entry);
    if (text) hd_buffer_text(&s->entry, text);
    json_object_put(tree);
    if (!text || s->entry.failed)
        HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for the header", s->what);
    return HD_OK;
}

static hd_status read_meta_entry(parse_state *s, const header_entry *e)
{
    json_object *object;
    HD_TRY(parse_entry(s, e, &object));
    hd_status const status = read_meta(s, e->at, json_object_object_get(object, META));
    json_object_put(object);
    return status;
}

static hd_status read_entry(parse_state *s, const header_entry *e)
{
    hd_st_tensor *const t = s->file->tensors + s->file->n_tensors;
    tensor_text         x = {.is_object = false};
    hd_json_piece       name;
    HD_TRY(copy_entry(s, e));
    if (entry_is_meta(&s->header, e)) return read_meta_entry(s, e);
    if (memchr(s->entry.data, '\\', s->entry.used)) HD_TRY(respell_entry(s, e));
    hd_json_scan    j = {.text = s->entry.data, .bytes = s->entry.used, .what = s->what};
    hd_status const scanned = scan_tensor(s, &j, &name, &x);
    hd_json_scan_close(&j);
    if (scanned != HD_OK) { /* the same check again, with a message that says where */
        json_object *none = NULL;
        HD_TRY(parse_entry(s, e, &none));
        json_object_put(none);
        return scanned;
    }
    HD_TRY(copy_name(s, e, &name, &t->name));
    if (strcmp(t->name, META) == 0) return read_meta_entry(s, e);
    return read_tensor(s, e->at, &x, t);
}

/* ---- the whole file ---- */

/* Counts the entries, so that their memory is taken once and is bounded by the text. */
static hd_status count_entries(parse_state *s, int64_t *n)
{
    cursor       c = s->header;
    header_entry e;
    walk         w;
    for (*n = 0; (w = next_entry(&c, &e)) == WALK_ENTRY;) ++*n;
    if (w == WALK_BAD)
        FAIL_AT(s, c.at, HD_ERR_FORMAT, "%s: the header is no JSON object of tensors: byte %zu",
                s->what, LENGTH_BYTES + c.at);
    if (*n > MAX_TENSORS || (uint64_t)*n > s->header.bytes / MIN_TENSOR_BYTES + 1)
        FAIL_AT(s, 0, HD_ERR_FORMAT, "%s: the header names %" PRId64 " tensors in %zu bytes",
                s->what, *n, s->header.bytes);
    return HD_OK;
}

static hd_status read_entries(parse_state *s)
{
    int64_t n;
    HD_TRY(count_entries(s, &n));
    hd_st_file *const f = s->file;
    if (!(f->tensors = hd_pool_alloc(&f->pool, (size_t)n * sizeof *f->tensors)))
        HD_FAIL(s->err, HD_ERR_MEMORY, "%s: no memory for %" PRId64 " tensors", s->what, n);
    header_entry e;
    for (cursor c = s->header; next_entry(&c, &e) == WALK_ENTRY;) HD_TRY(read_entry(s, &e));
    return HD_OK;
}

/* By place in the file; an empty tensor goes before the one that starts where it lies. */
static int compare_places(const void *a, const void *b)
{
    const hd_st_tensor *const x = a, *const y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void sort_by_place(hd_st_file *f)
{
    qsort(f->tensors, (size_t)f->n_tensors, sizeof *f->tensors, compare_places);
}

/* The tensors must cover the data exactly: an overlap hides one tensor in another, a hole or a
 * tail hides what nobody looks at, or tells that the file was cut or joined. */
static hd_status check_cover(parse_state *s)
{
    hd_st_file *const f = s->file;
    const uint8_t    *at = s->data;
    const char       *before = "the header";
    for (int32_t i = 0; i < f->n_tensors; i++) {
        const hd_st_tensor *const t = f->tensors + i;
        if (t->data < at)
            FAIL_AT(s, s->header.bytes + (size_t)(t->data - s->data), HD_ERR_FORMAT,
                    "%s: tensors %.150s and %.150s overlap by %zu bytes", s->what, before, t->name,
                    (size_t)(at - t->data));
        if (t->data > at)
            FAIL_AT(s, s->header.bytes + (size_t)(at - s->data), HD_ERR_FORMAT,
                    "%s: %zu bytes between %.150s and %.150s belong to no tensor", s->what,
                    (size_t)(t->data - at), before, t->name);
        at = t->data + t->bytes;
        before = t->name;
    }
    size_t const rest = s->data_bytes - (size_t)(at - s->data);
    if (rest)
        FAIL_AT(s, s->header.bytes + (size_t)(at - s->data), HD_ERR_FORMAT,
                "%s: the last %zu bytes, after %.150s, belong to no tensor", s->what, rest, before);
    return HD_OK;
}

static hd_status map_names(parse_state *s)
{
    hd_st_file *const f = s->file;
    HD_TRY(hd_name_map_open(&f->by_name, f->n_tensors, &f->pool, s->err));
    for (int32_t i = 0; i < f->n_tensors; i++) hd_name_map_add(&f->by_name, f->tensors[i].name, i);
    int32_t twins[2];
    if (!hd_name_map_sort(&f->by_name, twins))
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: tensor %.300s is there twice", s->what,
                f->tensors[twins[0]].name);
    return HD_OK;
}

static hd_status find_header(parse_state *s, const uint8_t *file, size_t bytes)
{
    if (bytes < LENGTH_BYTES)
        HD_FAIL(s->err, HD_ERR_FORMAT, "%s: %zu bytes are no safetensors file", s->what, bytes);
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)file[i] << 8 * i;
    if (length > HD_ST_MAX_HEADER || length > bytes - LENGTH_BYTES)
        return hd_error_set(s->err, HD_ERR_FORMAT, 0,
                            "%s: header of %" PRIu64
                            " bytes in a file of %zu, at most %zu are read",
                            s->what, length, bytes, HD_ST_MAX_HEADER);
    s->header = (cursor){(const char *)file + LENGTH_BYTES, (size_t)length, 0};
    s->data = file + LENGTH_BYTES + length;
    s->data_bytes = bytes - LENGTH_BYTES - (size_t)length;
    return HD_OK;
}

static hd_status parse_file(parse_state *s, const uint8_t *data, size_t bytes)
{
    HD_TRY(find_header(s, data, bytes));
    HD_TRY(read_entries(s));
    sort_by_place(s->file);
    HD_TRY(map_names(s)); /* first: a tensor that is there twice also overlaps itself */
    return check_cover(s);
}

hd_status hd_st_parse(hd_st_file *out, const uint8_t *data, size_t bytes, const char *what,
                      hd_error *err)
{
    hd_st_file      file = {0};
    parse_state     s = {.file = &file, .what = what, .err = err};
    hd_status const status = parse_file(&s, data, bytes);
    hd_buffer_free(&s.entry);
    if (status == HD_OK)
        *out = file;
    else
        hd_st_close(&file);
    return status;
}

hd_status hd_st_open(hd_st_file *out, const char *path, hd_error *err)
{
    hd_file map;
    HD_TRY(hd_file_map(&map, path, err));
    hd_status const status = hd_st_parse(out, map.data, map.bytes, path, err);
    if (status == HD_OK)
        out->map = map;
    else
        hd_file_unmap(&map);
    return status;
}

void hd_st_forget(hd_st_file *f)
{
    hd_pool_free(&f->pool);
    *f = (hd_st_file){.map = f->map};
}

void hd_st_close(hd_st_file *f)
{
    hd_st_forget(f);
    hd_file_unmap(&f->map);
}

const hd_st_tensor *hd_st_find(const hd_st_file *f, const char *name)
{
    int32_t const i = hd_name_map_find(&f->by_name, name);
    return i < 0 ? NULL : f->tensors + i;
}
