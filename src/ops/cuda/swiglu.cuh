#ifndef HD_OPS_CUDA_SWIGLU_CUH
#define HD_OPS_CUDA_SWIGLU_CUH

/* One element by the formula of ops/swiglu.h; NaN passes both clamps.  The quotient errs by two
 * ulp, and is 0 where it is below 2^-119. */
static __device__ __forceinline__ float hd_gate_by(float gate, float up, float limit)
{
    float const g = gate > limit ? limit : gate;
    float const u = up > limit ? limit : up < -limit ? -limit : up;
    return __fdividef(g, 1 + expf(-g)) * u;
}

#endif
