#include "cli/sampling_options.h"

void hd_sampling_options_list(hd_sampling_options *s, hd_option out[HD_N_SAMPLING_OPTIONS])
{
    hd_sampling *const d = &s->sampling;
    float *const       repeat = &d->repetition_penalty;
    hd_option const    list[HD_N_SAMPLING_OPTIONS] = {
           {.name = "-n", .number = &s->max_new, .least = 1, .most = INT32_MAX},
           {.name = "--min-new", .number = &s->min_new, .least = 0, .most = INT32_MAX},
           {.name = "--temp", .real = &d->temperature, .least = 0, .most = 100},
           {.name = "--top-k", .number = &d->top_k, .least = 0, .most = INT32_MAX},
           {.name = "--top-p", .real = &d->top_p, .least = 0, .most = 1},
           {.name = "--min-p", .real = &d->min_p, .least = 0, .most = 1},
           {.name = "--seed", .seed = &d->seed},
           {.name = "--presence-penalty", .real = &d->presence_penalty, .least = -2, .most = 2},
           {.name = "--frequency-penalty", .real = &d->frequency_penalty, .least = -2, .most = 2},
           {.name = "--repetition-penalty", .real = repeat, .least = 0, .most = 100},
           {.name = "--logit-bias", .biases = &s->biases, .least = -100, .most = 100},
           {.name = "--stop", .list = &s->stop},
           {.name = "--stop-id", .ids = &s->stop_ids},
           {.name = NULL}};
    for (int i = 0; i < HD_N_SAMPLING_OPTIONS; i++) out[i] = list[i];
}

hd_generate_options hd_sampling_options_generate(const hd_sampling_options *s)
{
    hd_generate_options o = {.sampling = s->sampling,
                             .max_new = s->max_new,
                             .min_new = s->min_new,
                             .stop = s->stop.texts,
                             .n_stop = s->stop.n,
                             .stop_ids = s->stop_ids.ids,
                             .n_stop_ids = s->stop_ids.n};
    o.sampling.bias = s->biases.items;
    o.sampling.n_bias = s->biases.n;
    return o;
}
