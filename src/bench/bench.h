#ifndef HD_BENCH_BENCH_H
#define HD_BENCH_BENCH_H

#include "base/log.h"
#include "base/memory.h"

/* What kernels, layers and engines cost on the machine at hand.  Every measurement becomes a row of
 * one table, beside what the machine can do as seen in the same run. */

HD_BEGIN_C

typedef struct hd_bench_options {
    uint32_t    isa;         /* kernel families; 0: all of this machine's CPU   */
    const char *ops;         /* "gemm_nvfp4,topk"; NULL: all                     */
    const char *families;    /* of layers: "nvfp4,official,bf16"; NULL: all     */
    int32_t     tokens;      /* of a pass                                        */
    int32_t     context;     /* tokens that are there already, these included    */
    int32_t     threads;     /* on the host; 0: one for each core that this process may use */
    bool        is_unpinned; /* as hd_options has it */
    hd_kv       kv;          /* how cache rows of layers are kept; 0: fp8         */
    bool        has_bf16_x;  /* activations were rounded to bf16, which some kernels use */
    bool        is_pro;      /* layers as wide as Pro's, not Flash's           */
} hd_bench_options;

/* One measurement; numbers that make no sense for it are 0. */
typedef struct hd_bench_row {
    char        label[40]; /* "q_b", "nvfp4 r4 w1"      */
    const char *op;        /* static, or of the table of ops */
    const char *kernel;    /* likewise                  */
    char        shape[48]; /* "4096 x 4096"             */
    int32_t     tokens;
    double      us;         /* median of one call        */
    double      bytes;      /* read and written by one, each once */
    double      operations; /* multiplications and additions */
    int32_t     context;    /* of a layer: tokens that its last one sees */
    double      read_share; /* of the machine's read bandwidth around the same moment */
    double      peak_share; /* of its peak */
    double      tokens_per_s;
} hd_bench_row;

/* What the machine can do. */
typedef struct hd_bench_machine {
    char    name[64];    /* "host", "NVIDIA H200" */
    char    kernels[48]; /* "ref+avx2"            */
    int32_t threads;     /* 0 on an accelerator   */
    double  read; /* bytes a second: read by all threads; a GPU: read and written by a copy */
    double  peak; /* f32 operations a second of all threads; 0 where it was not measured */
    double  handover_us; /* giving work to the threads and waiting for them; 0 on a GPU */
} hd_bench_machine;

typedef struct hd_bench_report {
    const char      *what; /* "kernels" */
    hd_bench_machine machine;
    hd_buffer        rows; /* owned: hd_bench_row after hd_bench_row */
} hd_bench_report;

const hd_bench_row *hd_bench_rows(const hd_bench_report *r, int32_t *n);
void                hd_bench_report_free(hd_bench_report *r);

/* Each adds rows to a zeroed report.  Progress goes to `log`.
 * returns  HD_ERR_INVALID for an op or a family that there is not, HD_ERR_MEMORY, what a kernel
 *          or a device returns */

/* The kernels of a model as wide as Flash. */
hd_status hd_bench_kernels(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                           hd_error *err);
/* Square products of growing numbers of tokens: where bytes end to matter. */
hd_status hd_bench_roofline(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                            hd_error *err);
/* One layer of a real width with synthetic weights, for each kind of compression and each family
 * of weights; a row for each step, and one for the whole. */
hd_status hd_bench_layer(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                         hd_error *err);
/* The same layers as wholes, at contexts of 1,024 tokens and four times as many up to the one asked
 * for: what a token costs against what is there already. */
hd_status hd_bench_contexts(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                            hd_error *err);
/* Prompts and single tokens of an open engine with at least one session free, at contexts that
 * double up to its own. */
hd_status hd_bench_engine(hd_engine *e, hd_bench_report *out, const hd_log *log, hd_error *err);

void hd_bench_print(const hd_bench_report *r, hd_buffer *out);
void hd_bench_print_json(const hd_bench_report *r, hd_buffer *out);
void hd_bench_print_csv(const hd_bench_report *r, hd_buffer *out);
/* A picture of the rows: bars; of a roofline the roof and the products below it; of contexts a
 * curve for each kind of layer. */
void hd_bench_print_svg(const hd_bench_report *r, hd_buffer *out);

HD_END_C
#endif
