#include "cli/sampling_options.h"

void hd_sampling_options_list(hd_sampling_options *s, hd_option out[HD_N_SAMPLING_OPTIONS])
{
    hd_sampling *const d = &s->sampling;
    hd_option const    list[HD_N_SAMPLING_OPTIONS] = {
           {.name = "-n", .number = &s->max_new, .least = 1, .most = INT32_MAX},
           {.name = "--temp", .real = &d->temperature, .least = 0, .most = 100},
           {.name = "--top-k", .number = &d->top_k, .least = 0, .most = INT32_MAX},
           {.name = "--top-p", .real = &d->top_p, .least = 0, .most = 1},
           {.name = "--min-p", .real = &d->min_p, .least = 0, .most = 1},
           {.name = "--seed", .seed = &d->seed},
           {.name = "--stop", .list = &s->stop},
           {.name = NULL}};
    for (int i = 0; i < HD_N_SAMPLING_OPTIONS; i++) out[i] = list[i];
}
