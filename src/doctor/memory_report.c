#include "doctor/memory_report.h"

#include "engine/engine.h"

/* The context asked for, then powers of two up to the longest of any model. */
#define FIRST_CONTEXT 4096
#define N_CONTEXTS    9

static void print_bytes(hd_buffer *out, int64_t bytes)
{
    double const mib = (double)bytes / (1 << 20);
    if (mib < 1024)
        hd_buffer_printf(out, "%9.1f MiB", mib);
    else
        hd_buffer_printf(out, "%9.1f GiB", mib / 1024);
}

static void print_part(hd_buffer *out, const char *name, int64_t bytes, const char *what)
{
    hd_buffer_printf(out, "%-12s", name);
    print_bytes(out, bytes);
    hd_buffer_printf(out, "  %s\n", what);
}

static void print_parts(hd_buffer *out, const hd_memory_use *u)
{
    print_part(out, "weights", u->weights, "mapped from the files");
    print_part(out, "KV rows", u->rows, "grow with the context");
    print_part(out, "KV rings", u->rings, "windows and open groups of compressors");
    print_part(out, "marks", u->marks, "rings kept aside, to go back to page edges");
    print_part(out, "activations", u->activations, "of the largest pass");
    print_part(out, "plans", u->plans, "steps and their arguments, tables");
    print_part(out, "sessions", u->sessions, "tokens and logits");
    print_part(out, "total", u->total, "");
}

static void print_contexts(hd_buffer *out, const hd_memory_use *u, int32_t n)
{
    int64_t const machine = hd_memory_machine_bytes();
    hd_buffer_printf(out, "\n   context      KV rows          total  of");
    print_bytes(out, machine);
    hd_buffer_text(out, "\n");
    for (int32_t i = 0; i < n; i++) {
        if (u[i].options.max_tokens == 0) continue;
        hd_buffer_printf(out, "%10d", u[i].options.max_tokens);
        print_bytes(out, u[i].rows);
        hd_buffer_text(out, "  ");
        print_bytes(out, u[i].total);
        hd_buffer_printf(out, "  %s\n", u[i].total <= machine ? "fits" : "does not fit");
    }
}

hd_status hd_memory_report(hd_buffer *out, const hd_options *opt, hd_error *err)
{
    int32_t       contexts[1 + N_CONTEXTS] = {opt->max_tokens};
    hd_memory_use use[1 + N_CONTEXTS];
    for (int32_t i = 0; i < N_CONTEXTS; i++) contexts[1 + i] = FIRST_CONTEXT << i;
    HD_TRY(hd_engine_measure(opt, contexts, 1 + N_CONTEXTS, use, err));
    const hd_options *const o = &use[0].options;
    if (o->max_tokens == 0)
        HD_FAIL(err, HD_ERR_INVALID, "context of %d tokens: longer than the model's",
                opt->max_tokens);
    hd_buffer_printf(out,
                     "context %d, chunk %d, %d session%s, activations %s, KV %s: %.1f bytes a "
                     "token\n\n",
                     o->max_tokens, o->chunk, o->n_sessions, o->n_sessions > 1 ? "s" : "",
                     hd_act_name(o->act), hd_kv_name(o->kv), use[0].token);
    print_parts(out, &use[0]);
    print_contexts(out, use + 1, N_CONTEXTS);
    return HD_OK;
}
