#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "hadal_serve.h"

static hd_tokenizer *tokenizer; /* the demo's, for all inputs */

static bool is_allowed(const uint32_t *mask, int32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* The `how`th of the tokens allowed, as the input says. */
static int32_t choose(const uint32_t *mask, int32_t n, uint32_t how)
{
    int32_t count = 0;
    for (int32_t id = 0; id < n; id++) count += is_allowed(mask, id);
    if (count == 0) abort();
    int32_t left = (int32_t)(how % (uint32_t)count);
    for (int32_t id = 0;; id++)
        if (is_allowed(mask, id) && left-- == 0) return id;
}

/* Goes where the bytes lead: a token of the mask is always taken, one beside it never. */
static void walk(const hd_grammar *g, hd_parse_start start, const uint8_t *way, size_t n_way)
{
    static uint32_t mask[1 << 12];
    hd_matcher     *m = NULL;
    int32_t const   n = hd_tokenizer_vocab(tokenizer), end = 1;
    if (n > (int32_t)sizeof mask * 8) abort();
    if (hd_matcher_open(&m, g, start, NULL) != HD_OK) return;
    for (size_t i = 0; i + 1 < n_way && i < 64; i += 2) {
        uint32_t const  how = way[i] | (uint32_t)way[i + 1] << 8;
        hd_status const status = hd_matcher_mask(m, mask, n, &end, 1, NULL);
        if (status == HD_ERR_LIMIT) break;
        if (status != HD_OK) abort();
        int32_t const other = (int32_t)(how % (uint32_t)n);
        bool const    is_in = is_allowed(mask, other);
        int32_t const id = is_in ? other : choose(mask, n, how);
        if (!is_in && other != end && hd_matcher_accept(m, other, NULL) == HD_OK) abort();
        if (id == end) break;
        hd_status const taken = hd_matcher_accept(m, id, NULL);
        if (taken == HD_ERR_LIMIT) break;
        if (taken != HD_OK) abort();
    }
    hd_matcher_close(m);
}

/* The first byte says how, the bytes up to a NUL are the schema or the tools, the rest is the way
 * through it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hd_error    err = {0};
    hd_grammar *g = NULL;
    if (!tokenizer && hd_tokenizer_open(&tokenizer, "models/demo", &err) != HD_OK) abort();
    if (size < 2 || size > 4096) return 0;
    static const char        object[] = "{\"type\":\"object\"}";
    bool const               is_either = (data[0] & 1) && !(data[0] & 4) && (data[0] & 32);
    const uint8_t *const     end = memchr(data + 1, 0, size - 1);
    size_t const             bytes = end ? (size_t)(end - data - 1) : size - 1;
    hd_grammar_options const opt = {.kind = data[0] & 1 ? HD_GRAMMAR_TOOL_CALLS : HD_GRAMMAR_SCHEMA,
                                    .json = (const char *)data + 1,
                                    .json_bytes = bytes,
                                    .instead = is_either ? object : NULL,
                                    .instead_bytes = is_either ? sizeof object - 1 : 0,
                                    .is_single = data[0] & 2,
                                    .is_optional = data[0] & 4,
                                    .dialect = (hd_dialect)(data[0] >> 3 & 3)};
    hd_status const          status = hd_grammar_open(&g, tokenizer, &opt, &err);
    if (status == HD_OK) {
        hd_parse_start const start =
            (data[0] & 1) && !is_either ? HD_START_TOOL_CALLS : HD_START_CONTENT;
        if (end) walk(g, start, end + 1, size - bytes - 2);
        hd_grammar_close(g);
    } else if (status == HD_ERR_INVALID || status == HD_ERR_MEMORY || err.message[0] == 0)
        abort();
    return 0;
}
