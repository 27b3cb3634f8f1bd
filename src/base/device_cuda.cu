#include <cuda_runtime.h>

#include "base/accelerator.h"
#include "base/cpu.h"
#include "base/recording_cuda.cuh"

/* One NVIDIA GPU through the CUDA runtime.  Everything goes through one stream, so copies and
 * kernels keep the order in which they were asked for. */

struct hd_device {
    cudaStream_t   stream;
    cudaDeviceProp properties;
    /* The one node that what is recorded next waits for; NULL: none or many. */
    cudaGraphNode_t sole;
};

struct hd_graph {
    cudaGraphExec_t exec;
};

struct hd_timer {
    hd_device  *device;
    cudaEvent_t start, stop;
};

static hd_status check(cudaError_t e, const char *what, hd_error *err)
{
    if (e == cudaSuccess) return HD_OK;
    HD_FAIL(err, e == cudaErrorMemoryAllocation ? HD_ERR_MEMORY : HD_ERR_DEVICE, "%s: %s", what,
            cudaGetErrorString(e));
}

uint32_t hd_device_isa(void)
{
    int major = 0, minor = 0, n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n < 1) return 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess)
        return 0;
    if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess)
        return 0;
    return HD_ISA_CUDA | HD_ISA_SM120 | (major == 9 ? HD_ISA_SM90 : 0) |
           (major == 10 && minor == 0 ? HD_ISA_SM100 : 0);
}

static hd_status open_stream(hd_device *d, hd_error *err)
{
    HD_TRY(check(cudaSetDevice(0), "choosing the GPU", err));
    HD_TRY(check(cudaGetDeviceProperties(&d->properties, 0), "asking the GPU what it is", err));
    return check(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "making a stream",
                 err);
}

hd_status hd_device_open(hd_device **out, hd_error *err)
{
    if (!hd_device_isa()) HD_FAIL(err, HD_ERR_UNSUPPORTED, "this machine has no NVIDIA GPU");
    hd_device *const d = (hd_device *)hd_memory_alloc(sizeof *d);
    if (!d) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the device");
    hd_status const s = open_stream(d, err);
    if (s != HD_OK) {
        hd_memory_free(d);
        return s;
    }
    *out = d;
    return HD_OK;
}

void hd_device_close(hd_device *d)
{
    if (!d) return;
    cudaStreamDestroy(d->stream);
    hd_memory_free(d);
}

const char *hd_accelerator_name(const hd_device *d) { return d->properties.name; }

hd_stream *hd_accelerator_stream(const hd_device *d) { return (hd_stream *)d->stream; }

void *hd_accelerator_alloc(hd_device *d, size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : HD_ALIGN) != cudaSuccess) return NULL;
    /* In this stream: cudaMemset works in another, which this one does not wait for, and could
     * clear what has been written since. */
    if (cudaMemsetAsync(p, 0, bytes, d->stream) == cudaSuccess) return p;
    cudaFree(p);
    return NULL;
}

void hd_accelerator_free(hd_device *d, void *p)
{
    (void)d;
    cudaFree(p);
}

void *hd_accelerator_alloc_pinned(hd_device *d, size_t bytes)
{
    void *p = NULL;
    (void)d;
    return cudaMallocHost(&p, bytes ? bytes : HD_ALIGN) == cudaSuccess ? p : NULL;
}

void hd_accelerator_free_pinned(hd_device *d, void *p)
{
    (void)d;
    cudaFreeHost(p);
}

hd_status hd_accelerator_write(hd_device *d, void *to, const void *from, size_t bytes,
                               hd_error *err)
{
    if (!bytes) return HD_OK;
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, d->stream),
                 "copying to the GPU", err);
}

hd_status hd_accelerator_read(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err)
{
    if (bytes)
        HD_TRY(check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, d->stream),
                     "copying from the GPU", err));
    return hd_accelerator_sync(d, err);
}

hd_status hd_accelerator_copy(hd_device *d, const hd_copy *c, hd_error *err)
{
    static const cudaMemcpyKind kinds[] = {cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice,
                                           cudaMemcpyDeviceToDevice};
    if (!c->width || !c->rows) return HD_OK;
    HD_TRY(check(cudaMemcpy2DAsync(c->to, c->to_pitch, c->from, c->from_pitch, c->width, c->rows,
                                   kinds[c->kind], d->stream),
                 "copying rows of the GPU", err));
    return hd_accelerator_sync(d, err);
}

hd_status hd_accelerator_sync(hd_device *d, hd_error *err)
{
    return check(cudaStreamSynchronize(d->stream), "waiting for the GPU", err);
}

hd_status hd_device_capture_begin(hd_device *d, hd_error *err)
{
    return check(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal),
                 "recording a graph", err);
}

hd_status hd_device_capture_after(hd_device *d, hd_point *const *points, int32_t n, hd_error *err)
{
    cudaGraphNode_t *const nodes = (cudaGraphNode_t *)points;
    d->sole = n == 1 ? nodes[0] : NULL;
    return check(hd_set_waits(d->stream, nodes, (size_t)n), "recording what waits for what", err);
}

hd_status hd_device_capture_point(hd_device *d, hd_point **out, hd_error *err)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t  *nodes = NULL;
    size_t                  n = 0;
    HD_TRY(check(hd_get_waits(d->stream, &status, &nodes, &n), "reading a recording", err));
    *out = n == 1 && nodes[0] != d->sole ? (hd_point *)nodes[0] : NULL;
    return HD_OK;
}

hd_status hd_device_capture_end(hd_device *d, hd_graph **out, hd_error *err)
{
    cudaGraph_t graph = NULL;
    HD_TRY(check(cudaStreamEndCapture(d->stream, &graph), "recording a graph", err));
    hd_graph *const g = (hd_graph *)hd_memory_alloc(sizeof *g);
    hd_status       s = g ? check(cudaGraphInstantiate(&g->exec, graph, 0), "making a graph", err)
                          : hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for a graph");
    cudaGraphDestroy(graph);
    if (s != HD_OK) {
        hd_memory_free(g);
        return s;
    }
    *out = g;
    return HD_OK;
}

hd_status hd_graph_launch(hd_device *d, hd_graph *g, hd_error *err)
{
    return check(cudaGraphLaunch(g->exec, d->stream), "launching a graph", err);
}

void hd_graph_free(hd_graph *g)
{
    if (!g) return;
    cudaGraphExecDestroy(g->exec);
    hd_memory_free(g);
}

hd_status hd_timer_open(hd_timer **out, hd_device *d, hd_error *err)
{
    hd_timer *const t = (hd_timer *)hd_memory_alloc(sizeof *t);
    if (!t) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a timer");
    t->device = d;
    if (cudaEventCreate(&t->start) != cudaSuccess || cudaEventCreate(&t->stop) != cudaSuccess) {
        hd_timer_close(t);
        HD_FAIL(err, HD_ERR_DEVICE, "no events for a timer");
    }
    *out = t;
    return HD_OK;
}

void hd_timer_close(hd_timer *t)
{
    if (!t) return;
    if (t->start) cudaEventDestroy(t->start);
    if (t->stop) cudaEventDestroy(t->stop);
    hd_memory_free(t);
}

hd_status hd_timer_start(hd_timer *t, hd_error *err)
{
    return check(cudaEventRecord(t->start, t->device->stream), "starting a timer", err);
}

hd_status hd_timer_stop(hd_timer *t, double *seconds, hd_error *err)
{
    float ms = 0;
    HD_TRY(check(cudaEventRecord(t->stop, t->device->stream), "stopping a timer", err));
    HD_TRY(check(cudaEventSynchronize(t->stop), "waiting for a timer", err));
    HD_TRY(check(cudaEventElapsedTime(&ms, t->start, t->stop), "reading a timer", err));
    *seconds = ms * 1e-3;
    return HD_OK;
}
