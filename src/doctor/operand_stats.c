#include "doctor/operand_stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/bf16.h"

bool hd_operand_has_values(const hd_operand *o) { return o->dtype != HD_U8 && o->list == 0; }

static double read_value(hd_dtype d, const void *data, int64_t i)
{
    if (d == HD_F32) return (double)((const float *)data)[i];
    if (d == HD_I32) return (double)((const int32_t *)data)[i];
    return (double)hd_bf16_to_f32(((const uint16_t *)data)[i]);
}

hd_operand_stats hd_operand_stats_take(const hd_operand *o, const void *data)
{
    hd_operand_stats s = {.count = hd_operand_count(o)};
    double           squares = 0;
    int64_t          good = 0;
    for (int64_t i = 0; i < s.count; i++) {
        double const x = read_value(o->dtype, data, i);
        if (!isfinite(x)) {
            if (!s.bad++) s.first_bad = i;
            continue;
        }
        s.min = good ? fmin(s.min, x) : x;
        s.max = good ? fmax(s.max, x) : x;
        squares += x * x;
        good++;
        if (o->dtype == HD_I32) s.sum += (int64_t)x;
    }
    if (good) s.rms = sqrt(squares / (double)good);
    return s;
}

char *hd_operand_print_shape(const hd_operand *o, char *out, size_t cap)
{
    int n = snprintf(out, cap, "[");
    for (int32_t i = 0; i < o->rank && n >= 0 && (size_t)n < cap; i++)
        n += snprintf(out + n, cap - (size_t)n, "%s%" PRId64, i ? ", " : "", o->shape[i]);
    if (n >= 0 && (size_t)n < cap) snprintf(out + n, cap - (size_t)n, "]");
    return out;
}
