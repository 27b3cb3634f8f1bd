#ifndef HD_CLI_QUESTION_H
#define HD_CLI_QUESTION_H

#include "base/memory.h"
#include "cli/options.h"

/* From what the user gives, a text or a file of messages, to the ids that the model reads. */

HD_BEGIN_C

typedef struct hd_question {
    const char *text, *messages, *system; /* borrowed from argv; NULL: not given */
    int         think, dialect;           /* hd_think, hd_dialect; -1: not given */
    bool        is_raw;                   /* the text is the prompt: no template */
} hd_question;

/* How help texts describe them. */
#define HD_HELP_QUESTION_OPTIONS                                                               \
    "  -p TEXT           the prompt: one user message; without it, standard input\n"           \
    "  --messages FILE   OpenAI chat messages: a JSON list, or an object with messages and\n"  \
    "                    optionally tools and response_format; - is standard input\n"          \
    "  --raw             the text is the whole prompt: no template, no begin-of-sentence is\n" \
    "                    added, and spellings of control tokens are these tokens\n"
#define HD_HELP_TEMPLATE_OPTIONS                                                                  \
    "  --system TEXT     the system message\n"                                                    \
    "  --think LEVEL     reasoning before the answer: off (default), low, high, max\n"            \
    "  --dialect NAME    of the prompt template: ga, preview, ga_api or v41_api (help prompt);\n" \
    "                    default: the checkpoint's\n"

#define HD_N_QUESTION_OPTIONS 4 /* with the end of the list */
void hd_question_list(hd_question *q, hd_option out[HD_N_QUESTION_OPTIONS]);
/* What a template asks for; they are not given until the command line is read. */
#define HD_N_TEMPLATE_OPTIONS 4
void hd_question_list_template(hd_question *q, hd_option out[HD_N_TEMPLATE_OPTIONS]);
/* -1 when the options go together, else the exit status of wrong usage. */
int hd_question_check(const hd_question *q, const char *verb);

/* The words of --think, in the order of hd_think, and their index; -1 when it is none. */
extern const char *const hd_think_words[];
/* The words of --dialect, in the order of hd_dialect. */
extern const char *const hd_dialect_words[];
int                      hd_think_find(const char *word);

typedef struct hd_asked {
    int32_t       *ids; /* [n] owned */
    int32_t        n;
    hd_parse_start start;     /* where the answer begins */
    bool           has_tools; /* it may hold calls */
} hd_asked;

/* Reads what was given: a raw prompt as it is, else messages as JSON.
 * source   the caller's to free, also after a failure */
hd_status hd_question_read(const hd_question *q, hd_buffer *source, hd_error *err);
/* Turns source into ids for the engine's model.  Zero-initialised *out. */
hd_status hd_question_encode(const hd_question *q, const hd_buffer *source, const hd_engine *e,
                             hd_asked *out, hd_error *err);
void      hd_asked_free(hd_asked *a);

/* Adds {"role": role, "content": text}; fails when text is not UTF-8. */
hd_status hd_question_add_message(hd_buffer *json, const char *role, const char *text, size_t bytes,
                                  hd_error *err);
/* Reads a whole file, "-" being standard input. */
hd_status hd_question_read_file(const char *path, hd_buffer *out, hd_error *err);

HD_END_C
#endif
