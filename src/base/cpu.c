#include "base/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device.h"

static const struct {
    const char *name;
    uint32_t    bit;
} families[] = {{"ref", HD_ISA_REF},    {"avx2", HD_ISA_AVX2}, {"avx512", HD_ISA_AVX512},
                {"cuda", HD_ISA_CUDA},  {"sm90", HD_ISA_SM90}, {"sm100", HD_ISA_SM100},
                {"sm120", HD_ISA_SM120}};
#define N_FAMILIES (sizeof families / sizeof families[0])

uint32_t hd_cpu_isa(void)
{
    uint32_t mask = HD_ISA_REF;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        mask |= HD_ISA_AVX2;
    if ((mask & HD_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512vbmi"))
        mask |= HD_ISA_AVX512;
    return mask;
}

int32_t hd_cpu_quota(const char *text)
{
    char           *end = NULL;
    long long const work = strtoll(text, &end, 10);
    long long const period = end == text ? 0 : strtoll(end, NULL, 10);
    if (work <= 0 || period <= 0 || work / period >= INT32_MAX) return 0;
    return (int32_t)(work / period + (work % period > 0));
}

/* The first line of a file to out [cap] without its end, "" when there is none. */
static void read_line(const char *path, char *out, size_t cap)
{
    FILE *const f = fopen(path, "r");
    if (!f || !fgets(out, (int)cap, f)) out[0] = 0;
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

/* In a container the root of the tree is its own group: one file in version 2 of cgroups, two in
 * version 1. */
int32_t hd_cpu_quota_read(void)
{
    char work[32], period[32], text[72];
    read_line("/sys/fs/cgroup/cpu.max", text, sizeof text);
    if (*text) return hd_cpu_quota(text);
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", work, sizeof work);
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period);
    snprintf(text, sizeof text, "%s %s", work, period);
    return hd_cpu_quota(text);
}

static uint32_t family_bit(const char *name, size_t bytes)
{
    if (bytes == 3 && memcmp(name, "all", 3) == 0) return hd_cpu_isa();
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strlen(families[i].name) == bytes && memcmp(families[i].name, name, bytes) == 0)
            return families[i].bit;
    return 0;
}

hd_status hd_isa_check(uint32_t mask, uint32_t available, hd_error *err)
{
    uint32_t const missing = mask & ~available;
    char           names[48];
    hd_isa_print(missing, names, sizeof names);
    if (missing && *names)
        HD_FAIL(err, HD_ERR_INVALID, "this machine or build does not run %s kernels", names);
    if (missing || !mask)
        HD_FAIL(err, HD_ERR_INVALID, "0x%x names no kernel family", (unsigned)mask);
    hd_isa_print(mask, names, sizeof names);
    if ((mask & HD_ISA_HOST) && (mask & HD_ISA_DEVICE))
        HD_FAIL(err, HD_ERR_INVALID, "kernels of the host and of a GPU do not mix: %s", names);
    return HD_OK;
}

hd_status hd_isa_parse_names(uint32_t *out, const char *text, hd_error *err)
{
    uint32_t mask = 0;
    for (const char *p = text;; p++) {
        size_t const   n = strcspn(p, ",+");
        uint32_t const bit = family_bit(p, n);
        if (!bit)
            HD_FAIL(
                err, HD_ERR_INVALID,
                "kernel family '%.*s' is none of ref, avx2, avx512, all, cuda, sm90, sm100, sm120",
                (int)n, p);
        mask |= bit;
        p += n;
        if (!*p) break;
    }
    HD_TRY(hd_isa_check(mask, hd_cpu_isa() | hd_device_isa(), err));
    *out = mask;
    return HD_OK;
}

/* What stands behind every op that has no faster kernel in its place. */
static uint32_t with_fallback(uint32_t mask)
{
    return mask | (mask & HD_ISA_DEVICE ? HD_ISA_CUDA : HD_ISA_REF);
}

hd_status hd_isa_parse(uint32_t *out, const char *text, hd_error *err)
{
    uint32_t named;
    HD_TRY(hd_isa_parse_names(&named, text, err));
    *out = with_fallback(named);
    return HD_OK;
}

void hd_isa_print(uint32_t mask, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (!(mask & families[i].bit) || used >= cap) continue;
        int const n = snprintf(out + used, cap - used, "%s%s", used ? "+" : "", families[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
}
