#ifndef HD_CLI_PROMPT_IDS_H
#define HD_CLI_PROMPT_IDS_H

#include "cli/model_options.h"
#include "cli/question.h"

/* The tokens of a single pass, for verbs that look into it: ids as they are given, or a prompt. */

HD_BEGIN_C

typedef struct hd_prompt_ids {
    hd_question question;
    const char *text;   /* of --ids; NULL: not given */
    hd_buffer   source; /* owned */
    hd_asked    asked;  /* owned: the ids */
} hd_prompt_ids;

#define HD_HELP_PROMPT_IDS                                                         \
    "  --ids LIST        token ids with commas between them, such as 0,671,6102\n" \
    "\n" HD_HELP_QUESTION_OPTIONS HD_HELP_TEMPLATE_OPTIONS

/* Fills the two lists of options of a question; --ids is the verb's own. */
void hd_prompt_ids_list(hd_prompt_ids *p, hd_option question[HD_N_QUESTION_OPTIONS],
                        hd_option template_options[HD_N_TEMPLATE_OPTIONS]);
/* -1 when the options go together, else the exit status of wrong usage. */
int  hd_prompt_ids_check(const hd_prompt_ids *p, const char *verb);
bool hd_prompt_ids_is_given(const hd_prompt_ids *p); /* by an option; else standard input is it */
/* Reads the ids; a prompt is encoded by the model that the options name. */
hd_status hd_prompt_ids_read(hd_prompt_ids *p, const hd_model_options *model, hd_error *err);
void      hd_prompt_ids_free(hd_prompt_ids *p);

HD_END_C
#endif
