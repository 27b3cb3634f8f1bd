#ifndef HD_OPS_CUDA_TURN_CUH
#define HD_OPS_CUDA_TURN_CUH

/* The turn of RoPE. */
typedef struct hd_turn {
    float cosine, sine;
} hd_turn;

static __device__ __forceinline__ hd_turn hd_turn_of(int32_t position, float freq)
{
    hd_turn t;
    sincosf(__fmul_rn((float)position, freq), &t.sine, &t.cosine);
    return t;
}

static __device__ __forceinline__ hd_turn hd_turn_back(hd_turn t) { return {t.cosine, -t.sine}; }

static __device__ __forceinline__ float2 hd_turned(float even, float odd, hd_turn t)
{
    return {even * t.cosine - odd * t.sine, even * t.sine + odd * t.cosine};
}

#endif
