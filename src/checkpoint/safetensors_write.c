#include "checkpoint/safetensors_write.h"
#include "base/json_write.h"
#include "base/utf8_scan.h"

#include <inttypes.h>
#include <string.h>

#define LENGTH_BYTES ((size_t)8)

/* ---- header ---- */

static bool is_text(const char *s) { return hd_utf8_scan_check(s, strlen(s)) == strlen(s); }

static void put_string(hd_buffer *b, const char *s) { hd_json_write_string(b, s, strlen(s)); }

static void put_meta(hd_buffer *b, const hd_st_meta *meta, int32_t n)
{
    hd_buffer_text(b, "\"__metadata__\":{");
    for (int32_t i = 0; i < n; i++) {
        if (i) hd_buffer_text(b, ",");
        put_string(b, meta[i].key);
        hd_buffer_text(b, ":");
        put_string(b, meta[i].value);
    }
    hd_buffer_text(b, "}");
}

static void put_tensor(hd_buffer *b, const hd_st_tensor *t, int64_t begin, int64_t end)
{
    put_string(b, t->name);
    hd_buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", hd_st_dtype_name(t->dtype));
    for (int32_t i = 0; i < t->rank; i++)
        hd_buffer_printf(b, "%s%" PRId64, i ? "," : "", t->shape[i]);
    hd_buffer_printf(b, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", begin, end);
}

static hd_status check_tensor(const hd_st_tensor *t, size_t *bytes, hd_error *err)
{
    if (!is_text(t->name) || strcmp(t->name, "__metadata__") == 0)
        HD_FAIL(err, HD_ERR_INVALID, "tensor name \"%.200s\" cannot be written", t->name);
    if (t->rank < 0 || t->rank > HD_ST_MAX_RANK ||
        !hd_st_tensor_bytes(t->dtype, t->rank, t->shape, bytes))
        HD_FAIL(err, HD_ERR_INVALID, "tensor %.200s: this dtype and shape cannot be written",
                t->name);
    return HD_OK;
}

static hd_status check_names(const hd_st_tensor *tensors, int32_t n, hd_pool *pool, hd_error *err)
{
    hd_name_map names;
    int32_t     twins[2];
    HD_TRY(hd_name_map_open(&names, n, pool, err));
    for (int32_t i = 0; i < n; i++) hd_name_map_add(&names, tensors[i].name, i);
    if (!hd_name_map_sort(&names, twins))
        HD_FAIL(err, HD_ERR_INVALID, "tensor %.200s is listed twice", tensors[twins[0]].name);
    return HD_OK;
}

/* Fills the slots with offsets that count from the data, and the header's text. */
static hd_status lay_out(hd_st_writer *w, hd_buffer *header, const hd_st_tensor *tensors,
                         hd_error *err)
{
    int64_t at = 0;
    for (int32_t i = 0; i < w->n_slots; i++) {
        size_t bytes;
        HD_TRY(check_tensor(tensors + i, &bytes, err));
        if ((int64_t)bytes > INT64_MAX / 2 - at)
            HD_FAIL(err, HD_ERR_INVALID, "tensor %.200s: the file would be too large",
                    tensors[i].name);
        if (header->used > 1) hd_buffer_text(header, ",");
        put_tensor(header, tensors + i, at, at + (int64_t)bytes);
        w->slots[i] = (struct hd_st_slot){at, bytes, 0};
        at += (int64_t)bytes;
    }
    hd_buffer_text(header, "}");
    while (header->used % 8 != 0 && !header->failed) hd_buffer_text(header, " "); /* aligned data */
    if (header->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a safetensors header");
    if (header->used > HD_ST_MAX_HEADER)
        HD_FAIL(err, HD_ERR_LIMIT, "header of %zu bytes, at most %zu can be read", header->used,
                HD_ST_MAX_HEADER);
    return HD_OK;
}

static hd_status put_header(hd_st_writer *w, const hd_buffer *header, hd_error *err)
{
    uint8_t length[LENGTH_BYTES];
    for (size_t i = 0; i < LENGTH_BYTES; i++) length[i] = (uint8_t)(header->used >> 8 * i);
    HD_TRY(hd_file_put(&w->file, length, sizeof length, err));
    HD_TRY(hd_file_put(&w->file, header->data, header->used, err));
    for (int32_t i = 0; i < w->n_slots; i++)
        w->slots[i].offset += (int64_t)(LENGTH_BYTES + header->used);
    return HD_OK;
}

/* ---- writer ---- */

static hd_status prepare(hd_st_writer *w, hd_buffer *header, const hd_st_tensor *tensors,
                         hd_error *err)
{
    if (!(w->slots = hd_pool_alloc(&w->pool, (size_t)w->n_slots * sizeof *w->slots)))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d tensors", w->n_slots);
    HD_TRY(check_names(tensors, w->n_slots, &w->pool, err));
    return lay_out(w, header, tensors, err);
}

hd_status hd_st_writer_begin(hd_st_writer *w, const char *path, const hd_st_layout *layout,
                             hd_error *err)
{
    *w = (hd_st_writer){.file.fd = -1, .n_slots = layout->n_tensors};
    hd_buffer header = {0};
    hd_buffer_text(&header, "{");
    if (layout->n_meta > 0) put_meta(&header, layout->meta, layout->n_meta);
    hd_status s = prepare(w, &header, layout->tensors, err);
    if (s == HD_OK) s = hd_file_begin(&w->file, path, err);
    if (s == HD_OK) s = put_header(w, &header, err);
    hd_buffer_free(&header);
    if (s != HD_OK) hd_st_writer_abort(w);
    return s;
}

hd_status hd_st_writer_put_part(hd_st_writer *w, int32_t i, size_t at, const void *data,
                                size_t bytes, hd_error *err)
{
    if (i < 0 || i >= w->n_slots)
        HD_FAIL(err, HD_ERR_INVALID, "tensor %d of a file of %d", i, w->n_slots);
    struct hd_st_slot *const slot = w->slots + i;
    if (at > slot->bytes || bytes > slot->bytes - at || bytes > slot->bytes - slot->written)
        HD_FAIL(err, HD_ERR_INVALID, "tensor %d: bytes %zu + %zu, want %zu in all, each once", i,
                at, bytes, slot->bytes);
    HD_TRY(hd_file_put_at(&w->file, slot->offset + (int64_t)at, data, bytes, err));
    slot->written += bytes;
    return HD_OK;
}

hd_status hd_st_writer_put(hd_st_writer *w, int32_t i, const void *data, size_t bytes,
                           hd_error *err)
{
    if (i >= 0 && i < w->n_slots && (w->slots[i].written || bytes != w->slots[i].bytes))
        HD_FAIL(err, HD_ERR_INVALID, "tensor %d: %zu bytes, want %zu, once", i, bytes,
                w->slots[i].bytes);
    return hd_st_writer_put_part(w, i, 0, data, bytes, err);
}

static hd_status check_written(const hd_st_writer *w, hd_error *err)
{
    for (int32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].written < w->slots[i].bytes)
            HD_FAIL(err, HD_ERR_INVALID, "tensor %d of %d was not written whole", i, w->n_slots);
    return HD_OK;
}

hd_status hd_st_writer_commit(hd_st_writer *w, hd_error *err)
{
    hd_status s = check_written(w, err);
    if (s == HD_OK) s = hd_file_commit(&w->file, err);
    hd_st_writer_abort(w);
    return s;
}

void hd_st_writer_abort(hd_st_writer *w)
{
    if (w->pool.head) hd_file_abort(&w->file);
    hd_pool_free(&w->pool);
    *w = (hd_st_writer){.file.fd = -1};
}
