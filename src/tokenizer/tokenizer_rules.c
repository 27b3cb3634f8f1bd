#include "tokenizer/tokenizer.h"

/* Everything in the file that could change ids or bytes is either what this tokenizer does or
 * refused.  Left out on purpose: `truncation` and `padding` are settings of batch jobs, and a
 * `post_processor` only moves offsets and puts tokens round the text, which prompts write
 * themselves.  `unk_token`, `fuse_unk` and `byte_fallback` are about characters that the
 * vocabulary lacks; one with all 256 bytes, which loading requires, lacks none. */

/* Each split in the two spellings that files use for line ends: escaped, and as they are. */
#define SIGNS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define STAGE_3(cr, lf)                                                                   \
    SIGNS "|[^" cr lf "\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[" cr lf "]*" \
          "|\\s*[" cr lf "]+|\\s+(?!\\S)|\\s+"
#define N_SPLITS 3
static const char *const splits[N_SPLITS][2] = {
    {"\\p{N}{1,3}", NULL},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+", NULL},
    {STAGE_3("\\r", "\\n"), STAGE_3("\r", "\n")}};

static bool is_absent_or_false(const json_object *v)
{
    return !v || (json_object_is_type(v, json_type_boolean) && !json_object_get_boolean(v));
}

static bool is_zero(const json_object *v)
{
    bool const is_number =
        json_object_is_type(v, json_type_double) || json_object_is_type(v, json_type_int);
    return is_number && json_object_get_double(v) == 0.0;
}

/* The value for a message, short enough to leave room for the rest. */
static const char *show(const json_object *v)
{
    return v ? json_object_to_json_string((json_object *)(uintptr_t)v) : "missing";
}

static const json_object *item(const json_object *list, size_t i)
{
    bool const is_list = json_object_is_type(list, json_type_array);
    return is_list && i < json_object_array_length(list) ? json_object_array_get_idx(list, i)
                                                         : NULL;
}

static size_t length(const json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static hd_status check_normalizer(const json_object *n, hd_error *err)
{
    const json_object *const list = hd_json_member(n, "normalizers");
    bool const               is_empty = hd_json_equals(hd_json_member(n, "type"), "Sequence") &&
                          json_object_is_type(list, json_type_array) && length(list) == 0;
    if (n && !is_empty)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: normalizer %.200s: only none is supported",
                show(n));
    return HD_OK;
}

static bool is_split(const json_object *s, const char *const spellings[2])
{
    const json_object *const regex = hd_json_member(hd_json_member(s, "pattern"), "Regex");
    bool const               is_known = hd_json_equals(regex, spellings[0]) ||
                          (spellings[1] && hd_json_equals(regex, spellings[1]));
    return is_known && hd_json_equals(hd_json_member(s, "type"), "Split") &&
           hd_json_equals(hd_json_member(s, "behavior"), "Isolated") &&
           is_absent_or_false(hd_json_member(s, "invert"));
}

static bool is_byte_level(const json_object *s)
{
    const json_object *const use_regex = hd_json_member(s, "use_regex"); /* absent means true */
    return hd_json_equals(hd_json_member(s, "type"), "ByteLevel") &&
           is_absent_or_false(hd_json_member(s, "add_prefix_space")) && use_regex &&
           is_absent_or_false(use_regex);
}

static hd_status check_splits(const json_object *p, hd_error *err)
{
    const json_object *const list = hd_json_member(p, "pretokenizers");
    if (!hd_json_equals(hd_json_member(p, "type"), "Sequence") || length(list) != N_SPLITS + 1)
        HD_FAIL(err, HD_ERR_UNSUPPORTED,
                "tokenizer: pre_tokenizer %.200s: want a Sequence of %d, DeepSeek's splits",
                show(p), N_SPLITS + 1);
    for (size_t i = 0; i < N_SPLITS; i++)
        if (!is_split(item(list, i), splits[i]))
            HD_FAIL(
                err, HD_ERR_UNSUPPORTED,
                "tokenizer: pre_tokenizer stage %zu is %.200s: want an isolated Split by %.150s",
                i + 1, show(item(list, i)), splits[i][0]);
    if (!is_byte_level(item(list, N_SPLITS)))
        HD_FAIL(err, HD_ERR_UNSUPPORTED,
                "tokenizer: pre_tokenizer stage %d is %.200s: want ByteLevel without "
                "add_prefix_space and use_regex",
                N_SPLITS + 1, show(item(list, N_SPLITS)));
    return HD_OK;
}

static hd_status check_model(const json_object *m, hd_error *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_object *const type = hd_json_member(m, "type");
    if (type && !hd_json_equals(type, "BPE"))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: model type is %.100s: want BPE", show(type));
    for (size_t i = 0; i < 2; i++) {
        const json_object *const affix = hd_json_member(m, affixes[i]);
        if (affix && !hd_json_equals(affix, ""))
            HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: model %s is %.100s: want none", affixes[i],
                    show(affix));
    }
    const json_object *const dropout = hd_json_member(m, "dropout");
    if (dropout && !is_zero(dropout))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: model dropout is %.100s: want none",
                show(dropout));
    if (!is_absent_or_false(hd_json_member(m, "ignore_merges")))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: model ignore_merges is %.100s: want false",
                show(hd_json_member(m, "ignore_merges")));
    return HD_OK;
}

hd_status hd_tokenizer_check_rules(const json_object *file, hd_error *err)
{
    HD_TRY(check_model(hd_json_member(file, "model"), err));
    HD_TRY(check_normalizer(hd_json_member(file, "normalizer"), err));
    HD_TRY(check_splits(hd_json_member(file, "pre_tokenizer"), err));
    const json_object *const decoder = hd_json_member(file, "decoder");
    if (!hd_json_equals(hd_json_member(decoder, "type"), "ByteLevel"))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "tokenizer: decoder is %.200s: want ByteLevel",
                show(decoder));
    return HD_OK;
}
