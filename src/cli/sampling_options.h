#ifndef HD_CLI_SAMPLING_OPTIONS_H
#define HD_CLI_SAMPLING_OPTIONS_H

#include "cli/options.h"

/* How an answer is drawn and where it ends. */

HD_BEGIN_C

typedef struct hd_sampling_options {
    hd_sampling  sampling; /* all zero: greedy */
    int32_t      max_new;  /* 0: to the end of the context */
    hd_text_list stop;
} hd_sampling_options;

/* How help texts describe them. */
#define HD_HELP_SAMPLING_OPTIONS                                                         \
    "  -n N              most new tokens; default: to the end of the context\n"          \
    "  --temp T          temperature; 0 (default) takes the likeliest token each time\n" \
    "  --top-k K         draw from the K likeliest tokens; 0 (default): from all\n"      \
    "  --top-p P         draw from the likeliest tokens that have share P together\n"    \
    "  --min-p P         leave out tokens below share P of the likeliest\n"              \
    "  --seed N          the same seed draws the same tokens; default 0\n"               \
    "  --stop TEXT       ends the answer before TEXT; may be given several times\n"

#define HD_N_SAMPLING_OPTIONS 8 /* with the end of the list */
void hd_sampling_options_list(hd_sampling_options *s, hd_option out[HD_N_SAMPLING_OPTIONS]);

HD_END_C
#endif
