#include "quant/matrix.h"

const char *hd_format_name(hd_format f)
{
    static const char *const names[HD_N_FORMATS] = {"none", "F32", "BF16", "FP8", "MXFP4", "NVFP4"};
    return (size_t)f < HD_N_FORMATS ? names[f] : "unknown";
}
