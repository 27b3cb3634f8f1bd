#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "cli/answer.h"
#include "cli/eval_job.h"
#include "cli/json_lines.h"
#include "cli/question.h"

/* Conversations with one right last answer. */

#define MAX_KINDS 256

typedef struct task_kind {
    char    name[64];
    int32_t n, right;
} task_kind;

/* One line of the file; everything is borrowed from its JSON and from the file's text. */
typedef struct task {
    const char *line;
    size_t      line_bytes, expected_bytes;
    const char *id, *kind, *expected;
    hd_think    think;
} task;

typedef struct task_run {
    hd_eval_job *job;
    task_kind    kinds[MAX_KINDS]; /* in the order of their first rows */
    int32_t      n_kinds, n, right;
    hd_answer    answer;   /* owned: of the row at hand */
    hd_buffer    failures; /* owned: as JSON or as lines */
    hd_finish    finish;
} task_run;

/* ---- rows ---- */

static hd_status take_text(const json_object *row, const char *name, const char **out,
                           size_t *bytes, hd_error *err)
{
    *out = hd_json_text(hd_json_member(row, name), bytes);
    if (!*out) HD_FAIL(err, HD_ERR_FORMAT, "\"%s\" is missing or no string", name);
    return HD_OK;
}

static hd_status read_task(const json_object *row, task *t, hd_error *err)
{
    const json_object *const think = hd_json_member(row, "think");
    if (!json_object_is_type(row, json_type_object))
        HD_FAIL(err, HD_ERR_FORMAT, "the line is no object");
    HD_TRY(take_text(row, "id", &t->id, NULL, err));
    HD_TRY(take_text(row, "kind", &t->kind, NULL, err));
    HD_TRY(take_text(row, "expected", &t->expected, &t->expected_bytes, err));
    if (strlen(t->kind) >= sizeof((task_kind *)0)->name)
        HD_FAIL(err, HD_ERR_LIMIT, "\"kind\" has %zu bytes: wanted less than %zu", strlen(t->kind),
                sizeof((task_kind *)0)->name);
    const char *const word = think ? hd_json_text(think, NULL) : "off";
    int const         level = word ? hd_think_find(word) : -1;
    if (level < 0) HD_FAIL(err, HD_ERR_FORMAT, "\"think\" is none of off, low, high, max");
    t->think = (hd_think)level;
    return HD_OK;
}

static task_kind *find_kind(task_run *r, const char *name, hd_error *err)
{
    for (int32_t i = 0; i < r->n_kinds; i++)
        if (strcmp(r->kinds[i].name, name) == 0) return &r->kinds[i];
    if (r->n_kinds == MAX_KINDS) {
        hd_error_set(err, HD_ERR_LIMIT, -1, "more than %d kinds", MAX_KINDS);
        return NULL;
    }
    task_kind *const k = &r->kinds[r->n_kinds++];
    snprintf(k->name, sizeof k->name, "%s", name);
    return k;
}

/* ---- answering ---- */

static hd_status generate(task_run *r, const hd_asked *asked, hd_error *err)
{
    hd_eval_job *const        j = r->job;
    hd_generate_result        result;
    hd_generate_options const o = {.max_new = j->max_new,
                                   .start = asked->start,
                                   .has_tools = asked->has_tools,
                                   .on_event = hd_answer_on_event,
                                   .user = &r->answer};
    hd_answer_clear(&r->answer);
    hd_session_reset(j->session);
    HD_TRY(hd_generate(j->session, asked->ids, asked->n, &o, &result, err));
    if (hd_answer_has_failed(&r->answer)) HD_FAIL(err, HD_ERR_MEMORY, "no memory for an answer");
    r->finish = result.finish;
    return HD_OK;
}

static hd_status answer(task_run *r, const task *t, hd_error *err)
{
    hd_asked          asked = {0};
    hd_question const q = {.think = (int)t->think, .dialect = -1};
    hd_buffer         source = {0};
    hd_buffer_add(&source, t->line, t->line_bytes);
    if (source.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a row");
    hd_status s = hd_question_encode(&q, &source, r->job->engine, &asked, err);
    if (s == HD_OK) s = generate(r, &asked, err);
    hd_asked_free(&asked);
    hd_buffer_free(&source);
    return s;
}

static bool is_right(const task_run *r, const task *t)
{
    const hd_buffer *const got = &r->answer.text;
    return r->finish == HD_FINISH_STOP && r->answer.n_calls == 0 && r->answer.unparsed.used == 0 &&
           got->used == t->expected_bytes &&
           (got->used == 0 || memcmp(got->data, t->expected, got->used) == 0);
}

static void write_got(const task_run *r, hd_buffer *out)
{
    const hd_answer *const a = &r->answer;
    hd_buffer_text(out, "\"text\": ");
    hd_json_write_string(out, a->text.used ? a->text.data : "", a->text.used);
    hd_buffer_printf(out,
                     ", \"tool_calls\": [%s], \"unparsed\": ", a->calls.used ? a->calls.data : "");
    hd_json_write_string(out, a->unparsed.used ? a->unparsed.data : "", a->unparsed.used);
}

/* For people: two lines, what was wanted and what came, with calls only when there are any. */
static void list_failure(const task_run *r, const task *t, hd_buffer *out)
{
    const hd_answer *const a = &r->answer;
    hd_buffer_printf(out, "\n%s\n  expected  ", t->id);
    hd_json_write_string(out, t->expected, t->expected_bytes);
    hd_buffer_text(out, "\n  got       ");
    hd_json_write_string(out, a->text.used ? a->text.data : "", a->text.used);
    if (a->calls.used) hd_buffer_printf(out, " calls [%s]", a->calls.data);
    if (a->unparsed.used) hd_buffer_text(out, " and a malformed call");
    if (r->finish == HD_FINISH_LENGTH) hd_buffer_text(out, " cut at the limit");
    hd_buffer_text(out, "\n");
}

static void keep_failure(task_run *r, const task *t)
{
    hd_buffer *const out = &r->failures;
    if (!r->job->is_json) {
        list_failure(r, t, out);
        return;
    }
    hd_buffer_text(out, out->used ? ", {\"id\": " : "{\"id\": ");
    hd_json_write_string(out, t->id, strlen(t->id));
    hd_buffer_text(out, ", \"expected\": ");
    hd_json_write_string(out, t->expected, t->expected_bytes);
    hd_buffer_text(out, ", ");
    write_got(r, out);
    hd_buffer_printf(out, ", \"finish_reason\": \"%s\"}", hd_finish_name(r->finish));
}

static hd_status run_row(void *user, const hd_json_line *line, hd_error *err)
{
    task_run *const r = user;
    task            t = {.line = line->text, .line_bytes = line->bytes};
    HD_TRY(read_task(line->value, &t, err));
    task_kind *const k = find_kind(r, t.kind, err);
    if (!k) return HD_ERR_LIMIT;
    if (r->job->limit && k->n >= r->job->limit) return HD_OK;
    HD_TRY(answer(r, &t, err));
    bool const right = is_right(r, &t);
    k->n++;
    k->right += right;
    r->n++;
    r->right += right;
    if (!right && r->job->lists_failures) keep_failure(r, &t);
    return HD_OK;
}

static hd_status run_lines(task_run *r, hd_error *err)
{
    hd_eval_job *const  j = r->job;
    hd_json_lines const lines = {j->tasks, &j->source, &j->screen, "answering"};
    HD_TRY(hd_json_lines_each(&lines, run_row, r, err));
    if (r->n == 0) HD_FAIL(err, HD_ERR_FORMAT, "%s: no rows", j->tasks);
    return HD_OK;
}

/* ---- the table ---- */

static double share(int32_t right, int32_t n) { return n ? (double)right / n : 0; }

/* Of the kinds' shares, so that a kind with few rows counts as much as any other. */
static double mean_share(const task_run *r)
{
    double sum = 0;
    for (int32_t i = 0; i < r->n_kinds; i++) sum += share(r->kinds[i].right, r->kinds[i].n);
    return sum / r->n_kinds;
}

static void print_table(const task_run *r, hd_buffer *out)
{
    hd_buffer_printf(out, "%-16s %6s %6s %6s\n", "kind", "n", "right", "share");
    for (int32_t i = 0; i < r->n_kinds; i++) {
        const task_kind *const k = &r->kinds[i];
        hd_buffer_printf(out, "%-16s %6d %6d %6.3f\n", k->name, k->n, k->right,
                         share(k->right, k->n));
    }
    hd_buffer_printf(out, "%-16s %6d %6d %6.3f\n", "mean of kinds", r->n, r->right, mean_share(r));
    if (r->failures.used) hd_buffer_add(out, r->failures.data, r->failures.used);
}

static void print_json(const task_run *r, hd_buffer *out)
{
    hd_engine_info info;
    hd_engine_info_get(r->job->engine, &info);
    hd_buffer_text(out, "{\"kinds\": [");
    for (int32_t i = 0; i < r->n_kinds; i++) {
        const task_kind *const k = &r->kinds[i];
        hd_buffer_text(out, i ? ", {\"kind\": " : "{\"kind\": ");
        hd_json_write_string(out, k->name, strlen(k->name));
        hd_buffer_printf(out, ", \"n\": %d, \"right\": %d, \"share\": %.6f}", k->n, k->right,
                         share(k->right, k->n));
    }
    hd_buffer_printf(out, "], \"n\": %d, \"right\": %d, \"mean\": %.6f, \"act\": \"%s\"", r->n,
                     r->right, mean_share(r), hd_act_name(info.act));
    if (r->job->lists_failures) {
        hd_buffer_text(out, ", \"failures\": [");
        if (r->failures.used) hd_buffer_add(out, r->failures.data, r->failures.used);
        hd_buffer_text(out, "]");
    }
    hd_buffer_text(out, "}\n");
}

static hd_status run_tasks(task_run *r, hd_error *err)
{
    HD_TRY(run_lines(r, err));
    if (r->failures.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the failures");
    if (r->job->is_json)
        print_json(r, &r->job->out);
    else
        print_table(r, &r->job->out);
    return HD_OK;
}

hd_status hd_eval_tasks(hd_eval_job *j, hd_error *err)
{
    task_run *const r = hd_memory_alloc(sizeof *r);
    if (!r) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the table of kinds");
    r->job = j;
    r->answer.tokenizer = hd_engine_tokenizer(j->engine);
    r->answer.screen = &j->screen;
    hd_status const s = run_tasks(r, err);
    hd_answer_free(&r->answer);
    hd_buffer_free(&r->failures);
    hd_memory_free(r);
    return s;
}
