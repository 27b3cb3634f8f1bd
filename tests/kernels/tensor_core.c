#include "tensor_core.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

#define MOST_COPIES 512 /* of a thread that are not published */
#define MOST_ASKED  4096
#define POISON      0xFF /* as a scale NaN */

typedef struct copy {
    uint32_t to, bytes;
    int32_t  group; /* -1: stored, not copied */
    uint8_t  data[16];
} copy;

typedef struct loader {
    copy    copies[MOST_COPIES];
    int32_t n, group, arrived; /* groups below `arrived` are there */
} loader;

typedef struct barrier {
    int32_t  arrivals, pending;
    uint32_t phase;
} barrier;

typedef enum asked_kind { ASKED_SCALES, ASKED_PRODUCT, ASKED_COMMIT } asked_kind;
typedef struct asked {
    asked_kind   kind;
    uint32_t     at; /* a column, a barrier */
    uint64_t     descriptor;
    core_product product;
} asked;

static struct {
    uint32_t    address, barriers_at;
    uint64_t    rng;
    const char *complaint;
    uint8_t     shared[CORE_SHARED_BYTES]; /* as the tensor core sees it */
    uint32_t    tensor[CORE_COLUMNS][CORE_LANES];
    barrier     barriers[CORE_BARRIERS];
    loader      loaders[CORE_THREADS];
    asked       asked[MOST_ASKED];
    int32_t     n_asked, n_done;
} core;

static void complain(const char *why)
{
    if (!core.complaint) core.complaint = why;
}

const char *core_complaint(void) { return core.complaint; }

void core_open(uint32_t address, uint32_t barriers, uint64_t seed)
{
    core.address = address;
    core.barriers_at = barriers;
    core.rng = seed;
    core.complaint = NULL;
    memset(core.shared, POISON, barriers < CORE_SHARED_BYTES ? barriers : CORE_SHARED_BYTES);
    memset(core.tensor, POISON, sizeof core.tensor);
    memset(core.barriers, 0, sizeof core.barriers);
    for (int32_t i = 0; i < CORE_THREADS; i++)
        core.loaders[i].n = core.loaders[i].group = core.loaders[i].arrived = 0;
    core.n_asked = core.n_done = 0;
}

/* ---- barriers: 9.7.13.15, "mbarrier" ---- */

static barrier *find_barrier(uint32_t at)
{
    uint32_t const i = (at - core.barriers_at) / 8;
    if (at >= core.barriers_at && at % 8 == 0 && i < CORE_BARRIERS) return &core.barriers[i];
    complain("no barrier lies there");
    return &core.barriers[0];
}

void core_barrier_init(uint32_t at, int32_t arrivals)
{
    *find_barrier(at) = (barrier){.arrivals = arrivals, .pending = arrivals};
}

/* Whether the phase of this parity is complete, the current one being the only one that is not. */
bool core_barrier_passed(uint32_t at, uint32_t parity)
{
    return (find_barrier(at)->phase & 1) != parity;
}

void core_arrive(uint32_t at)
{
    barrier *const b = find_barrier(at);
    if (b->arrivals == 0) complain("a barrier without arrivals");
    if (--b->pending > 0) return;
    b->pending = b->arrivals;
    b->phase++;
}

/* ---- threads that copy ---- */

static copy *add_copy(int32_t thread, uint32_t to, uint32_t bytes)
{
    loader *const l = &core.loaders[thread];
    if (to % bytes != 0 || to + bytes > core.barriers_at) complain("a copy to a wrong place");
    if (l->n == MOST_COPIES) {
        complain("too many copies under way");
        l->n = 0;
    }
    copy *const c = &l->copies[l->n++];
    c->to = to;
    c->bytes = bytes;
    c->group = l->group;
    memset(c->data, 0, sizeof c->data);
    return c;
}

void core_copy(int32_t thread, uint32_t to, const void *from, uint32_t bytes)
{
    copy *const c = add_copy(thread, to, bytes);
    if ((uintptr_t)from % bytes != 0) complain("a copy from an address that is not aligned");
    if (from) memcpy(c->data, from, bytes);
}

void core_store(int32_t thread, uint32_t to, uint32_t word)
{
    copy *const c = add_copy(thread, to, sizeof word);
    c->group = -1;
    memcpy(c->data, &word, sizeof word);
}

void core_end_copies(int32_t thread) { core.loaders[thread].group++; }

void core_await_copies(int32_t thread, int32_t keep)
{
    loader *const l = &core.loaders[thread];
    if (l->group - keep > l->arrived) l->arrived = l->group - keep;
}

/* fence.proxy.async: what has arrived. */
void core_publish(int32_t thread)
{
    loader *const l = &core.loaders[thread];
    int32_t       kept = 0;
    for (int32_t i = 0; i < l->n; i++) {
        const copy *const c = &l->copies[i];
        if (c->group < l->arrived && c->to + c->bytes <= CORE_SHARED_BYTES)
            memcpy(core.shared + c->to, c->data, c->bytes);
        else
            l->copies[kept++] = *c;
    }
    l->n = kept;
}

/* ---- descriptors ---- */

static uint32_t bits(uint64_t word, int32_t first, int32_t n)
{
    return (uint32_t)(word >> first & ((UINT64_C(1) << n) - 1));
}

/* A matrix in shared memory: 9.7.16.4.1. */
typedef struct matrix {
    uint32_t start, leading, stride, swizzle;
} matrix;

static matrix read_descriptor(uint64_t d)
{
    matrix const m = {bits(d, 0, 14) * 16, bits(d, 16, 14) * 16, bits(d, 32, 14) * 16,
                      bits(d, 61, 3)};
    if (bits(d, 46, 3) != 1 || bits(d, 53, 8) != 0) complain("a constant of a descriptor");
    if (bits(d, 14, 2) != 0 || bits(d, 30, 2) != 0) complain("reserved bits of a descriptor");
    if (bits(d, 49, 3) != 0) complain("a base offset: patterns begin at multiples of 1,024");
    if (bits(d, 52, 1) != 0) complain("an absolute stride, which sm_100a lacks");
    if (m.swizzle != 0 && m.swizzle != 2) complain("a swizzle that is not emulated");
    return m;
}

/* A byte of a K-major row: 9.7.16.3.3, "Canonical layouts", and 9.7.16.10.6.  In units of 16 bytes
 * the layout without swizzle is ((8,m),(1,2k)):((1,SBO),(1,LBO)), that of 128 bytes
 * ((8,m),(8,2k)):((8,SBO),(1,-)) under Swizzle<3,4,3>, which acts on addresses: bits 4-6 ^= 7-9. */
static uint8_t read_byte(const matrix *m, uint32_t row, uint32_t byte)
{
    uint32_t at = m->start + row / 8 * m->stride;
    if (m->swizzle == 0)
        at += row % 8 * 16 + byte / 16 * m->leading + byte % 16;
    else
        at += row % 8 * 128 + byte;
    if (m->swizzle == 2) at ^= (at >> 7 & 7) << 4;
    if (at < core.address || at - core.address >= core.barriers_at) {
        complain("a matrix outside of the stages");
        return 0;
    }
    return core.shared[at - core.address];
}

/* ---- what a tensor core does ---- */

static uint32_t *tensor_word(uint32_t column, uint32_t lane)
{
    if (column >= CORE_COLUMNS || lane >= CORE_LANES) {
        complain("a word outside of tensor memory");
        return &core.tensor[0][0];
    }
    return &core.tensor[column][lane];
}

/* 32 rows of 128 bits to the same lanes of all four warps: 9.7.16.9.2, "tcgen05.cp". */
static void do_scales(const asked *a)
{
    matrix const m = read_descriptor(a->descriptor);
    if (a->at % 4 != 0) complain("scales at a column that is not a multiple of 4");
    for (uint32_t row = 0; row < 32; row++)
        for (uint32_t word = 0; word < 4; word++) {
            uint32_t x = 0;
            for (uint32_t i = 0; i < 4; i++)
                x |= (uint32_t)read_byte(&m, row, 4 * word + i) << 8 * i;
            for (uint32_t warp = 0; warp < 4; warp++)
                *tensor_word(a->at + word, 32 * warp + row) = x;
        }
}

/* 64 codes of a row as halves, with the scales of 16 each. */
typedef struct coded_row {
    int16_t code[64]; /* twice the value */
    float   scale[4];
} coded_row;

/* UE4M3: no sign. */
static float unsigned_e4m3(uint32_t byte) { return hd_e4m3_table[byte & 0x7F]; }

/* Row `row` of an operand.  Its scales are the same word in all warps' lanes; any may be read. */
static void read_row(const matrix *m, uint32_t scales, uint32_t row, coded_row *out)
{
    uint32_t const warp = (uint32_t)test_below(&core.rng, 4);
    uint32_t const word = *tensor_word(scales + row / 32, 32 * warp + row % 32);
    for (uint32_t i = 0; i < 32; i++) {
        uint8_t const pair = read_byte(m, row, i);
        out->code[2 * i] = (int16_t)(2 * hd_e2m1_table[pair & 15]);
        out->code[2 * i + 1] = (int16_t)(2 * hd_e2m1_table[pair >> 4]);
    }
    for (int32_t i = 0; i < 4; i++) out->scale[i] = unsigned_e4m3(word >> 8 * i);
}

static float dot(const coded_row *a, const coded_row *b)
{
    float sum = 0;
    for (int32_t block = 0; block < 4; block++) {
        int32_t x = 0;
        for (int32_t i = 16 * block; i < 16 * block + 16; i++) x += a->code[i] * b->code[i];
        sum += (float)x * 0.25f * a->scale[block] * b->scale[block];
    }
    return sum;
}

/* 9.7.16.4.2, kind::mxf4nvf4: returns the number of columns. */
static uint32_t read_instruction(uint32_t x)
{
    uint32_t const columns = bits(x, 17, 6) * 8;
    if (bits(x, 7, 3) != 1 || bits(x, 10, 2) != 1) complain("codes that are not E2M1");
    if (bits(x, 23, 1) != 0) complain("scales that are not UE4M3");
    if (bits(x, 27, 2) != 1) complain("not 128 rows");
    if (columns < 8 || columns > 256) complain("columns are 8 to 256");
    if (bits(x, 4, 2) != 0 || bits(x, 29, 2) != 0) complain("scale_vec::4X wants scale id 0");
    if (bits(x, 0, 4) != 0 || bits(x, 6, 1) != 0 || bits(x, 12, 5) != 0 || bits(x, 24, 3) != 0 ||
        bits(x, 31, 1) != 0)
        complain("sparse, negated, transposed, K = 96 or reserved");
    return columns <= 256 ? columns : 256;
}

/* Row r of D is lane r: 9.7.16.10.5.4, "Layout D". */
static void do_product(const core_product *p)
{
    static coded_row a[CORE_LANES], b[256];
    matrix const     ma = read_descriptor(p->a), mb = read_descriptor(p->b);
    uint32_t const   columns = read_instruction(p->instruction);
    if (ma.swizzle != 2 || mb.swizzle != 2) complain("these kernels swizzle");
    for (uint32_t row = 0; row < CORE_LANES; row++) read_row(&ma, p->sfa, row, &a[row]);
    for (uint32_t column = 0; column < columns; column++) read_row(&mb, p->sfb, column, &b[column]);
    for (uint32_t column = 0; column < columns; column++)
        for (uint32_t row = 0; row < CORE_LANES; row++) {
            uint32_t *const word = tensor_word(p->d + column, row);
            float           d = 0;
            if (!p->is_first) memcpy(&d, word, sizeof d);
            d += dot(&a[row], &b[column]);
            memcpy(word, &d, sizeof d);
        }
}

static asked *ask(asked_kind kind)
{
    if (core.n_asked == MOST_ASKED) {
        complain("too much asked for");
        core.n_asked = core.n_done = 0;
    }
    asked *const a = &core.asked[core.n_asked++];
    a->kind = kind;
    return a;
}

/* Ordered before products that follow, not behind those that precede: 9.7.16.6.2. */
void core_copy_scales(uint32_t column, uint64_t descriptor)
{
    asked *const a = ask(ASKED_SCALES);
    a->at = column;
    a->descriptor = descriptor;
    if (test_below(&core.rng, 2) == 0) return;
    do_scales(a);
    core.n_asked--;
}

void core_multiply(const core_product *p) { ask(ASKED_PRODUCT)->product = *p; }
void core_commit(uint32_t at) { ask(ASKED_COMMIT)->at = at; }

bool core_is_busy(void) { return core.n_done < core.n_asked; }

void core_work(void)
{
    const asked *const a = &core.asked[core.n_done++];
    switch (a->kind) {
    case ASKED_SCALES: do_scales(a); break;
    case ASKED_PRODUCT: do_product(&a->product); break;
    case ASKED_COMMIT: core_arrive(a->at); break;
    }
    if (core.n_done < core.n_asked) return;
    core.n_done = core.n_asked = 0;
}

/* A warp reaches its 32 lanes alone; the address has the first of them in its upper half. */
void core_load(uint32_t at, int32_t lane, float v[8])
{
    if ((at >> 16) % 32 != 0) complain("lanes that are not a warp's");
    for (uint32_t i = 0; i < 8; i++)
        memcpy(&v[i], tensor_word((at & 0xFFFF) + i, (at >> 16) + (uint32_t)lane), sizeof v[i]);
}
