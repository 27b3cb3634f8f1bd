/* Encoding speed.  Usage: bench_tokenizer MODEL FILE...
 * Prints per file the best of several rounds: MB/s, ids, milliseconds to open the model. */
#include <stdio.h>
#include <time.h>

#include "base/file.h"

#define ROUNDS 7

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static hd_status bench_text(const hd_tokenizer *t, const char *path, hd_pool *pool, hd_error *err)
{
    char   *text;
    size_t  bytes;
    int32_t n = 0;
    double  best = 1e9;
    HD_TRY(hd_file_read(&text, &bytes, path, (size_t)256 << 20, pool, err));
    int32_t *const ids = hd_pool_alloc(pool, bytes * sizeof *ids);
    if (!ids) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its ids", path);
    for (int i = 0; i < ROUNDS; i++) {
        double const start = now_s();
        HD_TRY(hd_tokenizer_encode(t, text, bytes, true, ids, (int32_t)bytes, &n, err));
        double const took = now_s() - start;
        if (took < best) best = took;
    }
    printf("%-24s %8.2f MB/s  %9zu bytes  %9d ids\n", path, (double)bytes / best / 1e6, bytes, n);
    return HD_OK;
}

int main(int argc, char **argv)
{
    hd_error      err = {0};
    hd_pool       pool = {0};
    hd_tokenizer *t = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_tokenizer MODEL FILE...\n");
        return 2;
    }
    double const start = now_s();
    hd_status    s = hd_tokenizer_open(&t, argv[1], &err);
    if (s == HD_OK) printf("open %.1f ms\n", 1e3 * (now_s() - start));
    for (int i = 2; i < argc && s == HD_OK; i++) s = bench_text(t, argv[i], &pool, &err);
    if (s != HD_OK) fprintf(stderr, "%s\n", err.message);
    hd_tokenizer_close(t);
    hd_pool_free(&pool);
    return s == HD_OK ? 0 : 1;
}
