
#include "base/cpu.h"
#include "base/json_write.h"
#include "doctor/bisect_parts.h"

static hd_subset part_bit(int32_t i) { return (hd_subset)1 << i; }

/* ---- text ---- */

static void print_setting(const char *word, const hd_options *o, hd_buffer *out)
{
    char isa[64];
    hd_isa_print(o->isa, isa, sizeof isa);
    hd_buffer_printf(out, "%-6s activations %s, KV %s, kernels %s\n", word, hd_act_name(o->act),
                     hd_kv_name(o->kv), isa);
}

static void print_culprit(const hd_bisect *b, const hd_culprit *c, hd_buffer *out)
{
    bool const is_pair = hd_subset_count(c->set) > 1;
    hd_buffer_printf(out, "\n%s, relative error %.4g\n", is_pair ? "culprits together" : "culprit",
                     c->error);
    for (int32_t i = 0; i < b->n_parts; i++) {
        const hd_bisect_part *const p = &b->parts[i];
        if (!(c->set & part_bit(i))) continue;
        hd_buffer_printf(out, "  %-20s %s | %s", p->name, p->good, p->bad);
        if (is_pair) hd_buffer_printf(out, ", alone %.4g", hd_bisect_error(b, part_bit(i)));
        hd_buffer_text(out, "\n");
    }
    hd_buffer_printf(out, "%s, relative error %.4g\n", is_pair ? "without them" : "without it",
                     c->rest);
}

void hd_bisect_print(const hd_bisect *b, hd_buffer *out)
{
    print_setting("good:", &b->opt.good, out);
    print_setting("bad:", &b->opt.bad, out);
    hd_buffer_printf(out, "%d difference%s:", b->n_parts, b->n_parts == 1 ? "" : "s");
    for (int32_t i = 0; i < b->n_parts; i++)
        hd_buffer_printf(out, "%s %s", i ? "," : "", b->parts[i].name);
    hd_buffer_printf(out, "\nall together, relative error of the worst row of logits %.4g\n",
                     hd_bisect_error(b, hd_bisect_all(b)));
    for (int32_t i = 0; i < b->n_culprits; i++) print_culprit(b, &b->culprits[i], out);
    if (b->n_culprits == 0)
        hd_buffer_printf(out, "\nno culprit: that is not above %g\n", b->opt.tolerance);
    hd_buffer_printf(out, "\n%d trials of %d tokens\n", b->n_trials, b->opt.n);
}

/* ---- JSON ---- */

static void write_setting(hd_buffer *out, const char *key, const hd_options *o)
{
    char isa[64];
    hd_isa_print(o->isa, isa, sizeof isa);
    hd_json_write_open(out, key, '{');
    hd_json_write_text(out, "act", hd_act_name(o->act));
    hd_json_write_text(out, "kv", hd_kv_name(o->kv));
    hd_json_write_text(out, "isa", isa);
    hd_buffer_text(out, "}");
}

/* The parts of a set, with the error of each alone where it was tried. */
static void write_parts(const hd_bisect *b, const char *key, hd_subset set, hd_buffer *out)
{
    hd_json_write_open(out, key, '[');
    for (int32_t i = 0; i < b->n_parts; i++) {
        const hd_bisect_part *const p = &b->parts[i];
        if (!(set & part_bit(i))) continue;
        hd_json_write_open(out, NULL, '{');
        hd_json_write_text(out, "kind", p->kind);
        hd_json_write_text(out, "name", p->name);
        hd_json_write_text(out, "good", p->good);
        hd_json_write_text(out, "bad", p->bad);
        hd_json_write_number(out, "alone", hd_bisect_error(b, part_bit(i)));
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]");
}

void hd_bisect_print_json(const hd_bisect *b, hd_buffer *out)
{
    hd_subset const all = hd_bisect_all(b);
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "model", b->opt.good.model);
    write_setting(out, "good", &b->opt.good);
    write_setting(out, "bad", &b->opt.bad);
    hd_json_write_count(out, "tokens", b->opt.n);
    hd_json_write_count(out, "trials", b->n_trials);
    hd_json_write_number(out, "tolerance", b->opt.tolerance);
    hd_json_write_number(out, "error", hd_bisect_error(b, all));
    write_parts(b, "differences", all, out);
    hd_json_write_open(out, "culprits", '[');
    for (int32_t i = 0; i < b->n_culprits; i++) {
        hd_json_write_open(out, NULL, '{');
        write_parts(b, "parts", b->culprits[i].set, out);
        hd_json_write_number(out, "error", b->culprits[i].error);
        hd_json_write_number(out, "rest", b->culprits[i].rest);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]}\n");
}
