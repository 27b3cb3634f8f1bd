#include "base/digest.h"

#include <string.h>

#define PRIME UINT64_C(0x100000001B3)

uint64_t hd_digest_add(uint64_t digest, const void *data, size_t bytes)
{
    const uint8_t *const p = data;
    for (size_t i = 0; i < bytes; i++) digest = (digest ^ p[i]) * PRIME;
    return digest;
}

/* ---- runs ---- */

#define N_CHAINS 4
#define ODD      UINT64_C(0x9E3779B97F4A7C15)

/* A bijection of the chain, and of the word.  The product carries a bit upwards only, so the upper
 * ones are turned down to where the next product spreads them. */
static inline uint64_t mix(uint64_t chain, uint64_t word)
{
    uint64_t const x = (chain ^ word) * ODD;
    return x << 29 | x >> 35;
}

static uint64_t word_at(const uint8_t *p, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, p, bytes);
    return word;
}

uint64_t hd_digest_run(uint64_t digest, const void *data, size_t bytes)
{
    const uint8_t *const p = data;
    uint64_t             chain[N_CHAINS];
    size_t               at = 0;
    for (size_t c = 0; c < N_CHAINS; c++) chain[c] = digest + c * ODD;
    for (; bytes - at >= sizeof chain; at += sizeof chain)
        for (size_t c = 0; c < N_CHAINS; c++) chain[c] = mix(chain[c], word_at(p + at + 8 * c, 8));
    for (size_t c = 0; at < bytes; c++) {
        size_t const n = bytes - at < 8 ? bytes - at : 8;
        chain[c] = mix(chain[c], word_at(p + at, n));
        at += n;
    }
    digest = mix(digest, bytes);
    for (size_t c = 0; c < N_CHAINS; c++) digest = mix(digest, chain[c]);
    return digest;
}

/* ---- SHA-256 ---- */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void expand_block(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t const a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void mix_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    expand_block(block, w);
    for (int i = 0; i < 8; i++) v[i] = state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t const a = v[0], e = v[4];
        uint32_t const choice = (e & v[5]) ^ (~e & v[6]);
        uint32_t const majority = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
        uint32_t const first = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice +
                               round_constants[i] + w[i];
        uint32_t const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
        for (int k = 7; k > 0; k--) v[k] = v[k - 1];
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void hd_sha256_begin(hd_sha256 *h)
{
    /* Of the square roots of the first 8 primes. */
    *h = (hd_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                               0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void hd_sha256_add(hd_sha256 *h, const void *data, size_t bytes)
{
    const uint8_t *const p = data;
    for (size_t i = 0; i < bytes; i++) {
        h->block[h->bytes++ % sizeof h->block] = p[i];
        if (h->bytes % sizeof h->block == 0) mix_block(h->state, h->block);
    }
}

void hd_sha256_end(hd_sha256 *h, uint8_t out[HD_SHA256_BYTES])
{
    static const uint8_t first = 0x80, zero = 0;
    uint64_t const       bits = h->bytes * 8;
    uint8_t              length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    hd_sha256_add(h, &first, 1);
    while (h->bytes % sizeof h->block != sizeof h->block - sizeof length)
        hd_sha256_add(h, &zero, 1);
    hd_sha256_add(h, length, sizeof length);
    for (int i = 0; i < HD_SHA256_BYTES; i++)
        out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}
