#ifndef HD_CLI_OPTIONS_H
#define HD_CLI_OPTIONS_H

#include "base/status.h"

/* Reads a command line into variables, strictly: every word is an option that the verb has, a
 * value in its range, or the one operand. */

HD_BEGIN_C

/* An option that may be given several times. */
#define HD_MAX_TEXTS 16
typedef struct hd_text_list {
    const char *texts[HD_MAX_TEXTS]; /* borrowed from argv */
    int32_t     n;
} hd_text_list;

/* Ids of tokens; whether the vocabulary has them is the engine's to say. */
#define HD_MAX_IDS 64
typedef struct hd_id_list {
    int32_t ids[HD_MAX_IDS];
    int32_t n;
} hd_id_list;

/* ID=VALUE, VALUE being least .. most. */
#define HD_MAX_BIASES 300
typedef struct hd_bias_list {
    hd_logit_bias items[HD_MAX_BIASES];
    int32_t       n;
} hd_bias_list;

/* One option; exactly one of the pointers says what it is and where it goes. */
typedef struct hd_option {
    const char        *name; /* "--temp"; NULL ends a list */
    bool              *flag; /* takes no value */
    const char       **text; /* borrowed from argv */
    hd_text_list      *list;
    hd_id_list        *ids;
    hd_bias_list      *biases;
    int32_t           *number;  /* least .. most */
    float             *real;    /* least .. most */
    uint64_t          *seed;    /* any */
    uint32_t          *isa;     /* mask of kernel families */
    int               *choice;  /* index of a word of choices */
    const char *const *choices; /* ends with NULL */
    /* NAME=VALUE,...: options that have no dashes, the last one without a name */
    const struct hd_option *settings;
    double                  least, most;
} hd_option;

typedef struct hd_command {
    const char      *verb;
    const hd_option *options[6]; /* lists; those behind a NULL do not count */
    const char     **operand;    /* where the one operand goes */
    const char      *operand_name;
    const char     **second;       /* where a second one may go; NULL: there is none */
    const bool      *stands_alone; /* a flag that leaves no place for the operand, or NULL */
} hd_command;

/* Returns -1 when all was read, else the exit status: of --help, printed, or of wrong usage, with
 * a line on standard error. */
int hd_options_read(const hd_command *c, int argc, char **argv);

HD_END_C
#endif
