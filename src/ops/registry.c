#include "ops/op.h"

#include <string.h>

const hd_kernel hd_kernels[] = {
#define OP(op)
#define KERNEL(op, impl, isa) \
    {&hd_op_##op, #op "_" #impl, HD_ISA_##isa, hd_##op##_##impl##_supports, hd_##op##_##impl},
#include "ops/kernels.def"
#undef OP
#undef KERNEL
};
const int32_t hd_n_kernels = (int32_t)(sizeof hd_kernels / sizeof hd_kernels[0]);

const hd_op *const hd_ops[HD_N_OPS] = {
#define OP(op) &hd_op_##op,
#define KERNEL(op, impl, isa)
#include "ops/kernels.def"
#undef OP
#undef KERNEL
};

const char *hd_op_broken_limit(const hd_op *op, const void *args)
{
    const char *const limit = op->breaks ? op->breaks(args) : NULL;
    if (limit) return limit;
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    for (int32_t i = 0; i < n; i++)
        for (int32_t r = 0; r < o[i].rank; r++)
            if (o[i].shape[r] < 0) return "no dimension negative";
    return NULL;
}

int32_t hd_op_place(const hd_op *op)
{
    int32_t i = 0;
    while (hd_ops[i] != op) i++;
    return i;
}

hd_kernel_choice hd_kernel_choice_of(uint32_t isa_mask)
{
    hd_kernel_choice c = {.kernels = hd_kernels, .n = hd_n_kernels};
    for (int32_t i = 0; i < HD_N_OPS; i++) c.isa[i] = isa_mask;
    return c;
}

const hd_kernel *hd_kernel_select(const hd_kernel_choice *c, const hd_op *op, const void *args)
{
    if (hd_op_broken_limit(op, args)) return NULL;
    uint32_t const isa = c->isa[hd_op_place(op)];
    for (int32_t i = 0; i < c->n; i++) {
        const hd_kernel *const k = &c->kernels[i];
        if (k->op == op && (k->isa & isa) && k->supports(args)) return k;
    }
    return NULL;
}

uint32_t hd_kernel_families(void)
{
    uint32_t mask = 0;
    for (int32_t i = 0; i < hd_n_kernels; i++) mask |= hd_kernels[i].isa;
    return mask;
}

size_t hd_dtype_bytes(hd_dtype t)
{
    static const size_t bytes[] = {[HD_F32] = 4, [HD_BF16] = 2, [HD_U8] = 1, [HD_I32] = 4};
    return bytes[t];
}

int64_t hd_operand_rows(const hd_operand *o)
{
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < o->rank; i++) rows *= o->shape[i];
    return rows;
}

int64_t hd_operand_cols(const hd_operand *o) { return o->shape[o->rank - 1]; }

int64_t hd_operand_count(const hd_operand *o) { return hd_operand_rows(o) * hd_operand_cols(o); }

void *hd_operand_pointer(const void *args, const hd_operand *o)
{
    void *p;
    memcpy(&p, (const char *)args + o->slot, sizeof p);
    return p;
}

hd_operand hd_operand_make(const char *name, hd_role role, hd_dtype dtype, size_t slot,
                           const int64_t *shape, int32_t rank)
{
    hd_operand o = {.name = name, .role = role, .dtype = dtype, .rank = rank, .slot = slot};
    for (int32_t i = 0; i < rank; i++) o.shape[i] = shape[i];
    return o;
}
