/* Saved sessions: any bytes, and any bytes under a right checksum, are taken whole or refused. */
#include <string.h>

#include "base/digest.h"
#include "cached_engine.h"

static void parse(const uint8_t *data, size_t size)
{
    hd_error      err = {0};
    int32_t const before = session.length;
    if (hd_session_parse(&session, data, size, "fuzz", &err) == HD_OK) {
        assert(session.length >= 0 && session.length <= N_TOKENS);
        return;
    }
    assert(session.length == before && err.code != HD_OK && err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t right[1 << 17];
    if (!engine.kv.base) open_engine();
    parse(data, size);
    if (size < 64 || size > sizeof right) return 0;
    memcpy(right, data, size);
    uint64_t digest = hd_digest_add(HD_DIGEST_START, right, 56);
    digest = hd_digest_add(digest, right + 64, size - 64);
    memcpy(right + 56, &digest, sizeof digest);
    parse(right, size);
    return 0;
}
