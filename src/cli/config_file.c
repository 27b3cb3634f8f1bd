#include "cli/config_file.h"

#include <string.h>

#include "base/file.h"

enum { MAX_FILE = 1 << 20 };

static const char option[] = "--config";

const char *hd_config_file_find(int argc, char **argv)
{
    const char  *path = NULL;
    size_t const n = sizeof option - 1;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], option) == 0 && i + 1 < argc) path = argv[i + 1];
        if (strncmp(argv[i], option, n) == 0 && argv[i][n] == '=') path = argv[i] + n + 1;
    }
    return path;
}

static int count_lines(const char *text)
{
    int n = 1;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* Without blanks at both ends. */
static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) n--;
    text[n] = 0;
    return text;
}

static char *cut_line(char **rest)
{
    char *const line = *rest;
    char *const end = strchr(line, '\n');
    if (end) *end = 0;
    *rest = end ? end + 1 : NULL;
    return trim(line);
}

/* "--name" or "--name=value" of "name" or "name = value". */
static char *make_word(hd_pool *pool, char *line)
{
    char *const equals = strchr(line, '=');
    if (equals) *equals = 0;
    const char *const name = trim(line);
    const char *const value = equals ? trim(equals + 1) : "";
    size_t const      bytes = strlen(name) + strlen(value) + 4;
    char *const       word = hd_pool_alloc(pool, bytes);
    if (!word) return NULL;
    word[0] = word[1] = '-';
    memcpy(word + 2, name, strlen(name));
    if (equals) word[2 + strlen(name)] = '=';
    if (equals) memcpy(word + 3 + strlen(name), value, strlen(value));
    return word;
}

static hd_status read_lines(hd_words *out, const char *path, char *text, hd_error *err)
{
    for (int n = 1; text; n++) {
        char *const line = cut_line(&text);
        if (!*line || *line == '#') continue;
        if (*line == '-' || *line == '=')
            HD_FAIL(err, HD_ERR_FORMAT, "%s: line %d: wanted a name without dashes", path, n);
        if (strncmp(line, option + 2, sizeof option - 3) == 0 &&
            !strchr("abcdefghijklmnopqrstuvwxyz", line[sizeof option - 3]))
            HD_FAIL(err, HD_ERR_FORMAT, "%s: line %d: a file names no other", path, n);
        out->words[out->n] = make_word(&out->pool, line);
        if (!out->words[out->n++]) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for it", path);
    }
    return HD_OK;
}

static hd_status read_file(hd_words *out, const char *path, int argc, char **argv, hd_error *err)
{
    char  *text = NULL;
    size_t bytes = 0;
    HD_TRY(hd_file_read(&text, &bytes, path, MAX_FILE, &out->pool, err));
    if (strlen(text) != bytes) HD_FAIL(err, HD_ERR_FORMAT, "%s: it holds a NUL", path);
    size_t const most = (size_t)argc + (size_t)count_lines(text);
    out->words = hd_pool_alloc(&out->pool, most * sizeof *out->words);
    if (!out->words) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for it", path);
    out->words[out->n++] = argv[0];
    HD_TRY(read_lines(out, path, text, err));
    for (int i = 1; i < argc; i++) out->words[out->n++] = argv[i];
    return HD_OK;
}

hd_status hd_config_file_join(hd_words *out, const char *path, int argc, char **argv, hd_error *err)
{
    *out = (hd_words){.words = argv, .n = argc};
    if (!path) return HD_OK;
    *out = (hd_words){0};
    hd_status const s = read_file(out, path, argc, argv, err);
    if (s != HD_OK) hd_words_free(out);
    return s;
}

void hd_words_free(hd_words *w) { hd_pool_free(&w->pool); }
