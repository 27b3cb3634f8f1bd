#include "checkpoint/names.h"

#include <string.h>

#define MAX_PARTS 24
#define N_OF(a)   (sizeof(a) / sizeof(a)[0])

/* A name cut at its dots; each part points into the input or to a constant. */
typedef struct name_part {
    const char *text;
    size_t      bytes;
} name_part;

typedef struct name_parts {
    name_part part[MAX_PARTS];
    size_t    used;
} name_parts;

/* `from` behind `parent` (NULL: behind anything) becomes `to`; parents are spelled officially. */
typedef struct rename_rule {
    const char *parent, *from, *to;
} rename_rule;

/* Modules: parts with something before and behind them.  The first rule that fits wins. */
static const rename_rule module_rules[] = {
    {NULL, "self_attn", "attn"},
    {NULL, "mlp", "ffn"},
    {NULL, "input_layernorm", "attn_norm"},
    {NULL, "post_attention_layernorm", "ffn_norm"},
    {"compressor", "kv_proj", "wkv"},
    {"compressor", "gate_proj", "wgate"},
    {"compressor", "kv_norm", "norm"},
    {NULL, "q_a_norm", "q_norm"},
    {NULL, "q_a_proj", "wq_a"},
    {NULL, "q_b_proj", "wq_b"},
    {NULL, "kv_proj", "wkv"},
    {NULL, "o_a_proj", "wo_a"},
    {NULL, "o_b_proj", "wo_b"},
    {NULL, "gate_proj", "w1"},
    {NULL, "up_proj", "w3"},
    {NULL, "down_proj", "w2"},
};

/* What only exports spell so. */
static const rename_rule export_rules[] = {{"attn", "norm", "kv_norm"}};

static const rename_rule first_rules[] = {{NULL, "embed_tokens", "embed"},
                                          {NULL, "lm_head", "head"}};

static const rename_rule last_rules[] = {{NULL, "sinks", "attn_sink"},
                                         {NULL, "position_bias", "ape"},
                                         {"gate", "e_score_correction_bias", "bias"}};

/* The last two parts, `parent.from`, become the one part `to`.  What ends in `.scale` here is
 * no quantization scale. */
static const rename_rule joined_rules[] = {
    {"hc_head", "hc_fn", "hc_head_fn"},       {"hc_head", "hc_base", "hc_head_base"},
    {"hc_head", "hc_scale", "hc_head_scale"}, {"hc_head", "fn", "hc_head_fn"},
    {"hc_head", "base", "hc_head_base"},      {"hc_head", "scale", "hc_head_scale"},
    {"attn_hc", "fn", "hc_attn_fn"},          {"attn_hc", "base", "hc_attn_base"},
    {"attn_hc", "scale", "hc_attn_scale"},    {"ffn_hc", "fn", "hc_ffn_fn"},
    {"ffn_hc", "base", "hc_ffn_base"},        {"ffn_hc", "scale", "hc_ffn_scale"},
};

static bool split_name(name_parts *p, const char *name)
{
    for (p->used = 0; p->used < MAX_PARTS; name++) {
        size_t const n = strcspn(name, ".");
        p->part[p->used++] = (name_part){name, n};
        name += n;
        if (!*name) return true;
    }
    return false;
}

static bool join_name(const name_parts *p, char *out, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < p->used; i++) {
        name_part const q = p->part[i];
        if (q.bytes >= cap - at) return false; /* room for the part and a dot or the NUL */
        memcpy(out + at, q.text, q.bytes);
        at += q.bytes;
        out[at++] = i + 1 < p->used ? '.' : '\0';
        if (at == cap && i + 1 < p->used) return false;
    }
    return true;
}

static bool part_is(const name_parts *p, size_t i, const char *text)
{
    return i < p->used && p->part[i].bytes == strlen(text) &&
           memcmp(p->part[i].text, text, p->part[i].bytes) == 0;
}

static void set_part(name_parts *p, size_t i, const char *text)
{
    p->part[i] = (name_part){text, strlen(text)};
}

static void drop_part(name_parts *p, size_t i)
{
    memmove(p->part + i, p->part + i + 1, (p->used - i - 1) * sizeof p->part[0]);
    p->used--;
}

static bool rule_fits(const rename_rule *r, const name_parts *p, size_t i)
{
    return part_is(p, i, r->from) && (!r->parent || (i > 0 && part_is(p, i - 1, r->parent)));
}

static void apply_rules(name_parts *p, size_t i, const rename_rule *rules, size_t n)
{
    for (const rename_rule *r = rules; r < rules + n; r++) {
        if (!rule_fits(r, p, i)) continue;
        set_part(p, i, r->to);
        return;
    }
}

static void join_last(name_parts *p)
{
    for (const rename_rule *r = joined_rules; r < joined_rules + N_OF(joined_rules); r++) {
        if (!rule_fits(r, p, p->used - 1)) continue;
        drop_part(p, p->used - 1);
        set_part(p, p->used - 1, r->to);
        return;
    }
}

/* Hugging Face hangs the indexer under the layer's compressor; officially it stands beside it
 * and has a compressor of its own. */
static void move_indexer(name_parts *p)
{
    size_t i = 0;
    while (i + 2 < p->used && !(part_is(p, i, "compressor") && part_is(p, i + 1, "indexer"))) i++;
    if (i + 2 >= p->used) return;
    if (part_is(p, i + 2, "scorer")) drop_part(p, i + 2);
    if (part_is(p, i + 2, "q_b_proj") || part_is(p, i + 2, "weights_proj")) {
        drop_part(p, i);
        return;
    }
    set_part(p, i, "indexer");
    set_part(p, i + 1, "compressor");
}

bool hd_name_official(char *out, size_t cap, const char *name)
{
    static const char prefix[] = "model.";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
    name_parts p;
    if (cap == 0 || !split_name(&p, name)) return false;
    join_last(&p);
    move_indexer(&p);
    size_t const last = p.used - 1;
    if (last > 0) {
        apply_rules(&p, 0, first_rules, N_OF(first_rules));
        apply_rules(&p, last, last_rules, N_OF(last_rules));
    }
    for (size_t i = 1; i < last; i++) {
        apply_rules(&p, i, module_rules, N_OF(module_rules));
        apply_rules(&p, i, export_rules, N_OF(export_rules));
    }
    return join_name(&p, out, cap);
}

/* ---- the way back ---- */

static bool reverse_fits(const rename_rule *r, const name_parts *p, size_t i)
{
    return part_is(p, i, r->to) && (!r->parent || (i > 0 && part_is(p, i - 1, r->parent)));
}

static void reverse_rules(name_parts *p, size_t i, const rename_rule *rules, size_t n)
{
    for (const rename_rule *r = rules; r < rules + n; r++) {
        if (!reverse_fits(r, p, i)) continue;
        set_part(p, i, r->from);
        return;
    }
}

static void insert_part(name_parts *p, size_t i, const char *text)
{
    memmove(p->part + i + 1, p->part + i, (p->used - i) * sizeof p->part[0]);
    p->used++;
    set_part(p, i, text);
}

static void split_last(name_parts *p)
{
    for (const rename_rule *r = joined_rules; r < joined_rules + N_OF(joined_rules); r++) {
        if (!part_is(p, p->used - 1, r->to)) continue;
        set_part(p, p->used - 1, r->parent);
        insert_part(p, p->used, r->from);
        return;
    }
}

/* Back under the layer's compressor, where the weights' projection is a scorer's. */
static void hang_indexer(name_parts *p)
{
    size_t i = 0;
    while (i + 1 < p->used && !part_is(p, i, "indexer")) i++;
    if (i + 1 >= p->used) return;
    if (part_is(p, i + 1, "compressor")) {
        set_part(p, i, "compressor");
        set_part(p, i + 1, "indexer");
        return;
    }
    if (part_is(p, i + 1, "weights_proj")) insert_part(p, i + 1, "scorer");
    insert_part(p, i, "compressor");
}

/* The most that the way back adds: "model", "compressor" and "scorer", or one part of a joined one.
 */
#define MAX_INSERTED 3

static bool is_of_model(const name_parts *p)
{
    return part_is(p, 0, "embed_tokens") || part_is(p, 0, "layers") || part_is(p, 0, "norm") ||
           part_is(p, 0, "hc_head");
}

/* Rules look at official parents, so parts are renamed from the last to the first. */
bool hd_name_hugging_face(char *out, size_t cap, const char *official)
{
    name_parts p;
    if (cap == 0 || !split_name(&p, official)) return false;
    if (p.used + MAX_INSERTED > MAX_PARTS) return join_name(&p, out, cap); /* of no scheme */
    reverse_rules(&p, p.used - 1, last_rules, N_OF(last_rules));
    for (size_t i = p.used - 1; i > 0; i--) reverse_rules(&p, i, module_rules, N_OF(module_rules));
    split_last(&p);
    reverse_rules(&p, 0, first_rules, N_OF(first_rules));
    hang_indexer(&p);
    if (is_of_model(&p)) insert_part(&p, 0, "model");
    return join_name(&p, out, cap);
}
