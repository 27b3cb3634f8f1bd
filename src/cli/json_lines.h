#ifndef HD_CLI_JSON_LINES_H
#define HD_CLI_JSON_LINES_H

#include "base/json.h"
#include "cli/screen.h"

/* A file with a JSON value on each line. */

HD_BEGIN_C

typedef struct hd_json_lines {
    const char      *path; /* for messages */
    const hd_buffer *text; /* of the file  */
    hd_screen       *screen;
    const char      *doing; /* how progress is called */
} hd_json_lines;

typedef struct hd_json_line {
    const json_object *value;
    const char        *text; /* [bytes] as it is spelled */
    size_t             bytes;
} hd_json_line;

/* What is given is borrowed until it returns. */
typedef hd_status hd_json_line_fn(void *user, const hd_json_line *line, hd_error *err);

/* Calls fn for every line that is not blank, until one fails; its message then begins with path and
 * number of the line. */
hd_status hd_json_lines_each(const hd_json_lines *l, hd_json_line_fn *fn, void *user,
                             hd_error *err);

HD_END_C
#endif
