#ifndef HD_BENCH_BENCH_LAYER_WEIGHTS_H
#define HD_BENCH_BENCH_LAYER_WEIGHTS_H

#include "bench/bench_place.h"
#include "model/model.h"

/* Layers of a real width whose weights are made up. */

HD_BEGIN_C

/* Formats as published families have them. */
typedef struct hd_bench_family {
    const char *name;
    hd_act      act;
    hd_format   attention, experts; /* of projections that releases quantize; the rest is BF16 */
} hd_bench_family;
extern const hd_bench_family hd_bench_families[];
extern const int32_t         hd_bench_n_families;

/* A GPU runs several one behind the other, so that none finds its weights in the cache; on the host
 * there is one, and caches are emptied before it. */
#define HD_BENCH_LAYERS 4

typedef struct hd_bench_layer_model {
    hd_config        config;
    hd_weights       weights;
    hd_layer_weights layers[HD_BENCH_LAYERS];
    hd_model         model;
    hd_layer_cache   caches[HD_BENCH_LAYERS + 1];
    hd_pass          pass;
    hd_arena         tables, kv, act;
} hd_bench_layer_model;

/* A model whose layers have this ratio of compression; all memory is p's. */
hd_status hd_bench_layer_make(hd_bench_layer_model *m, hd_bench_place *p, const hd_bench_options *o,
                              const hd_bench_family *f, int32_t ratio, hd_error *err);
/* The same with caches, made up too, for another number of tokens. */
hd_status hd_bench_layer_set_context(hd_bench_layer_model *m, hd_bench_place *p, int32_t context,
                                     hd_error *err);

HD_END_C
#endif
