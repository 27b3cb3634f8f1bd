#ifndef HD_ENGINE_SAMPLER_H
#define HD_ENGINE_SAMPLER_H

#include "model/model.h"

HD_BEGIN_C

/* What hd_sample refuses about its options, for who wants to know before the first token.
 * returns  HD_ERR_INVALID naming option and value */
hd_status hd_sampler_check(const hd_sampling *s, int32_t n_top, int32_t n_vocab, hd_error *err);
/* returns  HD_ERR_NUMERIC naming the first of n logits that is NaN or infinite */
hd_status hd_sampler_check_logits(const float *logits, int32_t n, hd_error *err);
/* That error, of logit i. */
hd_status hd_sampler_fail_logit(int32_t i, int32_t n, float logit, hd_error *err);
/* Whether draw number `step` is one that the op `sample` knows how to make, and with what: logits
 * that are not changed, filtered by nothing but min_p.  It then gives what hd_sample gives, but for
 * what ops/sample.h says of edges. */
bool hd_sampler_ask(const hd_sampling *s, uint64_t step, int32_t n, hd_sample_ask *out);
/* What is said of token `id` under these logits, which are finite: its probability, and the n_top
 * most likely ones. */
void hd_sampler_report(hd_sampled *out, const float *logits, int32_t n, int32_t id, int32_t n_top);

HD_END_C
#endif
