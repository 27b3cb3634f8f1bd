/* Where weights lie, and what a product of one token makes of it.
 * usage: bench_pages FILE [MIB [THREADS [ROUNDS]]]          default: 512 MiB, 2 threads, 9 rounds
 *
 * FILE is made, filled with MIB of NVFP4 matrices of 4096 x 4096, mapped and read, and removed. The
 * same matrices lie in
 *   mapped      the page cache, as a checkpoint that is mapped
 *   populated   the same, all pages entered when it is mapped
 *   read        memory of the process that was filled by read()
 *   huge        likewise, in large pages where the system gives them
 * Columns: ms until they are there; ms of the first product of all, which still waits for pages;
 * GB/s of the later ones, median of rounds by turns, and as median share of `read` in the same
 * round. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/team.h"
#include "bench/bench_place.h"
#include "ops/gemm.h"

#define N          4096
#define K          4096
#define BYTES      ((size_t)N * K / 2 + (size_t)N * K / 16)
#define MAX_ROUNDS 99
#define HUGE       ((size_t)2 << 20)

typedef enum place_kind { MAPPED, POPULATED, READ, HUGE_PAGES, N_PLACES } place_kind;

typedef struct place {
    const char          *name;
    const unsigned char *at;
    double               open_s, first_s, seconds[MAX_ROUNDS];
} place;

static place      places[N_PLACES] = {[MAPPED] = {.name = "mapped"},
                                      [POPULATED] = {.name = "populated"},
                                      [READ] = {.name = "read"},
                                      [HUGE_PAGES] = {.name = "huge"}};
static int        matrices = 56, threads = 2, rounds = 9;
static hd_stream *stream;
static float      x[K], y[N], scale = 1;
static uint8_t    codes[K / 2], sf[K / 16];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Bytes that are harmless as codes and as scales. */
static void write_file(int fd)
{
    unsigned char *const one = malloc(BYTES);
    unsigned long long   r = 1;
    if (!one) fail("memory");
    for (int i = 0; i < matrices; i++) {
        for (size_t c = 0; c < BYTES; c++) {
            r = r * 6364136223846793005ULL + 1442695040888963407ULL;
            one[c] = (unsigned char)(0x30 + (r >> 60));
        }
        for (size_t done = 0; done < BYTES;) {
            ssize_t const n = write(fd, one + done, BYTES - done);
            if (n <= 0) fail("writing");
            done += (size_t)n;
        }
    }
    free(one);
}

static const unsigned char *map_file(int fd, size_t bytes, int flags)
{
    void *const p = mmap(NULL, bytes, PROT_READ, MAP_SHARED | flags, fd, 0);
    if (p == MAP_FAILED) fail("mapping");
    return p;
}

static const unsigned char *read_file(int fd, size_t bytes, int advice)
{
    size_t const         room = (bytes + HUGE - 1) / HUGE * HUGE;
    unsigned char *const p = aligned_alloc(HUGE, room);
    if (!p) fail("memory");
    madvise(p, room, advice);
    for (size_t done = 0; done < bytes;) {
        ssize_t const n = pread(fd, p + done, bytes - done, (off_t)done);
        if (n <= 0) fail("reading");
        done += (size_t)n;
    }
    return p;
}

static void open_place(place_kind i, int fd)
{
    size_t const bytes = (size_t)matrices * BYTES;
    double const start = hd_bench_now();
    places[i].at = i == MAPPED      ? map_file(fd, bytes, 0)
                   : i == POPULATED ? map_file(fd, bytes, MAP_POPULATE)
                   : i == READ      ? read_file(fd, bytes, MADV_NOHUGEPAGE)
                                    : read_file(fd, bytes, MADV_HUGEPAGE);
    places[i].open_s = hd_bench_now() - start;
}

/* One token through all matrices. */
static double run(const hd_kernel *kernel, hd_gemm_args a, const unsigned char *at)
{
    double const start = hd_bench_now();
    for (int i = 0; i < matrices; i++) {
        a.w = at + (size_t)i * BYTES;
        a.sf = at + (size_t)i * BYTES + (size_t)N * K / 2;
        if (kernel->run(&a, stream) != HD_OK) fail("product");
    }
    return hd_bench_now() - start;
}

static void print_place(place *p)
{
    double share[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) share[r] = places[READ].seconds[r] / p->seconds[r];
    double times[MAX_ROUNDS];
    memcpy(times, p->seconds, sizeof times);
    printf("%-10s %9.1f %9.1f %8.2f %7.3f\n", p->name, p->open_s * 1e3, p->first_s * 1e3,
           (double)matrices * (double)BYTES / hd_bench_median(times, rounds) * 1e-9,
           hd_bench_median(share, rounds));
}

static void measure(const char *name, const hd_gemm_args *a)
{
    hd_kernel_choice const choice = hd_kernel_choice_of(hd_cpu_isa());
    const hd_kernel *const kernel = hd_kernel_select(&choice, &hd_op_gemm_nvfp4, a);
    if (!kernel) fail("no kernel");
    for (int i = 0; i < N_PLACES; i++) places[i].first_s = run(kernel, *a, places[i].at);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < N_PLACES; i++) places[i].seconds[r] = run(kernel, *a, places[i].at);
    printf("%s, %d threads, %d rounds\nplace        open ms  first ms    GB/s of read\n", name,
           threads, rounds);
    for (int i = 0; i < N_PLACES; i++) print_place(&places[i]);
}

int main(int argc, char **argv)
{
    hd_team *team = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_pages FILE [MIB [THREADS [ROUNDS]]]\n");
        return 2;
    }
    if (argc > 2) matrices = (int)((size_t)atoi(argv[2]) * 1024 * 1024 / BYTES);
    if (argc > 3) threads = atoi(argv[3]);
    if (argc > 4) rounds = atoi(argv[4]);
    if (matrices < 1 || threads < 1 || rounds < 1 || rounds > MAX_ROUNDS) fail("a number");
    if (hd_team_open(&team, threads, NULL, NULL) != HD_OK) fail("threads");
    stream = hd_team_stream(team);
    int const fd = open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) fail(argv[1]);
    unlink(argv[1]); /* the file stays until it is closed */
    write_file(fd);
    for (int i = 0; i < K; i++) x[i] = (float)(i % 17 + 1) / 16;
    memset(sf, 0x38, sizeof sf);
    memset(codes, 0x31, sizeof codes);
    for (place_kind i = 0; i < N_PLACES; i++) open_place(i, fd);
    hd_gemm_args a = {.x = x, .y = y, .t = 1, .n = N, .k = K, .g = 1, .w_scale = 1};
    a.has_codes = true;
    a.x_codes = codes;
    a.x_sf = sf;
    a.x_scale = &scale;
    measure("NVFP4, W4A4", &a);
    a.has_codes = false;
    measure("NVFP4, f32 activations", &a);
    hd_team_close(team);
    close(fd);
    return 0;
}
