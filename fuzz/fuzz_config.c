#include <stdlib.h>

#include "checkpoint/config.h"

/* What the rest of the program relies on without looking again. */
static void check_config(const hd_config *c)
{
    if (c->n_layers < 1 || c->n_layers > HD_MAX_LAYERS || c->n_mtp < 0 || c->n_mtp > HD_MAX_MTP)
        abort();
    for (int32_t i = 0; i < c->n_layers + c->n_mtp; i++)
        if (c->ratios[i] != 0 && c->ratios[i] != 4 && c->ratios[i] != 128) abort();
    if (c->n_heads % c->o_groups || c->rope_dim > c->head_dim || c->n_experts_used > c->n_experts)
        abort();
    if (!(c->rms_eps >= 0) || !(c->swiglu_limit > 0) || !(c->yarn.factor >= 1)) abort();
    if (c->n_eos < 1 || c->n_eos > HD_MAX_EOS) abort();
    for (int32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] < 0 || c->eos[i] >= c->n_vocab) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hd_config c;
    hd_error  err = {0};
    if (hd_config_parse(&c, (const char *)data, size, "fuzz", &err) == HD_OK)
        check_config(&c);
    else if (!err.message[0])
        abort();
    hd_config g = {.n_vocab = 100, .n_eos = 1};
    if (hd_config_parse_generation(&g, (const char *)data, size, "fuzz", NULL) != HD_OK &&
        (g.n_eos != 1 || g.eos[0] != 0))
        abort();
    return 0;
}
