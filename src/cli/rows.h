#ifndef HD_CLI_ROWS_H
#define HD_CLI_ROWS_H

#include "base/json.h"
#include "cli/options.h"

/* --jsonl: one JSON object a line on standard input, one answer a line on standard output.
 * A row that cannot be answered is answered with its error; the job goes on. */

HD_BEGIN_C

/* Adds the members of the answer behind its id: `, "name": value` of each. */
typedef hd_status hd_row_fn(void *user, const json_object *row, hd_buffer *answer, hd_error *err);

/* Answers every line that is not blank.  returns the exit status */
int hd_rows_answer(hd_row_fn *fn, void *user);

/* The words of places where an answer begins, in the order of hd_parse_start. */
extern const char *const hd_start_words[];

HD_END_C
#endif
