#include "base/digest.h"

#define PRIME UINT64_C(0x100000001B3)

uint64_t hd_digest_add(uint64_t digest, const void *data, size_t bytes)
{
    const uint8_t *const p = data;
    for (size_t i = 0; i < bytes; i++) digest = (digest ^ p[i]) * PRIME;
    return digest;
}
