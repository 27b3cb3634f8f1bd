#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "kernel_harness.h"

static const uint32_t masks[] = {HD_ISA_REF,
                                 HD_ISA_REF | HD_ISA_AVX2,
                                 HD_ISA_REF | HD_ISA_AVX2 | HD_ISA_AVX512,
                                 HD_ISA_CUDA,
                                 HD_ISA_CUDA | HD_ISA_SM90,
                                 HD_ISA_CUDA | HD_ISA_SM100,
                                 HD_ISA_CUDA | HD_ISA_SM120};
#define N_MASKS (sizeof masks / sizeof masks[0])

static const char *const shapes[TEST_MODEL_CASES] = {"demo-token", "demo-prompt", "flash-token"};

static const char *choose(int32_t op, int32_t index, uint32_t mask)
{
    test_case const c = {.index = index, .variant = test_all_cases[op]->variant};
    void *const     args = hd_memory_alloc(hd_ops[op]->args_bytes);
    if (!args) return "no memory";
    test_all_cases[op]->make(&c, args);
    hd_kernel_choice const families = hd_kernel_choice_of(mask);
    const hd_kernel *const k = hd_kernel_select(&families, hd_ops[op], args);
    hd_memory_free(args);
    return k ? k->name : "none";
}

static void print_line(int32_t op, int32_t index, uint32_t mask, hd_buffer *out)
{
    char names[32];
    hd_isa_print(mask, names, sizeof names);
    hd_buffer_printf(out, "%s %s %s %s\n", hd_ops[op]->name, names, shapes[index],
                     choose(op, index, mask));
}

/* Whether the op has a kernel of the family that a mask adds to those before it, which is its
 * highest bit.  Without one the choice is that of the mask before. */
static bool has_own(int32_t op, uint32_t mask)
{
    while (mask & (mask - 1)) mask &= mask - 1;
    for (int32_t k = 0; k < hd_n_kernels; k++)
        if (hd_kernels[k].op == hd_ops[op] && (hd_kernels[k].isa & mask)) return true;
    return false;
}

void test_dispatch_print(uint32_t isa, hd_buffer *out)
{
    for (int32_t op = 0; op < HD_N_OPS; op++)
        for (size_t m = 0; m < N_MASKS; m++)
            for (int32_t i = 0; i < TEST_MODEL_CASES; i++)
                if ((masks[m] & ~isa) == 0 && has_own(op, masks[m]))
                    print_line(op, i, masks[m], out);
}

/* Whether a line "op mask shape kernel" of the file is for a mask inside `isa`. */
static bool is_for(const char *line, uint32_t isa)
{
    char op[64], names[32];
    if (sscanf(line, "%63s %31s", op, names) != 2) return true;
    uint32_t needed = 0;
    if (strstr(names, "ref")) needed |= HD_ISA_REF;
    if (strstr(names, "avx2")) needed |= HD_ISA_AVX2;
    if (strstr(names, "avx512")) needed |= HD_ISA_AVX512;
    if (strstr(names, "cuda")) needed |= HD_ISA_CUDA;
    if (strstr(names, "sm90")) needed |= HD_ISA_SM90;
    if (strstr(names, "sm100")) needed |= HD_ISA_SM100;
    if (strstr(names, "sm120")) needed |= HD_ISA_SM120;
    return (needed & ~isa) == 0;
}

/* Takes the next line off *at: returns it, ended by NUL, or NULL at the end. */
static char *next_line(char **at)
{
    char *const line = *at;
    if (!*line) return NULL;
    char *const end = strchr(line, '\n');
    *at = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    return line;
}

static char *next_line_for(char **at, uint32_t isa)
{
    char *line;
    do line = next_line(at);
    while (line && !is_for(line, isa));
    return line;
}

static bool compare_texts(char *wanted, char *now, uint32_t isa)
{
    bool same = true;
    for (;;) {
        const char *const w = next_line_for(&wanted, isa);
        const char *const n = next_line(&now);
        if (!w && !n) return same;
        if (w && n && strcmp(w, n) == 0) continue;
        printf("dispatch: '%s' is now '%s'\n", w ? w : "", n ? n : "");
        same = false;
    }
}

bool test_dispatch_check(const char *path, uint32_t isa)
{
    hd_buffer now = {0};
    hd_pool   pool = {0};
    hd_error  err = {0};
    char     *wanted = NULL;
    size_t    bytes;
    test_dispatch_print(isa, &now);
    bool same = false;
    if (hd_file_read(&wanted, &bytes, path, 1 << 20, &pool, &err) != HD_OK)
        printf("dispatch: %s\n", err.message);
    else
        same = !now.failed && compare_texts(wanted, now.data, isa);
    hd_pool_free(&pool);
    hd_buffer_free(&now);
    return same;
}
