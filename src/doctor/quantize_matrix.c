#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "doctor/quantize_parts.h"
#include "doctor/scanned_rows.h"
#include "quant/fp4.h"

#define BAND_BYTES ((int64_t)1 << 20) /* codes that are written at a time, or one row */

struct hd_convert_room {
    hd_scanner *scanner;        /* owned */
    double     *row;            /* [k] owned, one block with the following ones */
    float      *x;              /* [k] */
    uint8_t    *codes, *scales; /* of a band */
    int64_t     cap;            /* k that there is room for */
};

hd_convert_room *hd_convert_room_make(void)
{
    hd_convert_room *const r = hd_memory_alloc(sizeof *r);
    if (r && (r->scanner = hd_scanner_make())) return r;
    hd_convert_room_free(r);
    return NULL;
}

void hd_convert_room_free(hd_convert_room *r)
{
    if (!r) return;
    hd_scanner_free(r->scanner);
    hd_memory_free(r->row);
    hd_memory_free(r);
}

static int64_t band_rows(int64_t k)
{
    int64_t const n = BAND_BYTES / (k / 2);
    return n > 0 ? n : 1;
}

static bool make_room(hd_convert_room *r, int64_t k)
{
    if (k <= r->cap) return true;
    int64_t const codes = k / 2 > BAND_BYTES ? k / 2 : BAND_BYTES;
    size_t const  bytes = (size_t)k * (sizeof *r->row + sizeof *r->x) + (size_t)(codes + codes / 8);
    hd_memory_free(r->row);
    r->row = hd_memory_alloc(bytes);
    r->cap = r->row ? k : 0;
    if (!r->row) return false;
    r->x = (float *)(void *)(r->row + k);
    r->codes = (uint8_t *)(void *)(r->x + k);
    r->scales = r->codes + codes;
    return true;
}

/* ---- the scale of the tensor ---- */

static hd_status fail_value(const hd_quantize *q, const hd_tensor *t, const char *what,
                            const hd_tally *tally, hd_error *err)
{
    HD_FAIL(err, HD_ERR_NUMERIC, "tensor %s in %s: %" PRId64 " %s, the first is number %" PRId64,
            t->st.name, hd_audit_file(&q->source, t), tally->n, what, tally->first);
}

static hd_status check_scan(const hd_quantize *q, const hd_scanned *m, const hd_scan *s,
                            hd_error *err)
{
    if (s->broken.n) return fail_value(q, m->w, "values are NaN or infinite", &s->broken, err);
    if (s->nan.n) return fail_value(q, m->scale, "scales are NaN or infinite", &s->nan, err);
    if (s->negative.n) return fail_value(q, m->scale, "scales are negative", &s->negative, err);
    if (!isfinite((float)s->amax))
        HD_FAIL(err, HD_ERR_NUMERIC, "tensor %s in %s: the largest weight is %g", m->w->st.name,
                hd_audit_file(&q->source, m->w), s->amax);
    return HD_OK;
}

static void ignore_part(void *user, int64_t bytes)
{
    (void)user;
    (void)bytes;
}

static hd_status scan(const hd_quantize *q, const hd_scanned *m, hd_convert_room *room,
                      hd_scan *out, hd_error *err)
{
    if (!hd_scan_item(room->scanner, m, out, ignore_part, NULL))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory to read %s", m->name);
    return check_scan(q, m, out, err);
}

/* Of a pair the larger one's; MXFP4 is cast, so its scale follows from exponents. */
static hd_status find_scale(const hd_quantize *q, const hd_conversion *c, hd_convert_room *room,
                            float *out, hd_error *err)
{
    hd_scan own, other = {0};
    HD_TRY(scan(q, c->from, room, &own, err));
    if (c->partner >= 0) HD_TRY(scan(q, q->conversions[c->partner].from, room, &other, err));
    double const most = fmax(own.scale_max, other.scale_max);
    if (c->from->format == HD_FMT_MXFP4)
        *out = most > 0 ? hd_nvfp4_cast_scale(ilogb(most)) : 1;
    else
        *out = hd_nvfp4_tensor_scale((float)fmax(own.amax, other.amax));
    return HD_OK;
}

/* ---- rows ---- */

static void convert_row(const hd_quantize *q, const hd_scanned *m, int64_t r, float scale,
                        hd_convert_room *room, int64_t at)
{
    uint8_t *const codes = room->codes + at * (m->k / 2);
    uint8_t *const scales = room->scales + at * (m->k / HD_NVFP4_BLOCK);
    if (m->format == HD_FMT_MXFP4) {
        hd_nvfp4_cast_mxfp4(m->w->st.data + r * (m->k / 2),
                            m->scale->st.data + r * (m->k / HD_MXFP4_BLOCK), m->k, scale, codes,
                            scales);
        return;
    }
    hd_scanned_decode(m, r, room->row);
    for (int32_t i = 0; i < m->k; i++) room->x[i] = (float)room->row[i];
    hd_nvfp4_encode_weights(room->x, m->k, scale, q->opt.scales, codes, scales);
}

static hd_status put_band(const hd_scanned *m, int64_t begin, int64_t end,
                          const hd_convert_room *room, const hd_convert_sink *sink, hd_error *err)
{
    size_t const codes = (size_t)m->k / 2, scales = (size_t)m->k / HD_NVFP4_BLOCK;
    size_t const rows = (size_t)(end - begin);
    HD_TRY(hd_st_writer_put_part(sink->writer, sink->slots[HD_PART_CODES], (size_t)begin * codes,
                                 room->codes, rows * codes, err));
    return hd_st_writer_put_part(sink->writer, sink->slots[HD_PART_SCALES], (size_t)begin * scales,
                                 room->scales, rows * scales, err);
}

hd_status hd_quantize_matrix(const hd_quantize *q, const hd_conversion *c, hd_convert_room *room,
                             const hd_convert_sink *sink, hd_error *err)
{
    const hd_scanned *const m = c->from;
    float                   scale;
    int64_t const           bytes = hd_scanned_bytes(m);
    if (!make_room(room, m->k)) HD_FAIL(err, HD_ERR_MEMORY, "no memory to convert %s", m->name);
    HD_TRY(find_scale(q, c, room, &scale, err));
    for (int64_t begin = 0, end; begin < m->n; begin = end) {
        end = begin + band_rows(m->k) < m->n ? begin + band_rows(m->k) : m->n;
        for (int64_t r = begin; r < end; r++) convert_row(q, m, r, scale, room, r - begin);
        HD_TRY(put_band(m, begin, end, room, sink, err));
        hd_scanned_release(m, begin, end);
        sink->on_part(sink->user, bytes / m->n * end - bytes / m->n * begin);
    }
    HD_TRY(hd_st_writer_put(sink->writer, sink->slots[HD_PART_TENSOR_SCALE], &scale, sizeof scale,
                            err));
    if (!q->opt.engine) return HD_OK;
    return hd_st_writer_put(sink->writer, sink->slots[HD_PART_INPUT_SCALE], &c->input_scale,
                            sizeof c->input_scale, err);
}
