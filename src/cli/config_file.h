#ifndef HD_CLI_CONFIG_FILE_H
#define HD_CLI_CONFIG_FILE_H

#include "base/memory.h"

/* A command line in a file: a line is the name of an option, without its dashes, and its value if
 * it takes one, with a '=' between:
 *
 *     # for the whole house
 *     port = 8080
 *     cors = https://chat.example
 *     trust
 */

HD_BEGIN_C

/* The words of a command line, as argv has them. */
typedef struct hd_words {
    char  **words; /* [n], owned by the pool */
    int     n;
    hd_pool pool; /* owned */
} hd_words;

/* argv with the words of the file in front of its own, so that these count where an option may
 * stand once; argv[0] stays the first.  argv itself when `path` is NULL.
 * owns     hd_words_free */
hd_status hd_config_file_join(hd_words *out, const char *path, int argc, char **argv,
                              hd_error *err);
void      hd_words_free(hd_words *w);
/* The value of the last --config of a command line; NULL: there is none. */
const char *hd_config_file_find(int argc, char **argv);

HD_END_C
#endif
