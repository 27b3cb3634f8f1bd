#ifndef HD_CHECKPOINT_NAME_MAP_H
#define HD_CHECKPOINT_NAME_MAP_H

#include "base/memory.h"

/* Names to indices, sorted once and then searched.  Not a hash table: names come from files,
 * and no file can make a binary search slow. */

HD_BEGIN_C

typedef struct hd_name_entry {
    const char *name; /* borrowed */
    int32_t     index;
} hd_name_entry;

typedef struct hd_name_map {
    hd_name_entry *entries; /* [cap] owned by the pool of hd_name_map_open */
    int32_t        used, cap;
} hd_name_map;

/* Makes room for `cap` names.  returns HD_ERR_MEMORY */
hd_status hd_name_map_open(hd_name_map *m, int32_t cap, hd_pool *pool, hd_error *err);
void      hd_name_map_add(hd_name_map *m, const char *name, int32_t index);
/* Ends the adding.  Returns false, with the two indices in `twins`, when a name is there twice. */
bool hd_name_map_sort(hd_name_map *m, int32_t twins[2]);
/* Place among the sorted entries of the first name that is not below `name`; `used` for none. */
int32_t hd_name_map_lower(const hd_name_map *m, const char *name);
/* Returns -1 when there is none; a zeroed map has none. */
int32_t hd_name_map_find(const hd_name_map *m, const char *name);

HD_END_C
#endif
