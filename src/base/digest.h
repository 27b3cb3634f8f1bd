#ifndef HD_BASE_DIGEST_H
#define HD_BASE_DIGEST_H

#include "base/status.h"

HD_BEGIN_C

/* FNV-1a of 64 bits, against accidents, not attacks.  Each step is a bijection of the state, so
 * a single changed byte always changes the digest. */
#define HD_DIGEST_START UINT64_C(0xCBF29CE484222325)
uint64_t hd_digest_add(uint64_t digest, const void *data, size_t bytes);

HD_END_C
#endif
