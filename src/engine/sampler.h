#ifndef HD_ENGINE_SAMPLER_H
#define HD_ENGINE_SAMPLER_H

#include "base/status.h"

HD_BEGIN_C

/* What hd_sample refuses about its options, for who wants to know before the first token.
 * returns  HD_ERR_INVALID naming option and value */
hd_status hd_sampler_check(const hd_sampling *s, int32_t n_top, int32_t n_vocab, hd_error *err);
/* returns  HD_ERR_NUMERIC naming the first of n logits that is NaN or infinite */
hd_status hd_sampler_check_logits(const float *logits, int32_t n, hd_error *err);
/* What is said of token `id` under these logits, which are finite: its probability, and the n_top
 * most likely ones. */
void hd_sampler_report(hd_sampled *out, const float *logits, int32_t n, int32_t id, int32_t n_top);

HD_END_C
#endif
