#include "checkpoint/name_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

hd_status hd_name_map_open(hd_name_map *m, int32_t cap, hd_pool *pool, hd_error *err)
{
    hd_name_entry *const entries = hd_pool_alloc(pool, (size_t)cap * sizeof *entries);
    if (!entries) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d tensor names", cap);
    *m = (hd_name_map){entries, 0, cap};
    return HD_OK;
}

void hd_name_map_add(hd_name_map *m, const char *name, int32_t index)
{
    assert(m->used < m->cap);
    m->entries[m->used++] = (hd_name_entry){name, index};
}

/* Equal names stay in the order of their indices, so that the same pair is reported each time. */
static int compare_entries(const void *a, const void *b)
{
    const hd_name_entry *const x = a, *const y = b;
    int const c = strcmp(x->name, y->name);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

bool hd_name_map_sort(hd_name_map *m, int32_t twins[2])
{
    qsort(m->entries, (size_t)m->used, sizeof *m->entries, compare_entries);
    for (int32_t i = 1; i < m->used; i++) {
        if (strcmp(m->entries[i - 1].name, m->entries[i].name) != 0) continue;
        twins[0] = m->entries[i - 1].index;
        twins[1] = m->entries[i].index;
        return false;
    }
    return true;
}

int32_t hd_name_map_lower(const hd_name_map *m, const char *name)
{
    int32_t low = 0, high = m->used;
    while (low < high) {
        int32_t const middle = low + (high - low) / 2;
        if (strcmp(m->entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t hd_name_map_find(const hd_name_map *m, const char *name)
{
    int32_t const at = hd_name_map_lower(m, name);
    return at < m->used && strcmp(m->entries[at].name, name) == 0 ? m->entries[at].index : -1;
}
