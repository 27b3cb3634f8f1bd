#include "cli/chat_line.h"

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/memory.h"

#define HISTORY_LINES 1000

struct hd_chat_lines {
    EditLine *edit;    /* owned; NULL: no terminal */
    History  *history; /* owned; NULL: no terminal */
    hd_buffer plain;   /* owned: the line at hand when there is no terminal */
};

static char *write_prompt(EditLine *edit)
{
    static char prompt[] = "> ";
    (void)edit;
    return prompt;
}

/* The editor counts characters as the locale does. */
static void choose_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

static bool open_editor(hd_chat_lines *l)
{
    HistEvent event;
    choose_utf8();
    l->edit = el_init("hadal", stdin, stdout, stderr);
    l->history = history_init();
    if (!l->edit || !l->history) return false;
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->edit, EL_PROMPT, write_prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_SIGNAL, 1);
    el_set(l->edit, EL_BIND, "^C", "em-kill-line", NULL);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return true;
}

hd_chat_lines *hd_chat_lines_open(void)
{
    hd_chat_lines *const l = hd_memory_alloc(sizeof *l);
    if (!l || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return l;
    if (open_editor(l)) return l;
    hd_chat_lines_close(l);
    return NULL;
}

void hd_chat_lines_close(hd_chat_lines *l)
{
    if (!l) return;
    if (l->edit) el_end(l->edit);
    if (l->history) history_end(l->history);
    hd_buffer_free(&l->plain);
    hd_memory_free(l);
}

bool hd_chat_lines_is_terminal(const hd_chat_lines *l) { return l->edit; }

static const char *read_plain(hd_chat_lines *l, size_t *bytes)
{
    int c;
    hd_buffer_clear(&l->plain);
    while ((c = getc(stdin)) != EOF && c != '\n') {
        char const byte = (char)c;
        hd_buffer_add(&l->plain, &byte, 1);
    }
    if (l->plain.failed || (c == EOF && l->plain.used == 0)) return NULL;
    if (l->plain.used > 0 && l->plain.data[l->plain.used - 1] == '\r') l->plain.used--;
    *bytes = l->plain.used;
    return l->plain.used ? l->plain.data : "";
}

/* While a line is edited Ctrl-C is a key that clears it, not a signal: whoever wants to leave
 * has Ctrl-D, and an answer can be stopped without fear of hitting the prompt.  The editor takes
 * the character from the terminal's settings when it begins, and only there. */
static const char *edit_line(hd_chat_lines *l, int *n)
{
    struct termios before, silent;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return el_gets(l->edit, n);
    silent = before;
    silent.c_cc[VINTR] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &silent);
    const char *const line = el_gets(l->edit, n);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    return line;
}

static const char *read_edited(hd_chat_lines *l, size_t *bytes)
{
    HistEvent         event;
    int               n = 0;
    const char *const line = edit_line(l, &n);
    if (!line || n <= 0) return NULL;
    *bytes = strcspn(line, "\n");
    if (*bytes > 0) history(l->history, &event, H_ENTER, line);
    return line;
}

const char *hd_chat_lines_next(hd_chat_lines *l, size_t *bytes)
{
    return l->edit ? read_edited(l, bytes) : read_plain(l, bytes);
}
