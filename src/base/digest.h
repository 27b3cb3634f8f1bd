#ifndef HD_BASE_DIGEST_H
#define HD_BASE_DIGEST_H

#include "base/status.h"

HD_BEGIN_C

/* FNV-1a of 64 bits, against accidents, not attacks.  Each step is a bijection of the state, so
 * a single changed byte always changes the digest. */
#define HD_DIGEST_START UINT64_C(0xCBF29CE484222325)
uint64_t hd_digest_add(uint64_t digest, const void *data, size_t bytes);

/* The same for runs that are long and at hand as a whole: 8 bytes a step, in four chains that do
 * not wait for each other.  A change within one chain always changes it; where runs are cut
 * matters. Words are read as the machine has them: of a file it is that of a little endian machine.
 */
uint64_t hd_digest_run(uint64_t digest, const void *data, size_t bytes);

/* SHA-256 (FIPS 180-4), for names that nobody can make two things have. */
#define HD_SHA256_BYTES 32
typedef struct hd_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    uint8_t  block[64];
} hd_sha256;
void hd_sha256_begin(hd_sha256 *h);
void hd_sha256_add(hd_sha256 *h, const void *data, size_t bytes);
void hd_sha256_end(hd_sha256 *h, uint8_t out[HD_SHA256_BYTES]);

HD_END_C
#endif
