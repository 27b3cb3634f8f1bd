#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/config_file.h"
#include "cli/model_options.h"
#include "cli/question.h"
#include "doctor/memory_report.h"
#include "server/server.h"

const char hd_help_serve[] =
    "usage: hadal serve MODEL [options]\n"
    "\n"
    "Answers requests over HTTP in the ways of OpenAI's API (doc/serving.md), many at once.\n"
    "SIGTERM and SIGINT end it when the answers in hand are done; a second one at once.\n"
    "\n"
    "  --host ADDRESS    where to listen; default 127.0.0.1, this machine alone\n"
    "  --port N          default 8080; 0 takes any that is free\n"
    "  --keys FILE       keys, one a line; a request must bring one of them\n"
    "  --no-key          listen elsewhere than at this machine although no key is wanted\n"
    "  --tls-cert FILE, --tls-key FILE\n"
    "                    a chain of certificates and its key, PEM: HTTPS instead of HTTP\n"
    "  --cors ORIGIN     web pages of this origin may ask; several times; * is any\n"
    "  --model-name NAME what the model is called; default: the name of its folder\n"
    "  --users N         requests that run at once; default 8\n"
    "  --queue N         requests that may wait; default 256\n"
    "  --stall N         most prompt tokens of a pass while others are answered; default 64\n"
    "  --cache-ram MIB   of kept prompts in memory; default 1024, or an eighth of the\n"
    "                    machine's memory if less; 0: none\n"
    "  --cache-dir DIR   keep prompts in a folder, too, for the next start\n"
    "  --cache-disk MIB  of that folder; default 16384\n"
    "  --temp T          temperature of requests that name none; default 1\n"
    "  --dialect NAME    of prompts: ga, preview, ga_api or v41_api; default: the checkpoint's\n"
    "  --max-body MIB    of a request; default 32\n"
    "  --grace S         seconds for the answers in hand after a signal; default 30\n"
    "  --log FORM        text (default) or json: one line a request, on standard error\n"
    "  --config FILE     options, one a line: name = value; the command line counts before it\n"
    "\n" HD_HELP_SIZE_OPTIONS HD_HELP_MODEL_OPTIONS;

typedef struct serve_job {
    hd_model_options  model;
    hd_server_options options;
    const char       *config; /* read before the other options are */
    hd_text_list      origins;
    int32_t           queue, stall, ram_mib, disk_mib;
    int               dialect; /* -1: not given */
    int               log_form;

    hd_screen  screen;
    char       name[256]; /* of the model's folder */
    hd_engine *engine;    /* owned */
    hd_server *server;    /* owned */
} serve_job;

enum { N_LISTEN_OPTIONS = 9, N_SERVE_OPTIONS = 13 };

/* ---- command line ---- */

static void list_listening(serve_job *j, hd_option out[N_LISTEN_OPTIONS])
{
    hd_server_options *const o = &j->options;
    hd_option const          list[N_LISTEN_OPTIONS] = {
                 {.name = "--host", .text = &o->host},
                 {.name = "--port", .number = &o->port, .least = 0, .most = 65535},
                 {.name = "--keys", .text = &o->keys_path},
                 {.name = "--no-key", .flag = &o->is_open_to_all},
                 {.name = "--tls-cert", .text = &o->certificate},
                 {.name = "--tls-key", .text = &o->key},
                 {.name = "--cors", .list = &j->origins},
                 {.name = "--config", .text = &j->config},
                 {.name = NULL}};
    memcpy(out, list, sizeof list);
}

static void list_serving(serve_job *j, hd_option out[N_SERVE_OPTIONS])
{
    static const char *const forms[] = {"text", "json", NULL};
    hd_server_options *const o = &j->options;
    hd_option const          list[N_SERVE_OPTIONS] = {
                 {.name = "--model-name", .text = &o->model},
                 {.name = "--users", .number = &j->model.n_sessions, .least = 1, .most = 1024},
                 {.name = "--queue", .number = &j->queue, .least = 1, .most = 65536},
                 {.name = "--stall", .number = &j->stall, .least = 1, .most = 65536},
                 {.name = "--cache-ram", .number = &j->ram_mib, .least = 0, .most = INT32_MAX},
                 {.name = "--cache-dir", .text = &o->batch.folder},
                 {.name = "--cache-disk", .number = &j->disk_mib, .least = 1, .most = INT32_MAX},
                 {.name = "--temp", .real = &o->temperature, .least = 0, .most = 2},
                 {.name = "--dialect", .choice = &j->dialect, .choices = hd_dialect_words},
                 {.name = "--max-body", .number = &o->max_body_mib, .least = 1, .most = 1024},
                 {.name = "--grace", .number = &o->grace_s, .least = 1, .most = 86400},
                 {.name = "--log", .choice = &j->log_form, .choices = forms},
                 {.name = NULL}};
    memcpy(out, list, sizeof list);
}

static int read_arguments(serve_job *j, int argc, char **argv)
{
    hd_option listening[N_LISTEN_OPTIONS], serving[N_SERVE_OPTIONS];
    hd_option model[HD_N_MODEL_OPTIONS], sizes[HD_N_SIZE_OPTIONS];
    j->options.port = 8080;
    j->options.temperature = 1;
    j->model.n_sessions = 8;
    j->model.marks = -1; /* a batch keeps states in its own way */
    j->ram_mib = -1;
    j->dialect = -1;
    list_listening(j, listening);
    list_serving(j, serving);
    hd_model_options_list(&j->model, model);
    hd_model_options_list_sizes(&j->model, sizes);
    hd_command const c = {.verb = "serve",
                          .options = {listening, serving, sizes, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    return hd_options_read(&c, argc, argv);
}

/* The last name in the model's path. */
static void name_model(serve_job *j)
{
    const char *const path = j->model.model;
    size_t            end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    snprintf(j->name, sizeof j->name, "%.*s", (int)(end - start), path + start);
    if (!j->options.model) j->options.model = j->name;
}

static void complete_options(serve_job *j)
{
    hd_server_options *const o = &j->options;
    hd_engine_info           info;
    hd_engine_info_get(j->engine, &info);
    name_model(j);
    o->engine = j->engine;
    o->n_sessions = j->model.n_sessions;
    o->dialect = j->dialect < 0 ? info.dialect : (hd_dialect)j->dialect;
    o->origins = j->origins.texts;
    o->n_origins = j->origins.n;
    o->logs_json = j->log_form == 1;
    o->batch.n_waiting = j->queue;
    o->batch.chunk = j->stall;
    o->batch.ram_bytes = j->ram_mib < 0 ? 0 : j->ram_mib == 0 ? -1 : (int64_t)j->ram_mib << 20;
    o->batch.disk_bytes = (int64_t)j->disk_mib << 20;
}

/* ---- what was chosen ---- */

static void print_line(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static hd_status print_memory(serve_job *j, hd_error *err)
{
    hd_buffer        out = {0};
    hd_options const o = hd_model_options_engine(&j->model, &j->screen);
    hd_status const  s = hd_memory_report(&out, &o, err);
    hd_screen_progress(&j->screen, "", 1, 1);
    if (s == HD_OK && !out.failed) fprintf(stderr, "%s\n", out.data);
    hd_buffer_free(&out);
    return s;
}

static void print_listening(serve_job *j)
{
    const hd_server_options *const o = &j->options;
    const char *const              host = o->host ? o->host : "127.0.0.1";
    hd_engine_info                 info;
    hd_engine_info_get(j->engine, &info);
    hd_screen_note(&j->screen, "%s: %d users at once, context %d, dialect %s, %s", o->model,
                   o->n_sessions, info.max_tokens, hd_dialect_words[o->dialect],
                   o->keys_path ? "keys wanted" : "no key wanted");
    hd_screen_note(&j->screen,
                   strchr(host, ':') ? "listening at %s://[%s]:%d" : "listening at %s://%s:%d",
                   o->certificate ? "https" : "http", host, hd_server_port(j->server));
}

/* ---- the job ---- */

/* For the signal handler; set once, before the signals are watched. */
static hd_server *served;

static void on_signal(int number)
{
    (void)number;
    hd_server_stop(served);
}

static void watch_signals(hd_server *s)
{
    struct sigaction const action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    served = s;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static hd_status serve(serve_job *j, hd_error *err)
{
    if (!j->screen.is_quiet) HD_TRY(print_memory(j, err));
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    complete_options(j);
    j->options.log = j->screen.is_quiet ? NULL : print_line;
    HD_TRY(hd_server_open(&j->server, &j->options, err));
    print_listening(j);
    watch_signals(j->server);
    return hd_server_run(j->server, err);
}

static int run_job(serve_job *j)
{
    hd_error err = {0};
    hd_screen_open(&j->screen, j->model.is_quiet, j->model.is_verbose);
    hd_status const s = serve(j, &err);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    hd_server_close(j->server);
    hd_engine_close(j->engine);
    return s == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}

int hd_cli_serve(int argc, char **argv)
{
    serve_job j = {0};
    hd_error  err = {0};
    hd_words  words;
    if (hd_config_file_join(&words, hd_config_file_find(argc, argv), argc, argv, &err) != HD_OK)
        return hd_cli_fail(&err);
    int const usage = read_arguments(&j, words.n, words.words);
    int const status = usage >= 0 ? usage : run_job(&j);
    hd_words_free(&words);
    return status;
}
