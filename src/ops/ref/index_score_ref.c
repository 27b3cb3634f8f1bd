#include "ops/index_score.h"

static double score_row(const hd_index_score_args *a, int32_t t, int32_t r)
{
    float              buffer[HD_ROW_MAX];
    int64_t const      row = hd_row_of(&a->layout, a->seq[t], a->cap, r);
    const float *const key = hd_row_read(&a->layout, a->keys, row, buffer);
    double             score = 0;
    for (int32_t h = 0; h < a->h; h++) {
        const float *const q = a->q + ((int64_t)t * a->h + h) * a->d;
        double             dot = 0;
        for (int32_t c = 0; c < a->d; c++) dot += (double)q[c] * key[c];
        if (dot > 0 || dot != dot) score += (double)a->wgt[(int64_t)t * a->h + h] * a->scale * dot;
    }
    return score;
}

bool hd_index_score_ref_supports(const void *args)
{
    const hd_index_score_args *const a = args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d;
}

hd_status hd_index_score_ref(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        int32_t const visible = (a->pos[t] + 1) / a->group;
        for (int32_t r = 0; r < a->cap; r++)
            a->score[(int64_t)t * a->cap + r] = r < visible ? (float)score_row(a, t, r) : 0.0f;
    }
    return HD_OK;
}
