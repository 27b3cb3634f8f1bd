#include "kernel_rows.h"

#include <string.h>

static int32_t tail_of(int32_t d, int32_t block) { return d % block + (d >= 128 ? 64 : 0); }

hd_row_layout test_row_layout(hd_row_format format, int32_t d, int32_t page)
{
    hd_row_layout l = {format, d, 0, page};
    if (format == HD_ROW_MXFP4) l.d = (d + 31) / 32 * 32;
    if (format == HD_ROW_FP8) l.tail = tail_of(d, 64);
    if (format == HD_ROW_NVFP4) l.tail = tail_of(d, 16);
    return l;
}

void test_fill_pool_nan(const hd_operand *o, void *pool)
{
    memset(pool, 0xFF, (size_t)hd_operand_count(o));
}

void test_fill_row(const hd_row_layout *l, void *pool, int64_t row, test_case *c)
{
    float x[HD_ROW_MAX];
    for (int32_t i = 0; i < l->d; i++) x[i] = test_value(c);
    hd_row_write(l, pool, row, x);
}
