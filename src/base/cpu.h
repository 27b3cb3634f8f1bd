#ifndef HD_BASE_CPU_H
#define HD_BASE_CPU_H

#include "base/status.h"

HD_BEGIN_C

/* Kernel families, one bit each; a kernel is chosen when its bit is in the mask. */
#define HD_ISA_REF    UINT32_C(0x01) /* portable C, always there           */
#define HD_ISA_AVX2   UINT32_C(0x02) /* AVX2, FMA, F16C, BMI2              */
#define HD_ISA_AVX512 UINT32_C(0x04) /* AVX-512 F, BW, DQ, VL, VNNI, VBMI  */
#define HD_ISA_CUDA   UINT32_C(0x10) /* portable CUDA C                    */
#define HD_ISA_SM90   UINT32_C(0x20) /* Hopper's own instructions          */
#define HD_ISA_SM120  UINT32_C(0x40) /* RTX PRO 6000's and GB10's; emulated elsewhere */
#define HD_ISA_SM100  UINT32_C(0x80) /* B200's; not yet run, emulated in tests        */
#define HD_ISA_HOST   (HD_ISA_REF | HD_ISA_AVX2 | HD_ISA_AVX512)
#define HD_ISA_DEVICE (HD_ISA_CUDA | HD_ISA_SM90 | HD_ISA_SM100 | HD_ISA_SM120)

/* Families that this machine runs; always has HD_ISA_REF. */
uint32_t hd_cpu_isa(void);

/* Processors that a quota is worth, rounded up: the text of a cgroup's cpu.max, microseconds of
 * work in a period of so many, "150000 100000".  0: none, or "max". */
int32_t hd_cpu_quota(const char *text);
/* The quota of this process's container; 0: none. */
int32_t hd_cpu_quota_read(void);

/* One place only: families of the host and of an accelerator do not mix.
 * returns  HD_ERR_INVALID when mask has none, one that is not available, or both places */
hd_status hd_isa_check(uint32_t mask, uint32_t available, hd_error *err);
/* Parses "ref", "ref,avx2", "all" (the host's), "cuda", "sm90", "sm100": those named.
 * returns  HD_ERR_INVALID naming the word, or as hd_isa_check does of this machine's */
hd_status hd_isa_parse_names(uint32_t *out, const char *text, hd_error *err);
/* The same, with the family that has a kernel for every op. */
hd_status hd_isa_parse(uint32_t *out, const char *text, hd_error *err);
/* Writes "ref+avx2" to out [cap]. */
void hd_isa_print(uint32_t mask, char *out, size_t cap);

HD_END_C
#endif
