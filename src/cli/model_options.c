#include "cli/model_options.h"

#include <stdio.h>

#include "base/cpu.h"
#include "base/team.h"

/* In the order of hd_act. */
static const char *const acts[] = {"default", "exact", "official", "nvfp4", NULL};
/* In the order of hd_kv. */
static const char *const kvs[] = {"default", "f32", "bf16", "fp8", "nvfp4", NULL};

static const char *const pins[] = {"on", "off", NULL};

void hd_model_options_list(hd_model_options *m, hd_option out[HD_N_MODEL_OPTIONS])
{
    hd_option const list[HD_N_MODEL_OPTIONS] = {
        {.name = "--act", .choice = &m->act, .choices = acts},
        {.name = "--kv", .choice = &m->kv, .choices = kvs},
        {.name = "--isa", .isa = &m->isa},
        {.name = "--threads", .number = &m->threads, .least = 1, .most = HD_MAX_THREADS},
        {.name = "--pin", .choice = &m->pin, .choices = pins},
        {.name = "--trust", .flag = &m->is_trusted},
        {.name = "--quiet", .flag = &m->is_quiet},
        {.name = "--verbose", .flag = &m->is_verbose},
        {.name = NULL}};
    for (int i = 0; i < HD_N_MODEL_OPTIONS; i++) out[i] = list[i];
}

static void list_second(hd_model_options *m, const char *const names[3],
                        hd_option out[HD_N_SECOND_OPTIONS])
{
    out[0] = (hd_option){.name = names[0], .choice = &m->act, .choices = acts};
    out[1] = (hd_option){.name = names[1], .choice = &m->kv, .choices = kvs};
    out[2] = (hd_option){.name = names[2], .isa = &m->isa};
    out[3] = (hd_option){.name = NULL};
}

void hd_model_options_list_second(hd_model_options *m, hd_option out[HD_N_SECOND_OPTIONS])
{
    static const char *const names[] = {"--act-b", "--kv-b", "--isa-b"};
    list_second(m, names, out);
}

void hd_model_options_list_setting(hd_model_options *m, hd_option out[HD_N_SECOND_OPTIONS])
{
    static const char *const names[] = {"act", "kv", "isa"};
    list_second(m, names, out);
}

void hd_model_options_clear_second(hd_model_options *m)
{
    m->act = m->kv = -1;
    m->isa = 0;
}

void hd_model_options_complete(hd_model_options *m, const hd_model_options *first)
{
    const hd_model_options given = *m;
    *m = *first;
    if (given.model) m->model = given.model;
    if (given.act >= 0) m->act = given.act;
    if (given.kv >= 0) m->kv = given.kv;
    if (given.isa) m->isa = given.isa;
}

void hd_model_options_list_sizes(hd_model_options *m, hd_option out[HD_N_SIZE_OPTIONS])
{
    hd_option const list[HD_N_SIZE_OPTIONS] = {
        {.name = "--context", .number = &m->context, .least = 1, .most = INT32_MAX},
        {.name = "--chunk", .number = &m->chunk, .least = 1, .most = 65536},
        {.name = NULL}};
    for (int i = 0; i < HD_N_SIZE_OPTIONS; i++) out[i] = list[i];
}

static void describe(const hd_engine *e, hd_screen *screen)
{
    char           kernels[64], threads[32] = "";
    hd_engine_info info;
    double const   mib = 1024.0 * 1024.0;
    hd_engine_info_get(e, &info);
    hd_isa_print(info.isa, kernels, sizeof kernels);
    if (!(info.isa & HD_ISA_DEVICE))
        snprintf(threads, sizeof threads, ", %d thread%s", info.n_threads,
                 info.n_threads == 1 ? "" : "s");
    hd_screen_note(screen, "%s; activations %s; kernels %s%s", info.family, hd_act_name(info.act),
                   kernels, threads);
    if (!screen->is_verbose) return;
    hd_screen_note(screen, "%d layers%s, %d ids, context %d, dialect %s", info.n_layers,
                   info.has_mtp ? " and an MTP block" : "", info.n_vocab, info.max_tokens,
                   info.dialect == HD_DIALECT_GA ? "ga" : "preview");
    hd_screen_note(screen, "memory: weights %.1f MiB, KV cache %.1f MiB (%s), activations %.1f MiB",
                   (double)info.weight_bytes / mib, (double)info.kv_bytes / mib,
                   hd_kv_name(info.kv), (double)info.act_bytes / mib);
}

hd_options hd_model_options_engine(const hd_model_options *m, hd_screen *screen)
{
    return (hd_options){.model = m->model,
                        .act = (hd_act)m->act,
                        .kv = (hd_kv)m->kv,
                        .max_tokens = m->context,
                        .chunk = m->chunk,
                        .n_sessions = m->n_sessions,
                        .marks = m->marks,
                        .has_mtp = m->has_mtp,
                        .is_trusted = m->is_trusted,
                        .isa = m->isa,
                        .n_threads = m->threads,
                        .is_unpinned = m->pin == 1,
                        .log = hd_screen_on_log,
                        .progress = hd_screen_on_progress,
                        .user = screen};
}

hd_status hd_model_options_open(const hd_model_options *m, hd_screen *screen, hd_engine **out,
                                hd_error *err)
{
    hd_options const o = hd_model_options_engine(m, screen);
    hd_status const  s = hd_engine_open(out, &o, err);
    hd_screen_progress(screen, "", 1, 1);
    if (s == HD_OK) describe(*out, screen);
    return s;
}
