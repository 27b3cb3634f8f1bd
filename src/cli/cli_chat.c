#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "cli/answer.h"
#include "cli/chat_line.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/question.h"
#include "cli/sampling_options.h"

#define COMMANDS                                                       \
    "  /new          forgets the conversation, not the settings\n"     \
    "  /system TEXT  sets the system message; without TEXT none\n"     \
    "  /think LEVEL  off, low, high or max, from the next answer on\n" \
    "  /tokens       says how much of the context is used\n"           \
    "  /help         lists the commands\n"                             \
    "  /quit         ends the program, as Ctrl-D does\n"

const char hd_help_chat[] =
    "usage: hadal chat MODEL [options]\n"
    "\n"
    "Holds a conversation: each line is a message.  Answers go to standard output, reasoning to\n"
    "standard error.  Ctrl-C stops an answer, what came of it stays in the conversation; while a\n"
    "line is edited it clears the line.  Without a terminal the lines of standard input are\n"
    "answered one after the other.\n"
    "\n" HD_HELP_TEMPLATE_OPTIONS "\n" HD_HELP_SAMPLING_OPTIONS
    "\n" HD_HELP_SIZE_OPTIONS HD_HELP_MODEL_OPTIONS "\n"
    "A line that begins with / is a command:\n" COMMANDS;

/* Tokens read between two looks at Ctrl-C. */
#define READ_STEP 128

typedef struct chat {
    hd_model_options    model;
    hd_question         question; /* system, think and dialect only */
    hd_sampling_options drawing;

    hd_screen      screen;
    hd_engine     *engine;  /* owned */
    hd_session    *session; /* owned */
    hd_chat_lines *lines;   /* owned */
    hd_buffer      system;  /* owned: set by /system */
    hd_buffer      turns;   /* owned: messages after the system message, as JSON with commas */
    hd_buffer      seen;    /* owned: int32_t ids that the session has evaluated */
    hd_answer      answer;  /* owned */
    bool           has_failed;
} chat;

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Catches Ctrl-C as long as an answer is made; the old handling stands again afterwards. */
static void catch_interrupt(struct sigaction *old)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&a.sa_mask);
    interrupted = 0;
    sigaction(SIGINT, &a, old);
}

/* ---- what the session knows ---- */

static size_t count_seen(const chat *c) { return c->seen.used / sizeof(int32_t); }

/* The session evaluated a prefix of seen: what was drawn or asked behind it is not in it. */
static void cut_seen(chat *c)
{
    size_t const bytes = (size_t)hd_session_length(c->session) * sizeof(int32_t);
    if (c->seen.used > bytes) c->seen.used = bytes;
}

/* Returns how many of asked's ids the session has; it starts afresh when these are not all that
 * it has, since a cache cannot go back. */
static int32_t keep_prefix(chat *c, const hd_asked *asked)
{
    size_t const n = count_seen(c);
    if (n > 0 && n < (size_t)asked->n && memcmp(c->seen.data, asked->ids, c->seen.used) == 0)
        return (int32_t)n;
    hd_session_reset(c->session);
    hd_buffer_clear(&c->seen);
    return 0;
}

static hd_status check_room(const chat *c, int32_t n, hd_error *err)
{
    hd_engine_info info;
    hd_engine_info_get(c->engine, &info);
    if (n > info.max_tokens)
        HD_FAIL(err, HD_ERR_LIMIT,
                "the conversation has %d tokens, the context %d: /new starts over, --context "
                "makes room",
                n, info.max_tokens);
    return HD_OK;
}

/* ---- one answer ---- */

/* Reads all but the last id in steps, so that Ctrl-C ends a long prompt too. */
static hd_status read_prompt(chat *c, const int32_t *ids, int32_t n, hd_error *err)
{
    for (int32_t at = 0, step; at < n - 1; at += step) {
        step = n - 1 - at < READ_STEP ? n - 1 - at : READ_STEP;
        HD_TRY(hd_session_eval(c->session, ids + at, step, err));
        hd_screen_progress(&c->screen, "reading", at + step, n - 1);
        if (interrupted) HD_FAIL(err, HD_ERR_CANCELLED, "stopped while the prompt was read");
    }
    return HD_OK;
}

static hd_status generate(chat *c, const hd_asked *asked, hd_error *err)
{
    const int32_t *const last = &asked->ids[asked->n - 1];
    hd_generate_result   result;
    hd_generate_options  o = hd_sampling_options_generate(&c->drawing);
    o.start = asked->start;
    o.on_event = hd_answer_on_event;
    o.user = &c->answer;
    hd_status const s = hd_generate(c->session, last, 1, &o, &result, err);
    hd_answer_end(&c->answer, false);
    if (s == HD_OK && result.finish == HD_FINISH_LENGTH)
        hd_screen_note(&c->screen, "the answer was cut at a limit");
    return s;
}

static hd_status answer_ids(chat *c, const hd_asked *asked, hd_error *err)
{
    HD_TRY(check_room(c, asked->n, err));
    int32_t const known = keep_prefix(c, asked);
    hd_buffer_add(&c->seen, asked->ids + known, (size_t)(asked->n - known) * sizeof *asked->ids);
    HD_TRY(read_prompt(c, asked->ids + known, asked->n - known, err));
    return generate(c, asked, err);
}

static hd_status write_conversation(const chat *c, hd_buffer *out, hd_error *err)
{
    hd_buffer_text(out, "[");
    if (c->question.system) {
        const char *const text = c->question.system;
        HD_TRY(hd_question_add_message(out, "system", text, strlen(text), err));
        if (c->turns.used) hd_buffer_text(out, ", ");
    }
    hd_buffer_add(out, c->turns.data, c->turns.used);
    hd_buffer_text(out, "]");
    if (out->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the conversation");
    return HD_OK;
}

static hd_status answer_turn(chat *c, hd_error *err)
{
    hd_buffer source = {0};
    hd_asked  asked = {0};
    hd_answer_clear(&c->answer);
    hd_status s = write_conversation(c, &source, err);
    if (s == HD_OK) s = hd_question_encode(&c->question, &source, c->engine, &asked, err);
    if (s == HD_OK) s = answer_ids(c, &asked, err);
    hd_buffer_add(&c->seen, c->answer.ids.data, c->answer.ids.used);
    cut_seen(c);
    hd_screen_progress(&c->screen, "", 1, 1);
    hd_asked_free(&asked);
    hd_buffer_free(&source);
    return s;
}

/* The answer as a message, its reasoning too: the template drops what it does not want. */
static void add_answer(chat *c)
{
    const hd_buffer *const text = &c->answer.text, *const reasoning = &c->answer.reasoning;
    hd_buffer_text(&c->turns, ", {\"role\": \"assistant\", \"content\": ");
    hd_json_write_string(&c->turns, text->used ? text->data : "", text->used);
    if (reasoning->used) {
        hd_buffer_text(&c->turns, ", \"reasoning_content\": ");
        hd_json_write_string(&c->turns, reasoning->data, reasoning->used);
    }
    hd_buffer_text(&c->turns, "}");
}

/* Forgets the turns from byte `at` on. */
static void cut_turns(chat *c, size_t at)
{
    c->turns.used = at;
    if (c->turns.data) c->turns.data[at] = 0;
}

/* The conversation goes on, but the exit status will tell. */
static void complain(chat *c, const hd_error *err)
{
    hd_cli_fail(err);
    c->has_failed = true;
}

/* An answer that failed, or was stopped before it had a word, leaves no trace of its question. */
static void say(chat *c, const char *text, size_t bytes)
{
    struct sigaction old;
    hd_error         err = {0};
    size_t const     before = c->turns.used;
    if (before) hd_buffer_text(&c->turns, ", ");
    hd_status s = hd_question_add_message(&c->turns, "user", text, bytes, &err);
    catch_interrupt(&old);
    if (s == HD_OK) s = answer_turn(c, &err);
    sigaction(SIGINT, &old, NULL);
    bool const was_stopped = s == HD_ERR_CANCELLED && interrupted;
    if (s == HD_OK || (was_stopped && c->answer.text.used))
        add_answer(c);
    else
        cut_turns(c, before);
    if (was_stopped)
        hd_screen_note(&c->screen, "stopped");
    else if (s != HD_OK)
        complain(c, &err);
}

/* ---- commands ---- */

static void start_over(chat *c)
{
    hd_buffer_clear(&c->turns);
    hd_buffer_clear(&c->seen);
    hd_session_reset(c->session);
}

static void set_system(chat *c, const char *text)
{
    hd_buffer_clear(&c->system);
    hd_buffer_text(&c->system, text);
    c->question.system = *text ? c->system.data : NULL;
}

static hd_status set_think(chat *c, const char *word, hd_error *err)
{
    int const level = hd_think_find(word);
    if (level < 0)
        HD_FAIL(err, HD_ERR_INVALID, "/think '%s': wanted one of off, low, high, max", word);
    c->question.think = level;
    return HD_OK;
}

static void print_tokens(const chat *c)
{
    char           line[64];
    hd_engine_info info;
    hd_engine_info_get(c->engine, &info);
    int const n = snprintf(line, sizeof line, "%d of %d tokens\n", hd_session_length(c->session),
                           info.max_tokens);
    hd_stdout_write(line, (size_t)n);
}

/* Returns the word's rest when line begins with command, alone or before a space. */
static const char *match(const char *line, const char *command)
{
    size_t const n = strlen(command);
    if (strncmp(line, command, n) != 0 || (line[n] && line[n] != ' ')) return NULL;
    return line + n + strspn(line + n, " ");
}

static hd_status obey(chat *c, const char *line, hd_error *err)
{
    const char *rest;
    if (match(line, "/help"))
        hd_stdout_write(COMMANDS, strlen(COMMANDS));
    else if (match(line, "/new"))
        start_over(c);
    else if (match(line, "/tokens"))
        print_tokens(c);
    else if ((rest = match(line, "/think")))
        return set_think(c, rest, err);
    else if ((rest = match(line, "/system")))
        set_system(c, rest);
    else
        HD_FAIL(err, HD_ERR_INVALID, "no command '%s'; /help lists them", line);
    return HD_OK;
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t') return false;
    return true;
}

/* Returns false when the conversation is over. */
static bool take_line(chat *c, const hd_buffer *line)
{
    hd_error err = {0};
    if (line->failed) return false;
    if (is_blank(line->data, line->used)) return true;
    if (line->data[0] != '/')
        say(c, line->data, line->used);
    else if (match(line->data, "/quit"))
        return false;
    else if (obey(c, line->data, &err) != HD_OK)
        complain(c, &err);
    return !hd_stdout_has_failed() && !c->turns.failed && !c->seen.failed && !c->system.failed;
}

/* ---- the verb ---- */

static int read_arguments(chat *c, int argc, char **argv)
{
    hd_option model[HD_N_MODEL_OPTIONS], sizes[HD_N_SIZE_OPTIONS];
    hd_option drawing[HD_N_SAMPLING_OPTIONS], template[HD_N_TEMPLATE_OPTIONS];
    hd_model_options_list(&c->model, model);
    hd_model_options_list_sizes(&c->model, sizes);
    hd_sampling_options_list(&c->drawing, drawing);
    hd_question_list_template(&c->question, template);
    hd_command const command = {.verb = "chat",
                                .options = {template, drawing, sizes, model},
                                .operand = &c->model.model,
                                .operand_name = "MODEL"};
    return hd_options_read(&command, argc, argv);
}

static hd_status open_chat(chat *c, hd_error *err)
{
    HD_TRY(hd_model_options_open(&c->model, &c->screen, &c->engine, err));
    HD_TRY(hd_session_open(&c->session, c->engine, err));
    c->lines = hd_chat_lines_open();
    if (!c->lines) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the line editor");
    c->screen.is_muted = true;
    c->answer = (hd_answer){.tokenizer = hd_engine_tokenizer(c->engine),
                            .screen = &c->screen,
                            .stop = &interrupted,
                            .is_shown = true};
    return HD_OK;
}

static hd_status talk(chat *c, hd_error *err)
{
    hd_buffer   line = {0};
    size_t      bytes = 0;
    const char *typed;
    bool        is_on = true;
    if (hd_chat_lines_is_terminal(c->lines)) hd_screen_note(&c->screen, "/help lists the commands");
    while (is_on && (typed = hd_chat_lines_next(c->lines, &bytes))) {
        hd_buffer_clear(&line);
        hd_buffer_add(&line, typed, bytes);
        is_on = take_line(c, &line);
    }
    bool const is_short = line.failed || c->turns.failed || c->seen.failed || c->system.failed;
    hd_buffer_free(&line);
    if (is_short) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the conversation");
    return HD_OK;
}

int hd_cli_chat(int argc, char **argv)
{
    chat      c = {0};
    hd_error  err = {0};
    int const usage = read_arguments(&c, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&c.screen, c.model.is_quiet, c.model.is_verbose);
    hd_status s = open_chat(&c, &err);
    if (s == HD_OK) s = talk(&c, &err);
    hd_buffer *const all[] = {&c.system, &c.turns, &c.seen};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) hd_buffer_free(all[i]);
    hd_answer_free(&c.answer);
    hd_chat_lines_close(c.lines);
    hd_session_close(c.session);
    hd_engine_close(c.engine);
    if (s != HD_OK) return hd_cli_fail(&err);
    return c.has_failed ? HD_EXIT_FAILED : HD_EXIT_OK;
}
