#ifndef HD_ENGINE_SAMPLER_H
#define HD_ENGINE_SAMPLER_H

#include "base/status.h"

HD_BEGIN_C

/* What hd_sample refuses about its options, for who wants to know before the first token.
 * returns  HD_ERR_INVALID naming option and value */
hd_status hd_sampler_check(const hd_sampling *s, int32_t n_top, int32_t n_vocab, hd_error *err);

HD_END_C
#endif
