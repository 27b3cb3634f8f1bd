#include "ops/x86/f32_rows.h"

F32_FORMAT(hd_product_f32_avx512, false, f32, keep_order);
