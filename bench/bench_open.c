/* How fast a checkpoint opens, and what a loaded model keeps in memory.
 *
 *     bench_open [--rounds N] FOLDER     seconds to read all headers of a checkpoint, the median
 *                                        of N rounds, default 5
 *     bench_open --engine [--trust] FOLDER
 *                                        seconds to open an engine, the whole of it, and what is
 *                                        in memory then: its own, and of the files
 *     bench_open --resident FOLDER       bytes that stay in memory, part by part, with every byte
 *                                        of every weight read; the program without a model is
 *                                        taken off
 *
 * scripts/make_large.py makes folders of the largest model's size. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "weights/weights.h"

#define MAX_ROUNDS 99

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    double const x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A line of /proc/self/status in bytes; 0 when there is none. */
static int64_t resident_bytes(const char *line_name)
{
    char        line[256];
    long        kib = 0;
    FILE *const f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, line_name, strlen(line_name)) == 0)
            kib = strtol(line + strlen(line_name), NULL, 10);
    fclose(f);
    return (int64_t)kib * 1024;
}

static hd_status bench_headers(const char *folder, int rounds, hd_error *err)
{
    double         wall[MAX_ROUNDS], cpu[MAX_ROUNDS];
    int32_t        n = 0;
    int64_t        bytes = 0;
    hd_log const   silent = {0};
    hd_checkpoint *c = NULL;
    for (int i = 0; i < rounds; i++) {
        double const start = now_s(CLOCK_MONOTONIC), ran = now_s(CLOCK_PROCESS_CPUTIME_ID);
        HD_TRY(hd_checkpoint_open(&c, folder, &silent, err));
        wall[i] = now_s(CLOCK_MONOTONIC) - start;
        cpu[i] = now_s(CLOCK_PROCESS_CPUTIME_ID) - ran;
        n = hd_checkpoint_count(c);
        bytes = hd_checkpoint_bytes(c);
        hd_checkpoint_close(c);
    }
    qsort(wall, (size_t)rounds, sizeof *wall, compare_times);
    qsort(cpu, (size_t)rounds, sizeof *cpu, compare_times);
    printf("%s: %d tensors, %" PRId64 " bytes: opened in %.3f s, %.3f s of the processor\n", folder,
           n, bytes, wall[rounds / 2], cpu[rounds / 2]);
    return HD_OK;
}

static uint32_t touch(const hd_checkpoint *c)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < hd_checkpoint_count(c); i++) {
        const hd_st_tensor *const t = &hd_checkpoint_at(c, i)->st;
        for (size_t j = 0; j < t->bytes; j++) sum += t->data[j];
    }
    return sum;
}

static void print_growth(const char *what, int64_t *last)
{
    int64_t const now = resident_bytes("VmRSS:");
    printf("%-28s %12" PRId64 "\n", what, now - *last);
    *last = now;
}

static hd_status load(const char *folder, hd_tokenizer **t, hd_checkpoint **c, hd_weights **w,
                      hd_error *err)
{
    hd_log const  silent = {0};
    int64_t const before = resident_bytes("VmRSS:");
    int64_t       last = before;
    HD_TRY(hd_checkpoint_open(c, folder, &silent, err));
    print_growth("headers", &last);
    HD_TRY(hd_weights_load(w, *c, false, &silent, err));
    print_growth("weights, bound", &last);
    uint32_t const sum = touch(*c);
    print_growth("weights, read", &last);
    int64_t const bytes = hd_checkpoint_bytes(*c);
    printf("%-28s %12" PRId64 "   tensors of %" PRId64 " bytes, sum %" PRIu32 ": %.4f of them\n",
           "together", last - before, bytes, sum, (double)(last - before) / (double)bytes);
    HD_TRY(hd_tokenizer_open(t, folder, err));
    print_growth("tokenizer", &last);
    return HD_OK;
}

static hd_status bench_resident(const char *folder, hd_error *err)
{
    hd_tokenizer   *t = NULL;
    hd_checkpoint  *c = NULL;
    hd_weights     *w = NULL;
    hd_status const s = load(folder, &t, &c, &w, err);
    hd_weights_close(w);
    hd_checkpoint_close(c);
    hd_tokenizer_close(t);
    return s;
}

/* Bytes of the folder's shards, headers included. */
static int64_t file_bytes(const char *folder, hd_error *err)
{
    hd_buffer names = {0};
    int32_t   n = 0;
    int64_t   sum = 0;
    if (hd_file_list(&names, &n, folder, ".safetensors", 1000, err) != HD_OK) return 0;
    const char *name = names.data;
    for (int32_t i = 0; i < n; i++, name += strlen(name) + 1) {
        char    path[4096];
        hd_file f = {0};
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (hd_file_map(&f, path, err) == HD_OK) sum += (int64_t)f.bytes;
        hd_file_unmap(&f);
    }
    hd_buffer_free(&names);
    return sum;
}

static hd_status bench_engine(const char *folder, bool is_trusted, hd_error *err)
{
    hd_engine       *e = NULL;
    int64_t const    files = file_bytes(folder, err);
    hd_options const o = {.model = folder, .is_trusted = is_trusted};
    int64_t const    own = resident_bytes("RssAnon:"), mapped = resident_bytes("RssFile:");
    double const     start = now_s(CLOCK_MONOTONIC), ran = now_s(CLOCK_PROCESS_CPUTIME_ID);
    HD_TRY(hd_engine_open(&e, &o, err));
    printf("%s: opened in %.3f s, %.3f s of the processor\n", folder,
           now_s(CLOCK_MONOTONIC) - start, now_s(CLOCK_PROCESS_CPUTIME_ID) - ran);
    int64_t const own_more = resident_bytes("RssAnon:") - own;
    printf("in memory: %" PRId64 " bytes of its own, %.4f of the files' %" PRId64 "; %" PRId64
           " bytes of the files; at most %" PRId64 " together\n",
           own_more, (double)own_more / (double)files, files, resident_bytes("RssFile:") - mapped,
           resident_bytes("VmHWM:"));
    hd_engine_close(e);
    return HD_OK;
}

int main(int argc, char **argv)
{
    hd_error    err = {0};
    bool const  is_engine = argc > 2 && strcmp(argv[1], "--engine") == 0;
    bool const  is_trusted = is_engine && argc == 4 && strcmp(argv[2], "--trust") == 0;
    bool const  is_resident = argc == 3 && strcmp(argv[1], "--resident") == 0;
    bool const  has_rounds = argc == 4 && strcmp(argv[1], "--rounds") == 0;
    const char *folder = argc > 1 ? argv[argc - 1] : NULL;
    long const  rounds = has_rounds ? strtol(argv[2], NULL, 10) : 5;
    bool const  is_known =
        argc == 2 || is_resident || has_rounds || is_trusted || (is_engine && argc == 3);
    if (!is_known || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr,
                "usage: bench_open [--engine [--trust] | --resident | --rounds N] FOLDER\n");
        return 2;
    }
    hd_status const s = is_engine     ? bench_engine(folder, is_trusted, &err)
                        : is_resident ? bench_resident(folder, &err)
                                      : bench_headers(folder, (int)rounds, &err);
    if (s == HD_OK) return 0;
    fprintf(stderr, "bench_open: %s\n", err.message);
    return 1;
}
