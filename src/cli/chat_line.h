#ifndef HD_CLI_CHAT_LINE_H
#define HD_CLI_CHAT_LINE_H

#include "base/status.h"

/* The lines that a person types, edited on a terminal, or those of a file or a pipe. */

HD_BEGIN_C

typedef struct hd_chat_lines hd_chat_lines;

/* returns NULL when memory is short */
hd_chat_lines *hd_chat_lines_open(void);
void           hd_chat_lines_close(hd_chat_lines *l); /* NULL is fine */
bool           hd_chat_lines_is_terminal(const hd_chat_lines *l);
/* The next line without its end, borrowed until the next call; NULL at the end of the input. */
const char *hd_chat_lines_next(hd_chat_lines *l, size_t *bytes);

HD_END_C
#endif
