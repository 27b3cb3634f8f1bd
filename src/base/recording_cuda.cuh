#ifndef HD_BASE_RECORDING_CUDA_CUH
#define HD_BASE_RECORDING_CUDA_CUH

#include <cuda_runtime.h>

/* What the next work on a stream waits for, while the stream is recorded: nodes of the recording,
 * `status` says whether there is one.  CUDA 13 gave these calls a parameter for the kind of each
 * edge. */

#if CUDART_VERSION >= 13000
static inline cudaError_t hd_set_waits(cudaStream_t s, cudaGraphNode_t *nodes, size_t n)
{
    return cudaStreamUpdateCaptureDependencies(s, nodes, NULL, n, cudaStreamSetCaptureDependencies);
}
static inline cudaError_t hd_get_waits(cudaStream_t s, cudaStreamCaptureStatus *status,
                                       const cudaGraphNode_t **nodes, size_t *n)
{
    const cudaGraphEdgeData *edges = NULL;
    return cudaStreamGetCaptureInfo(s, status, NULL, NULL, nodes, &edges, n);
}
#else
static inline cudaError_t hd_set_waits(cudaStream_t s, cudaGraphNode_t *nodes, size_t n)
{
    return cudaStreamUpdateCaptureDependencies(s, nodes, n, cudaStreamSetCaptureDependencies);
}
static inline cudaError_t hd_get_waits(cudaStream_t s, cudaStreamCaptureStatus *status,
                                       const cudaGraphNode_t **nodes, size_t *n)
{
    return cudaStreamGetCaptureInfo_v2(s, status, NULL, NULL, nodes, n);
}
#endif

#endif
