/* Encoding speed on one thread.  Usage: bench_tokenizer [--rounds N] MODEL FILE...
 * Prints a line for each file: MB/s (the median of N rounds behind an untimed one, default 7),
 * bytes, ids, name.  The time is the processor's, so that neighbours count less. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"

#define MAX_ROUNDS 99

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    double const x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static hd_status bench_text(const hd_tokenizer *t, const char *path, int rounds, hd_pool *pool,
                            hd_error *err)
{
    char   *text;
    size_t  bytes;
    int32_t n = 0;
    double  took[MAX_ROUNDS + 1];
    HD_TRY(hd_file_read(&text, &bytes, path, (size_t)256 << 20, pool, err));
    int32_t *const ids = hd_pool_alloc(pool, bytes * sizeof *ids);
    if (!ids) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its ids", path);
    for (int i = 0; i <= rounds; i++) {
        double const start = now_s();
        HD_TRY(hd_tokenizer_encode(t, text, bytes, true, ids, (int32_t)bytes, &n, err));
        took[i] = now_s() - start;
    }
    qsort(took + 1, (size_t)rounds, sizeof *took, compare_times);
    double const median = took[1 + rounds / 2];
    printf("%8.2f MB/s  %9zu bytes  %9d ids  %s\n", (double)bytes / median / 1e6, bytes, n, path);
    return HD_OK;
}

int main(int argc, char **argv)
{
    hd_error      err = {0};
    hd_pool       pool = {0};
    hd_tokenizer *t = NULL;
    int           rounds = 7, at = 1;
    if (argc > 2 && strcmp(argv[1], "--rounds") == 0) {
        rounds = atoi(argv[2]);
        at = 3;
    }
    if (argc < at + 2 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_tokenizer [--rounds N] MODEL FILE...\n");
        return 2;
    }
    hd_status s = hd_tokenizer_open(&t, argv[at], &err);
    for (int i = at + 1; i < argc && s == HD_OK; i++)
        s = bench_text(t, argv[i], rounds, &pool, &err);
    if (s != HD_OK) fprintf(stderr, "%s\n", err.message);
    hd_tokenizer_close(t);
    hd_pool_free(&pool);
    return s == HD_OK ? 0 : 1;
}
