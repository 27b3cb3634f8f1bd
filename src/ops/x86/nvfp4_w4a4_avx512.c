#include "ops/x86/w4a4.h"

W4A4_FORMAT(hd_product_nvfp4_w4a4_avx512);
