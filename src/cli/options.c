#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cli/cli.h"

#define READ_ON (-1)

static int refuse_number(const hd_command *c, const hd_option *o, const char *value)
{
    return hd_cli_misuse(c->verb, "%s '%s': wanted a%s number %.10g .. %.10g", o->name, value,
                         o->number ? " whole" : "", o->least, o->most);
}

/* strtol and its like skip white space, which no value should begin with. */
static bool starts_number(const char *value) { return *value && !isspace((unsigned char)*value); }

static int read_number(const hd_command *c, const hd_option *o, const char *value)
{
    char *end = NULL;
    errno = 0;
    long const n = strtol(value, &end, 10);
    if (!starts_number(value) || *end || errno || (double)n < o->least || (double)n > o->most)
        return refuse_number(c, o, value);
    *o->number = (int32_t)n;
    return READ_ON;
}

static int read_real(const hd_command *c, const hd_option *o, const char *value)
{
    char        *end = NULL;
    double const x = strtod(value, &end);
    if (!starts_number(value) || *end || !(x >= o->least && x <= o->most))
        return refuse_number(c, o, value);
    *o->real = (float)x;
    return READ_ON;
}

static int refuse_more(const hd_command *c, const hd_option *o, int most)
{
    return hd_cli_misuse(c->verb, "%s may be given %d times", o->name, most);
}

/* An id that ends where `end` says; false when it is none. */
static bool parse_id(const char *value, const char *end, int32_t *id)
{
    char *stop = NULL;
    errno = 0;
    long const n = strtol(value, &stop, 10);
    *id = (int32_t)n;
    return isdigit((unsigned char)*value) && stop == end && !errno && n <= INT32_MAX;
}

static int read_id(const hd_command *c, const hd_option *o, const char *value)
{
    int32_t id;
    if (!parse_id(value, value + strlen(value), &id))
        return hd_cli_misuse(c->verb, "%s '%s': wanted an id 0 .. %d", o->name, value, INT32_MAX);
    if (o->ids->n == HD_MAX_IDS) return refuse_more(c, o, HD_MAX_IDS);
    o->ids->ids[o->ids->n++] = id;
    return READ_ON;
}

static int read_bias(const hd_command *c, const hd_option *o, const char *value)
{
    const char *const equals = strchr(value, '=');
    char             *end = NULL;
    int32_t           id = 0;
    double const      x = equals ? strtod(equals + 1, &end) : 0;
    if (!equals || !parse_id(value, equals, &id) || !starts_number(equals + 1) || *end ||
        !(x >= o->least && x <= o->most))
        return hd_cli_misuse(c->verb, "%s '%s': wanted ID=VALUE, an id and a number %g .. %g",
                             o->name, value, o->least, o->most);
    if (o->biases->n == HD_MAX_BIASES) return refuse_more(c, o, HD_MAX_BIASES);
    o->biases->items[o->biases->n++] = (hd_logit_bias){id, (float)x};
    return READ_ON;
}

static int read_seed(const hd_command *c, const hd_option *o, const char *value)
{
    char *end = NULL;
    errno = 0;
    unsigned long long const n = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno)
        return hd_cli_misuse(c->verb, "%s '%s': wanted a whole number 0 .. %llu", o->name, value,
                             (unsigned long long)UINT64_MAX);
    *o->seed = n;
    return READ_ON;
}

static int read_isa(const hd_command *c, const hd_option *o, const char *value)
{
    hd_error err = {0};
    if (hd_isa_parse(o->isa, value, &err) == HD_OK) return READ_ON;
    return hd_cli_misuse(c->verb, "%s: %s", o->name, err.message);
}

static int read_choice(const hd_command *c, const hd_option *o, const char *value)
{
    char   words[128] = "";
    size_t used = 0;
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], value) == 0) {
            *o->choice = i;
            return READ_ON;
        }
        if (used < sizeof words)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "",
                                     o->choices[i]);
    }
    return hd_cli_misuse(c->verb, "%s '%s': wanted one of %s", o->name, value, words);
}

static int read_text(const hd_command *c, const hd_option *o, const char *value)
{
    if (o->text) {
        *o->text = value;
        return READ_ON;
    }
    if (o->list->n == HD_MAX_TEXTS) return refuse_more(c, o, HD_MAX_TEXTS);
    o->list->texts[o->list->n++] = value;
    return READ_ON;
}

static const hd_option *find_in(const hd_option *list, const char *name, size_t bytes)
{
    for (const hd_option *o = list; o->name; o++)
        if (strlen(o->name) == bytes && memcmp(o->name, name, bytes) == 0) return o;
    return NULL;
}

static int read_value(const hd_command *c, const hd_option *o, const char *value);

static int read_settings(const hd_command *c, const hd_option *o, const char *value)
{
    int status = READ_ON;
    for (const char *p = value; status == READ_ON; p++) {
        char                   word[64];
        size_t const           bytes = strcspn(p, ","), name = strcspn(p, "=,");
        const hd_option *const s = find_in(o->settings, p, name);
        if (!s || p[name] != '=' || bytes >= sizeof word)
            return hd_cli_misuse(c->verb, "%s '%s': wanted NAME=VALUE,... of %s, %s and %s",
                                 o->name, value, o->settings[0].name, o->settings[1].name,
                                 o->settings[2].name);
        snprintf(word, sizeof word, "%.*s", (int)(bytes - name - 1), p + name + 1);
        status = read_value(c, s, word);
        p += bytes;
        if (!*p) break;
    }
    return status;
}

static int read_value(const hd_command *c, const hd_option *o, const char *value)
{
    if (o->number) return read_number(c, o, value);
    if (o->real) return read_real(c, o, value);
    if (o->seed) return read_seed(c, o, value);
    if (o->isa) return read_isa(c, o, value);
    if (o->choice) return read_choice(c, o, value);
    if (o->ids) return read_id(c, o, value);
    if (o->biases) return read_bias(c, o, value);
    if (o->settings) return read_settings(c, o, value);
    return read_text(c, o, value);
}

/* The option that arg names, alone or before a '='. */
static const hd_option *find_option(const hd_command *c, const char *arg, size_t bytes)
{
    size_t const n_lists = sizeof c->options / sizeof c->options[0];
    for (size_t i = 0; i < n_lists && c->options[i]; i++) {
        const hd_option *const o = find_in(c->options[i], arg, bytes);
        if (o) return o;
    }
    return NULL;
}

/* Reads the option at argv[*at] and moves *at over a value that stands apart. */
static int read_option(const hd_command *c, int argc, char **argv, int *at)
{
    const char *const arg = argv[*at];
    const char *const equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    size_t const      bytes = equals ? (size_t)(equals - arg) : strlen(arg);
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
        fputs(hd_verb_find(c->verb)->help, stdout);
        return HD_EXIT_OK;
    }
    const hd_option *const o = find_option(c, arg, bytes);
    if (!o) return hd_cli_misuse(c->verb, "unknown option %.*s", (int)bytes, arg);
    if (o->flag) {
        if (equals) return hd_cli_misuse(c->verb, "%s takes no value", o->name);
        *o->flag = true;
        return READ_ON;
    }
    if (equals) return read_value(c, o, equals + 1);
    if (*at + 1 >= argc) return hd_cli_misuse(c->verb, "%s needs a value", o->name);
    return read_value(c, o, argv[++*at]);
}

static int read_operand(const hd_command *c, const char *arg)
{
    if (*c->operand && c->second && !*c->second) {
        *c->second = arg;
        return READ_ON;
    }
    if (*c->operand && c->second) return hd_cli_misuse(c->verb, "one too many: '%s'", arg);
    if (*c->operand)
        return hd_cli_misuse(c->verb, "one %s only, not also '%s'", c->operand_name, arg);
    *c->operand = arg;
    return READ_ON;
}

static int check_operand(const hd_command *c)
{
    bool const stands_alone = c->stands_alone && *c->stands_alone;
    if (stands_alone && *c->operand)
        return hd_cli_misuse(c->verb, "one too many: '%s'", *c->operand);
    if (!stands_alone && !*c->operand)
        return hd_cli_misuse(c->verb, "no %s given", c->operand_name);
    return READ_ON;
}

int hd_options_read(const hd_command *c, int argc, char **argv)
{
    bool has_options = true;
    int  status = READ_ON;
    for (int i = 1; i < argc && status == READ_ON; i++) {
        if (has_options && strcmp(argv[i], "--") == 0)
            has_options = false;
        else if (has_options && argv[i][0] == '-' && argv[i][1])
            status = read_option(c, argc, argv, &i);
        else
            status = read_operand(c, argv[i]);
    }
    return status == READ_ON ? check_operand(c) : status;
}
