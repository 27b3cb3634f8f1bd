#ifndef HD_DOCTOR_QUANTIZE_PARTS_H
#define HD_DOCTOR_QUANTIZE_PARTS_H

#include "base/json.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors_write.h"
#include "doctor/audit_parts.h"
#include "doctor/quantize.h"

/* The inside of quantize.h, for its files only. */

HD_BEGIN_C

#define HD_MAX_PATH 4096

/* A matrix that becomes NVFP4. */
typedef struct hd_conversion {
    const hd_scanned *from;        /* of the source */
    int32_t           partner;     /* conversion that has the same tensor scale; -1: none */
    float             input_amax;  /* largest input while calibrating; -1: none was seen  */
    float             input_scale; /* 0: none */
} hd_conversion;

struct hd_quantize {
    hd_quantize_options opt;
    hd_findings         findings; /* of the source */
    hd_audit_side       source;
    hd_conversion      *conversions; /* [n_conversions] */
    int32_t             n_conversions;
    hd_name_map         by_name;
    int32_t            *owner; /* [tensors of the source] conversion that it goes into; -1: stays */
    int32_t             n_filled;                  /* input scales that no token gave */
    int64_t             n_kept, kept_bytes, bytes; /* tensors that stay; of the result's tensors */
    int32_t             n_threads;
    char                target[HD_MAX_PATH]; /* what it becomes                         */
    char                work[HD_MAX_PATH];   /* target.part: model, and notes of the run */
    char                model[HD_MAX_PATH];  /* target.part/model: what becomes target   */
    int                 hold;                /* of work; -1 */
    bool                is_begun;            /* what is in work is this run's */
    bool                is_done;
    hd_audit           *audit; /* owned: of the result, against the source */
    hd_pool             pool;
};

/* Joins folder and name.  returns HD_ERR_INVALID when it is too long */
hd_status hd_quantize_path(char out[HD_MAX_PATH], const char *folder, const char *name,
                           hd_error *err);
/* What the result calls a tensor or module of this official name. */
hd_status hd_quantize_name(const hd_quantize *q, char out[HD_NAME_MAX], const char *official,
                           hd_error *err);

/* ---- quantize_plan.c: what becomes what ---- */

hd_status hd_quantize_plan(hd_quantize *q, hd_error *err);

/* The parts of a converted matrix. */
enum { HD_PART_CODES, HD_PART_SCALES, HD_PART_TENSOR_SCALE, HD_PART_INPUT_SCALE, HD_N_PARTS };

/* A tensor that is copied, or a matrix that is converted. */
typedef struct hd_shard_job {
    const hd_tensor     *copy;              /* NULL: a conversion */
    const hd_conversion *conversion;        /* NULL: a copy */
    int32_t              slots[HD_N_PARTS]; /* in the shard; a copy has the first */
} hd_shard_job;

/* A shard of the result: it has the name of the source's. */
typedef struct hd_shard_plan {
    const char   *name;
    hd_st_tensor *tensors; /* [n_tensors] without data */
    hd_shard_job *jobs;    /* [n_jobs] in the order of the source's data */
    int32_t       n_tensors, n_jobs;
    int64_t       bytes; /* of the tensors */
    hd_pool       pool;
} hd_shard_plan;

/* A shard may have no tensors: then there is none of it.
 * owns     *out is the caller's: hd_shard_plan_free, also after a failure */
hd_status hd_shard_plan_make(const hd_quantize *q, int32_t shard, hd_shard_plan *out,
                             hd_error *err);
void      hd_shard_plan_free(hd_shard_plan *p);

/* ---- quantize_inputs.c: calibration ---- */

/* What calibration saw is kept in work under this name. */
#define HD_CALIBRATION_FILE "calibration.safetensors"
/* Sets every input_scale, from a run of the model or from what an earlier one noted in work. */
hd_status hd_quantize_inputs(hd_quantize *q, hd_error *err);

/* ---- quantize_matrix.c, quantize_shard.c: tensors ---- */

typedef struct hd_convert_room hd_convert_room;
hd_convert_room               *hd_convert_room_make(void); /* NULL: no memory */
void                           hd_convert_room_free(hd_convert_room *r);

/* Where a conversion goes; on_part is told the bytes of the source that were read. */
typedef struct hd_convert_sink {
    hd_st_writer    *writer;
    const int32_t   *slots; /* [HD_N_PARTS] */
    hd_scan_part_fn *on_part;
    void            *user;
} hd_convert_sink;
hd_status hd_quantize_matrix(const hd_quantize *q, const hd_conversion *c, hd_convert_room *room,
                             const hd_convert_sink *sink, hd_error *err);

/* Bytes of the source of which the shards so far were made. */
typedef struct hd_quantize_progress {
    int64_t done, total;
} hd_quantize_progress;
hd_status hd_quantize_shard(const hd_quantize *q, const hd_shard_plan *p, hd_quantize_progress *at,
                            hd_error *err);

/* ---- quantize_config.c, quantize_work.c: files ---- */

/* config.json and hf_quant_config.json of the result. */
hd_status hd_quantize_write_configs(const hd_quantize *q, hd_error *err);
/* Writes a text file of the result, whole or not at all. */
hd_status hd_quantize_write_text(const char *folder, const char *name, const hd_buffer *text,
                                 hd_error *err);
/* Names the folders, makes them or takes up those of an earlier run, and holds them. */
hd_status hd_quantize_begin_work(hd_quantize *q, hd_error *err);
/* Copies what is neither weights nor config. */
hd_status hd_quantize_copy_files(const hd_quantize *q, hd_error *err);
/* After a failure: removes work unless a shard or a calibration is worth to be kept. */
void hd_quantize_drop_work(const hd_quantize *q);
/* Gives the result its name and removes the notes. */
hd_status hd_quantize_end_work(hd_quantize *q, hd_error *err);

HD_END_C
#endif
