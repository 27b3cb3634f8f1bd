#include "ops/rope_tail.h"

#include <math.h>

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

#define MAX_TAIL 1024

/* The turn of a position, as it meets the elements of a tail: the same for all its heads. */
typedef struct turn {
    float cosine[MAX_TAIL];
    float sine[MAX_TAIL]; /* negative for the even element of a pair */
} turn;

static void make_turn(const hd_rope_tail_args *a, int32_t t, turn *out)
{
    float const position = (float)(a->pos[t] - a->pos[t] % a->group);
    for (int32_t i = 0; i < a->dr; i += 2) {
        double const angle = (double)(position * a->freq[i / 2]) * a->sign;
        out->cosine[i] = out->cosine[i + 1] = (float)cos(angle);
        out->sine[i + 1] = (float)sin(angle);
        out->sine[i] = -out->sine[i + 1];
    }
}

static void apply_turn(const turn *by, float *tail, int32_t dr)
{
    for (int32_t i = 0; i < dr; i += 8) {
        int32_t const n = dr - i;
        __m256 const  x = load_first(tail + i, n);
        __m256 const  crossed =
            _mm256_mul_ps(_mm256_permute_ps(x, 0xB1), load_first(by->sine + i, n));
        store_first(tail + i, n, _mm256_fmadd_ps(x, load_first(by->cosine + i, n), crossed));
    }
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_rope_tail_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        turn by;
        make_turn(a, (int32_t)t, &by);
        for (int32_t h = 0; h < a->h; h++)
            apply_turn(&by, a->x + (t * a->h + h) * a->d + (a->d - a->dr), a->dr);
    }
}

bool hd_rope_tail_avx2_supports(const void *args)
{
    const hd_rope_tail_args *const a = args;
    return a->dr <= MAX_TAIL;
}

hd_status hd_rope_tail_avx2(const void *args, hd_stream *stream)
{
    const hd_rope_tail_args *const a = args;
    hd_work const                  work = {a->t, 1, (int64_t)a->dr * (a->h + 32)};
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
