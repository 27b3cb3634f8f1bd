#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "checkpoint/names.h"
#include "doctor/audit_parts.h"
#include "doctor/module_pattern.h"

/* What config.json and hf_quant_config.json say of modules, in lists and groups, held against the
 * tensors. */

/* A statement: the object that describes quantization, and the file that it stands in. */
typedef struct statement {
    hd_audit          *a;
    const char        *file;
    const json_object *q;
} statement;

static void say(const statement *s, hd_severity severity, const char *tensor, const char *what)
{
    hd_finding_head const head = {severity, "config-says", tensor, s->file};
    hd_findings_add(&s->a->findings, &head, "%s says %s", s->file, what);
}

/* ---- which matrices a name means ----
 * Modules are named plainly, by globs (ModelOpt) or by "re:" and an expression of Python's
 * (compressed-tensors), as the file spells them, officially, or as Hugging Face does. */

/* So many globs and expressions are held against every matrix; more are taken as names only. */
#define MAX_PATTERNS 64

/* The spellings of a matrix, without suffix. */
typedef struct spellings {
    char file[HD_NAME_MAX], hugging_face[HD_NAME_MAX];
} spellings;

static void spell(const hd_scanned *m, spellings *out)
{
    static const char *const suffixes[] = {".weight", ".weight_packed"};
    snprintf(out->file, sizeof out->file, "%s", m->w->st.name);
    size_t const n = strlen(out->file);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t const e = strlen(suffixes[i]);
        if (n > e && strcmp(out->file + n - e, suffixes[i]) == 0) out->file[n - e] = '\0';
    }
    if (!hd_name_hugging_face(out->hugging_face, sizeof out->hugging_face, m->name))
        out->hugging_face[0] = '\0';
}

static bool fits_pattern(const hd_module_pattern *p, const hd_scanned *m)
{
    spellings s;
    spell(m, &s);
    return hd_module_pattern_fits(p, m->name) || hd_module_pattern_fits(p, s.file) ||
           hd_module_pattern_fits(p, s.hugging_face);
}

/* Globs are also written for names of tensors. */
static bool fits_glob(const char *glob, const hd_scanned *m)
{
    spellings s;
    spell(m, &s);
    return fnmatch(glob, m->name, 0) == 0 || fnmatch(glob, m->w->st.name, 0) == 0 ||
           fnmatch(glob, s.file, 0) == 0 || fnmatch(glob, s.hugging_face, 0) == 0;
}

static const char *expression_of(const char *module)
{
    return strncmp(module, "re:", 3) == 0 ? module + 3 : NULL;
}

static bool is_glob(const char *module) { return strpbrk(module, "*?[") != NULL; }

/* Whether a matrix is a module, or in it. */
static bool is_in(const char *module, const char *matrix)
{
    size_t const n = strlen(module);
    return strncmp(matrix, module, n) == 0 && (matrix[n] == '\0' || matrix[n] == '.');
}

/* Whether a module of a list means a matrix. */
static bool fits(const char *module, hd_module_pattern *room, const hd_scanned *m)
{
    const char *const expression = expression_of(module);
    spellings         s;
    if (expression) return hd_module_pattern_parse(room, expression) && fits_pattern(room, m);
    if (is_glob(module)) return fits_glob(module, m);
    spell(m, &s);
    return is_in(module, m->name) || is_in(module, s.file) || is_in(module, s.hugging_face);
}

/* Whether a matrix in `module` (in the file's own spelling) is of format f. */
static bool has_format_in(const hd_audit *a, const char *module, hd_format f)
{
    /* Modules are told by what stands in front of a suffix. */
    static const char        suffix[] = ".weight";
    char                     full[HD_NAME_MAX], official[HD_NAME_MAX];
    const hd_name_map *const m = &a->model.by_name;
    int const                length = snprintf(full, sizeof full, "%s%s", module, suffix);
    if (length < 0 || (size_t)length >= sizeof full) return false;
    if (!hd_name_official(official, sizeof official, full)) return false;
    char *const end = strstr(official, suffix); /* none behind "model", which goes */
    if (!end || end[sizeof suffix - 1]) return false;
    *end = '\0';
    size_t const n = strlen(official);
    for (int32_t i = hd_name_map_lower(m, official); i < m->used; i++) {
        const char *const name = m->entries[i].name;
        if (strncmp(name, official, n) != 0) return false;
        bool const is_in = name[n] == '\0' || name[n] == '.';
        if (is_in && a->model.items[m->entries[i].index].what.format == f) return true;
    }
    return false;
}

/* ---- lists ---- */

static bool says_nvfp4(const json_object *algo)
{
    return hd_json_equals(algo, "NVFP4") || hd_json_equals(algo, "W4A16_NVFP4");
}

/* quantized_layers: {"layers.0.ffn.experts": {"quant_algo": "NVFP4"}, ...}. */
static void judge_layer_list(const statement *s)
{
    char                     what[512];
    const json_object *const list = hd_json_member(s->q, "quantized_layers");
    if (!json_object_is_type(list, json_type_object)) return;
    json_object_object_foreach((json_object *)(uintptr_t)list, module, entry)
    {
        if (!says_nvfp4(hd_json_member(entry, "quant_algo"))) continue;
        if (has_format_in(s->a, module, HD_FMT_NVFP4)) continue;
        snprintf(what, sizeof what, "%.200s is NVFP4 (quantized_layers), yet no matrix there is",
                 module);
        say(s, HD_WARNING, module, what);
    }
}

/* The first NVFP4 matrix that a glob or an expression names; NULL: none. */
static const char *find_nvfp4(const hd_audit *a, const char *module)
{
    hd_module_pattern pattern = {.n = 0};
    const char *const expression = expression_of(module);
    if (expression && !hd_module_pattern_parse(&pattern, expression)) return NULL;
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_scanned *const m = &a->model.items[i].what;
        if (m->format != HD_FMT_NVFP4) continue;
        if (expression ? fits_pattern(&pattern, m) : fits_glob(module, m)) return m->name;
    }
    return NULL;
}

/* A pattern that nothing is said about here is said. */
static void judge_expression(const statement *s, const char *key, const char *module)
{
    char              what[512];
    hd_module_pattern pattern;
    const char *const expression = expression_of(module);
    if (!expression || hd_module_pattern_parse(&pattern, expression)) return;
    snprintf(what, sizeof what, "\"%.200s\" (%s), an expression that is not read here", module,
             key);
    say(s, HD_NOTE, NULL, what);
}

/* ignore, exclude_modules: ["head", "*.attn.*", "re:.*norm$", ...] are not quantized, at least not
 * to four bits. */
static void judge_ignored(const statement *s, const char *key)
{
    char                     what[512];
    int32_t                  n_patterns = 0;
    const json_object *const list = hd_json_member(s->q, key);
    if (!json_object_is_type(list, json_type_array)) return;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        const char *const module = hd_json_text(json_object_array_get_idx(list, i), NULL);
        if (!module) continue;
        bool const is_pattern = expression_of(module) || is_glob(module);
        if (is_pattern && n_patterns++ >= MAX_PATTERNS) continue;
        judge_expression(s, key, module);
        const char *const found = is_pattern ? find_nvfp4(s->a, module)
                                  : has_format_in(s->a, module, HD_FMT_NVFP4) ? module
                                                                              : NULL;
        if (!found) continue;
        snprintf(what, sizeof what, "%.200s is not quantized (%s), yet %.200s is NVFP4", module,
                 key, found);
        say(s, HD_WARNING, found, what);
    }
}

static bool is_listed(const json_object *list, hd_module_pattern *room, const hd_scanned *m)
{
    if (!json_object_is_type(list, json_type_array)) return false;
    size_t const n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++) {
        const char *const module = hd_json_text(json_object_array_get_idx(list, i), NULL);
        if (module && fits(module, room, m)) return true;
    }
    return false;
}

/* Where all is NVFP4 but what a list says, the list should say all that is not; at most so many are
 * looked up, as lists may be long. */
#define MAX_REST 4096

static void judge_rest(const statement *s, const char *key)
{
    char                     what[512];
    hd_module_pattern        room;
    int64_t                  n = 0, looked = 0;
    const hd_scanned        *first = NULL;
    const json_object *const list = hd_json_member(s->q, key);
    if (!list || !says_nvfp4(hd_json_member(s->q, "quant_algo"))) return;
    for (int64_t i = 0; i < s->a->model.used && looked < MAX_REST; i++) {
        const hd_scanned *const m = &s->a->model.items[i].what;
        if (m->format == HD_FMT_NONE || m->format == HD_FMT_NVFP4 || !m->is_wanted) continue;
        looked++;
        if (is_listed(list, &room, m)) continue;
        if (!n++) first = m;
    }
    if (n == 0) return;
    snprintf(what, sizeof what,
             "quant_algo \"NVFP4\" but for %s, yet %" PRId64 " more matrices are not, such as "
             "%.120s, which is %s",
             key, n, first->name, hd_format_name(first->format));
    say(s, HD_NOTE, first->name, what);
}

/* ---- groups of compressed-tensors ---- */

/* What the weights of a group are; HD_FMT_NONE when this is nothing that is known here. */
static hd_format format_of_group(const json_object *group)
{
    const json_object *const w = hd_json_member(group, "weights");
    int64_t const            bits = json_object_get_int64(hd_json_member(w, "num_bits"));
    int64_t const            size = json_object_get_int64(hd_json_member(w, "group_size"));
    if (!hd_json_equals(hd_json_member(w, "type"), "float")) return HD_FMT_NONE;
    if (bits == 4) return size == 16 ? HD_FMT_NVFP4 : size == 32 ? HD_FMT_MXFP4 : HD_FMT_NONE;
    return bits == 8 && size == 0 ? HD_FMT_FP8 : HD_FMT_NONE;
}

/* The matrices of one target that are something else than its group says. */
static void judge_target(const statement *s, const char *target, hd_format f)
{
    char                     what[512];
    hd_module_pattern        pattern, room;
    int64_t                  n = 0;
    const hd_scanned        *first = NULL;
    const json_object *const ignored = hd_json_member(s->q, "ignore");
    if (!hd_module_pattern_parse(&pattern, expression_of(target))) return;
    for (int64_t i = 0; i < s->a->model.used; i++) {
        const hd_scanned *const m = &s->a->model.items[i].what;
        if (m->format == HD_FMT_NONE || m->format == f || !m->is_wanted) continue;
        if (!fits_pattern(&pattern, m) || is_listed(ignored, &room, m)) continue;
        if (!n++) first = m;
    }
    if (n == 0) return;
    snprintf(what, sizeof what,
             "matrices \"%.200s\" are %s (config_groups), yet %" PRId64 " are not, such as %.120s, "
             "which is %s",
             target, hd_format_name(f), n, first->name, hd_format_name(first->format));
    say(s, HD_WARNING, first->name, what);
}

static void judge_group(const statement *s, const json_object *group, int32_t *n_targets)
{
    const json_object *const targets = hd_json_member(group, "targets");
    hd_format const          f = format_of_group(group);
    if (f == HD_FMT_NONE || !json_object_is_type(targets, json_type_array)) return;
    for (size_t i = 0; i < json_object_array_length(targets); i++) {
        const char *const target = hd_json_text(json_object_array_get_idx(targets, i), NULL);
        if (!target || !expression_of(target) || ++*n_targets > MAX_PATTERNS) continue;
        judge_expression(s, "config_groups", target);
        judge_target(s, target, f);
    }
}

/* Only expressions say which matrices are meant; "Linear" is a class of the quantizer's. */
static void judge_groups(const statement *s)
{
    const json_object *const groups = hd_json_member(s->q, "config_groups");
    int32_t                  n_targets = 0;
    if (!json_object_is_type(groups, json_type_object)) return;
    json_object_object_foreach((json_object *)(uintptr_t)groups, name, group)
    {
        (void)name;
        judge_group(s, group, &n_targets);
    }
}

/* ---- hf_quant_config.json alone ---- */

/* config.json's own words were judged by the parsed config. */
static void judge_algo(const statement *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->a->model.used; i++)
        n += s->a->model.items[i].what.format == HD_FMT_NVFP4;
    if (says_nvfp4(hd_json_member(s->q, "quant_algo")) && n == 0)
        say(s, HD_WARNING, NULL, "quant_algo \"NVFP4\", yet no matrix is NVFP4");
}

static void judge_group_size(const statement *s)
{
    char                     what[128];
    const json_object *const size = hd_json_member(s->q, "group_size");
    int64_t const            n = json_object_get_int64(size);
    bool const               says = json_object_is_type(size, json_type_int) && n != 0;
    if (!says || n == 16) return;
    for (int64_t i = 0; i < s->a->model.used; i++) {
        if (s->a->model.items[i].what.format != HD_FMT_NVFP4) continue;
        snprintf(what, sizeof what, "group_size %" PRId64 ", yet NVFP4 has blocks of 16", n);
        say(s, HD_WARNING, s->a->model.items[i].what.name, what);
        return;
    }
}

/* ---- the files ---- */

void hd_audit_judge_lists(hd_audit *a, const char *file, const json_object *quantization)
{
    statement const s = {a, file, quantization};
    judge_layer_list(&s);
    judge_ignored(&s, "ignore");
    judge_ignored(&s, "exclude_modules");
    judge_rest(&s, "ignore");
    judge_rest(&s, "exclude_modules");
    judge_groups(&s);
    judge_group_size(&s);
}

void hd_audit_judge_quant_config(hd_audit *a, const char *file, const json_object *root)
{
    statement const s = {a, file, hd_json_member(root, "quantization")};
    judge_algo(&s);
    hd_audit_judge_lists(a, file, s.q);
}
