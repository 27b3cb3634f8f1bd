#include "base/topology.h"

#include <hwloc.h>

#include "base/memory.h"

struct hd_topology {
    hwloc_topology_t machine;
    hwloc_obj_t   *cpus; /* [n_cpus] owned: one of each core first, nodes by turns in each round */
    int32_t        n_cpus, n_cores;
    hwloc_bitmap_t nodes;      /* owned: those of the cores */
    bool           has_choice; /* of nodes, and nobody has chosen for this process */
};

/* ---- what may be used ---- */

static hd_status load(hd_topology *t, const char *machine, hd_error *err)
{
    hwloc_topology_t m;
    if (hwloc_topology_init(&m) != 0) HD_FAIL(err, HD_ERR_MEMORY, "no memory for hwloc");
    t->machine = m;
    hwloc_topology_set_all_types_filter(m, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(m, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    /* Memory nodes hang on these. */
    hwloc_topology_set_type_filter(m, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(m, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    /* It would walk over all processors to ask each, and wait there for other work. */
    hwloc_topology_set_components(m, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (machine && hwloc_topology_set_synthetic(m, machine) != 0)
        HD_FAIL(err, HD_ERR_INVALID, "hwloc knows no machine '%s'", machine);
    if (hwloc_topology_load(m) != 0)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "hwloc finds no processors on this system");
    return HD_OK;
}

/* Only `cpus`, or what the calling thread is allowed. */
static hd_status restrict_to(const hd_topology *t, const char *cpus, hd_error *err)
{
    hwloc_bitmap_t const set = hwloc_bitmap_alloc();
    if (!set) HD_FAIL(err, HD_ERR_MEMORY, "no memory for hwloc");
    bool const is_known = cpus ? hwloc_bitmap_list_sscanf(set, cpus) == 0
                               : hwloc_get_cpubind(t->machine, set, HWLOC_CPUBIND_THREAD) == 0;
    bool const is_done = !is_known || hwloc_topology_restrict(
                                          t->machine, set, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) == 0;
    hwloc_bitmap_free(set);
    if (!is_done) HD_FAIL(err, HD_ERR_UNSUPPORTED, "no processor may be used");
    return HD_OK;
}

/* Where nothing is known of cores a processor is one. */
static hwloc_obj_type_t core_type(hwloc_topology_t m)
{
    return hwloc_get_nbobjs_by_type(m, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* Cores of the same node in front of this one, which are its neighbours in hwloc's order. */
static int32_t rank_in_node(hwloc_obj_t core)
{
    int32_t   n = 0;
    int const node = hwloc_bitmap_first(core->nodeset);
    for (hwloc_obj_t o = core->prev_cousin; o; o = o->prev_cousin) {
        if (hwloc_bitmap_first(o->nodeset) != node) break;
        n++;
    }
    return n;
}

/* Adds processor number `nth` of the cores that are number `rank` of their nodes; whether any core
 * has such a rank. */
static bool add_cpus(hd_topology *t, int32_t rank, unsigned nth)
{
    hwloc_topology_t const m = t->machine;
    hwloc_obj_type_t const type = core_type(m);
    bool                   has_rank = false;
    for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(m, type, core));) {
        if (rank_in_node(core) != rank) continue;
        has_rank = true;
        hwloc_obj_t const cpu =
            hwloc_get_obj_inside_cpuset_by_type(m, core->cpuset, HWLOC_OBJ_PU, nth);
        if (cpu) t->cpus[t->n_cpus++] = cpu;
    }
    return has_rank;
}

static void list_cpus(hd_topology *t, int32_t n)
{
    hwloc_topology_t const m = t->machine;
    t->n_cores = hwloc_get_nbobjs_by_type(m, core_type(m));
    for (unsigned nth = 0; t->n_cpus < n; nth++)
        for (int32_t rank = 0; add_cpus(t, rank, nth);) rank++;
    for (int32_t i = 0; i < t->n_cores; i++)
        hwloc_bitmap_set(t->nodes, (unsigned)hwloc_bitmap_first(t->cpus[i]->nodeset));
}

/* Whoever started this process under a policy of its own, as numactl does, gets that one. */
static bool is_left_to_system(hwloc_topology_t m)
{
    hwloc_membind_policy_t policy = HWLOC_MEMBIND_MIXED;
    hwloc_bitmap_t const   set = hwloc_bitmap_alloc();
    bool const             is_known =
        set &&
        hwloc_get_membind(m, set, &policy, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0;
    hwloc_bitmap_free(set);
    return is_known && policy == HWLOC_MEMBIND_FIRSTTOUCH;
}

static hd_status fill(hd_topology *t, const char *machine, const char *cpus, hd_error *err)
{
    HD_TRY(load(t, machine, err));
    if (!machine || cpus) HD_TRY(restrict_to(t, cpus, err));
    int32_t const n = hwloc_get_nbobjs_by_type(t->machine, HWLOC_OBJ_PU);
    t->cpus = hd_memory_alloc((size_t)n * sizeof *t->cpus);
    t->nodes = hwloc_bitmap_alloc();
    if (!t->cpus || !t->nodes)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for a list of %d processors", n);
    list_cpus(t, n);
    t->has_choice = hd_topology_nodes(t) > 1 && is_left_to_system(t->machine);
    return HD_OK;
}

hd_status hd_topology_open_described(hd_topology **out, const char *machine, const char *cpus,
                                     hd_error *err)
{
    hd_topology *const t = hd_memory_alloc(sizeof *t);
    if (!t) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the machine's topology");
    hd_status const s = fill(t, machine, cpus, err);
    if (s != HD_OK) {
        hd_topology_close(t);
        return s;
    }
    *out = t;
    return HD_OK;
}

hd_status hd_topology_open(hd_topology **out, hd_error *err)
{
    return hd_topology_open_described(out, NULL, NULL, err);
}

void hd_topology_close(hd_topology *t)
{
    if (!t) return;
    hwloc_bitmap_free(t->nodes);
    hd_memory_free(t->cpus);
    if (t->machine) hwloc_topology_destroy(t->machine);
    hd_memory_free(t);
}

int32_t hd_topology_cores(const hd_topology *t) { return t->n_cores; }
int32_t hd_topology_nodes(const hd_topology *t) { return hwloc_bitmap_weight(t->nodes); }

int32_t hd_topology_threads(const hd_topology *t, int32_t quota)
{
    return quota > 0 && quota < t->n_cores ? quota : t->n_cores;
}

/* ---- where threads run ---- */

/* Borrowed; NULL where the system decides. */
static hwloc_obj_t find_place(const hd_topology *t, int32_t n, int32_t i)
{
    if (n > t->n_cpus) return NULL;
    hwloc_obj_t const cpu = t->cpus[i];
    if (n > t->n_cores) return cpu;
    if (n < t->n_cores && hd_topology_nodes(t) == 1) return NULL;
    if (n < t->n_cores)
        return hwloc_get_numanode_obj_by_os_index(t->machine,
                                                  (unsigned)hwloc_bitmap_first(cpu->nodeset));
    return core_type(t->machine) == HWLOC_OBJ_CORE ? cpu->parent : cpu;
}

void hd_topology_place(const hd_topology *t, int32_t n, int32_t i, char *out, size_t cap)
{
    hwloc_obj_t const place = find_place(t, n, i);
    out[0] = 0;
    if (place) hwloc_bitmap_list_snprintf(out, cap, place->cpuset);
}

bool hd_topology_bind(const hd_topology *t, int32_t n, int32_t i)
{
    hwloc_obj_t const place = find_place(t, n, i);
    hd_topology_spread(t);
    return !place || hwloc_set_cpubind(t->machine, place->cpuset, HWLOC_CPUBIND_THREAD) == 0;
}

/* ---- where memory lies ---- */

void hd_topology_spread(const hd_topology *t)
{
    if (t->has_choice)
        (void)hwloc_set_membind(t->machine, t->nodes, HWLOC_MEMBIND_INTERLEAVE,
                                HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
}

void hd_topology_gather(const hd_topology *t)
{
    if (t->has_choice)
        (void)hwloc_set_membind(t->machine, t->nodes, HWLOC_MEMBIND_DEFAULT,
                                HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
}

void hd_topology_spread_memory(const hd_topology *t, void *p, size_t bytes)
{
    if (t->has_choice && bytes > 0)
        (void)hwloc_set_area_membind(t->machine, p, bytes, t->nodes, HWLOC_MEMBIND_INTERLEAVE,
                                     HWLOC_MEMBIND_BYNODESET);
}
