#ifndef HD_SERVER_METRICS_H
#define HD_SERVER_METRICS_H

#include "base/memory.h"
#include "hadal_serve.h"

/* Counts for Prometheus, in the loop's thread. */

HD_BEGIN_C

enum { HD_N_BUCKETS = 14 };

/* How many values were at most each bound of metrics.c. */
typedef struct hd_histogram {
    int64_t counts[HD_N_BUCKETS];
    int64_t n;
    double  sum;
} hd_histogram;

typedef struct hd_metrics {
    hd_histogram first_token_s; /* from the request to its first token */
    hd_histogram next_token_s;  /* from one token to the next          */
    hd_histogram whole_s;       /* from the request to its end         */
    hd_histogram wait_s, prompt_s, new_s;
    int64_t      finished[4];  /* answers, by hd_finish */
    int64_t      responses[6]; /* of HTTP, by the first digit of the status */
    int64_t      n_left;       /* clients that left before their answer */
    int64_t      blank[5];     /* answers, by hd_blank */
    int64_t      n_unparsed;   /* answers with a call that does not parse */
    int64_t      n_numeric;    /* answers that ended in NaN or infinity */
    int64_t      reasoning_tokens;
} hd_metrics;

void hd_histogram_add(hd_histogram *h, double value);
void hd_metrics_take_end(hd_metrics *m, const hd_answer_end *e, bool has_unparsed);
void hd_metrics_take_status(hd_metrics *m, int status);

typedef struct hd_metrics_now {
    const char    *model;
    hd_batch_stats batch;
    int32_t        n_connections;
    int32_t        n_sessions;
    int32_t        max_tokens;
} hd_metrics_now;
/* Adds all of it in Prometheus' text format. */
void hd_metrics_write(const hd_metrics *m, const hd_metrics_now *now, hd_buffer *out);

HD_END_C
#endif
