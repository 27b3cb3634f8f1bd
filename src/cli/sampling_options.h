#ifndef HD_CLI_SAMPLING_OPTIONS_H
#define HD_CLI_SAMPLING_OPTIONS_H

#include "cli/options.h"

/* How an answer is drawn and where it ends. */

HD_BEGIN_C

typedef struct hd_sampling_options {
    hd_sampling  sampling; /* all zero: greedy; its bias is in biases */
    int32_t      max_new;  /* 0: to the end of the context */
    int32_t      min_new;
    hd_text_list stop;
    hd_id_list   stop_ids;
    hd_bias_list biases;
} hd_sampling_options;

/* How help texts describe them. */
#define HD_HELP_SAMPLING_OPTIONS                                                             \
    "  -n N              most new tokens; default: to the end of the context\n"              \
    "  --min-new N       the answer does not end before N tokens\n"                          \
    "  --temp T          temperature; 0 (default) takes the likeliest token each time\n"     \
    "  --top-k K         draw from the K likeliest tokens; 0 (default): from all\n"          \
    "  --top-p P         draw from the likeliest tokens that have share P together\n"        \
    "  --min-p P         leave out tokens below share P of the likeliest\n"                  \
    "  --seed N          the same seed draws the same tokens; default 0\n"                   \
    "  --presence-penalty X, --frequency-penalty X\n"                                        \
    "                    -2 .. 2, taken from the logit of a token that was drawn before,\n"  \
    "                    once or as often as it was; default 0\n"                            \
    "  --repetition-penalty X\n"                                                             \
    "                    logits of tokens of prompt and answer: those above 0 are divided\n" \
    "                    by X, those below multiplied; 0 and 1 (default 0): none\n"          \
    "  --logit-bias ID=X -100 .. 100, added to the logit of a token; several times\n"        \
    "  --stop TEXT       ends the answer before TEXT; may be given several times\n"          \
    "  --stop-id ID      a token that ends the answer; may be given several times\n"

#define HD_N_SAMPLING_OPTIONS 14 /* with the end of the list */
void hd_sampling_options_list(hd_sampling_options *s, hd_option out[HD_N_SAMPLING_OPTIONS]);
/* What they say of a generation; borrows from s. */
hd_generate_options hd_sampling_options_generate(const hd_sampling_options *s);

HD_END_C
#endif
