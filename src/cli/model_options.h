#ifndef HD_CLI_MODEL_OPTIONS_H
#define HD_CLI_MODEL_OPTIONS_H

#include "cli/options.h"
#include "cli/screen.h"

/* What every verb that runs a model is told about it. */

HD_BEGIN_C

typedef struct hd_model_options {
    const char *model; /* the operand */
    int         act;   /* an hd_act */
    int         kv;    /* an hd_kv  */
    int32_t     context, chunk;
    int32_t     n_sessions; /* 0: one                       */
    int32_t     marks;      /* as hd_options has it         */
    uint32_t    isa;        /* 0: the default of the engine */
    int32_t     threads;    /* 0: one a core                */
    int         pin;        /* 0: on, 1: off                */
    bool        has_mtp, is_trusted;
    bool        is_verbose, is_quiet;
} hd_model_options;

/* How help texts describe them. */
#define HD_HELP_MODEL_OPTIONS                                                                   \
    "  --act MODE        roundings of activations: exact, official, nvfp4, or default, which\n" \
    "                    is what the checkpoint was made for\n"                                 \
    "  --kv FORMAT       rows of the KV cache: f32 (the default), bf16, fp8, nvfp4\n"           \
    "  --isa LIST        kernel families: ref, avx2, avx512, or all; default: all\n"            \
    "  --threads N       threads that share a pass; default: one a core\n"                      \
    "  --pin on|off      whether threads keep to cores; off for two engines on one machine\n"   \
    "  --trust           do not check the block scales of the weights, which reads them all\n"  \
    "  --quiet           nothing on standard error but errors\n"                                \
    "  --verbose         also what was loaded, memory and speed, on standard error\n"
#define HD_HELP_SIZE_OPTIONS                                                                \
    "  --context N       most tokens of a sequence; default 4096, or the model's if less\n" \
    "  --chunk N         most tokens read in one pass; default 128\n"

#define HD_N_MODEL_OPTIONS 9 /* with the end of the list */
void hd_model_options_list(hd_model_options *m, hd_option out[HD_N_MODEL_OPTIONS]);
/* The same for the second of two runs: --act-b, --kv-b, --isa-b. */
#define HD_N_SECOND_OPTIONS 4
void hd_model_options_list_second(hd_model_options *m, hd_option out[HD_N_SECOND_OPTIONS]);
/* The same without dashes, for hd_option.settings. */
void hd_model_options_list_setting(hd_model_options *m, hd_option out[HD_N_SECOND_OPTIONS]);
/* Nothing of them is given yet. */
void hd_model_options_clear_second(hd_model_options *m);
/* What was not given, and everything else, is as in `first`. */
void hd_model_options_complete(hd_model_options *m, const hd_model_options *first);
/* The sizes, for verbs where the user chooses them. */
#define HD_N_SIZE_OPTIONS 3
void hd_model_options_list_sizes(hd_model_options *m, hd_option out[HD_N_SIZE_OPTIONS]);

/* The engine's options that these are; messages go to the screen. */
hd_options hd_model_options_engine(const hd_model_options *m, hd_screen *screen);
/* Opens the engine and tells on the screen what runs.
 * owns     *out is the caller's: hd_engine_close */
hd_status hd_model_options_open(const hd_model_options *m, hd_screen *screen, hd_engine **out,
                                hd_error *err);

HD_END_C
#endif
