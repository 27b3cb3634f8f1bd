#include "hadal_ops.h"

#include <stdio.h>
#include <string.h>

#include "ops/op.h"

uint32_t hd_ops_families(void) { return (hd_cpu_isa() | hd_device_isa()) & hd_kernel_families(); }

int32_t hd_ops_count(void) { return HD_N_OPS; }

const char *hd_ops_name(int32_t i) { return hd_ops[i]->name; }

const char *hd_ops_kernel_name(const hd_kernel *k) { return k->name; }

int32_t hd_ops_describe(const hd_kernel *k, const void *args, hd_operand *out)
{
    return k->op->describe(args, out);
}

static const hd_op *find_op(const char *name)
{
    for (int32_t i = 0; i < HD_N_OPS; i++)
        if (strcmp(hd_ops[i]->name, name) == 0) return hd_ops[i];
    return NULL;
}

/* Writes "x [1, 4096], w [512, 2048]" to out [cap], cut where it is too long. */
static void print_shapes(const hd_op *op, const void *args, char *out, size_t cap)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    size_t        at = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t r = 0; r < o[i].rank && at < cap; r++) {
            const char *const open = i > 0 && r == 0 ? ", " : "";
            at += (size_t)snprintf(out + at, cap - at, "%s%s%s%lld%s", open,
                                   r == 0 ? o[i].name : "", r == 0 ? " [" : ", ",
                                   (long long)o[i].shape[r], r + 1 == o[i].rank ? "]" : "");
        }
}

hd_status hd_ops_choose(const hd_kernel **out, const char *op, const void *args, size_t args_bytes,
                        uint32_t isa, hd_error *err)
{
    if (!out || !op || !args) HD_FAIL(err, HD_ERR_INVALID, "no op, no arguments or no place named");
    const hd_op *const found = find_op(op);
    if (!found) HD_FAIL(err, HD_ERR_INVALID, "op '%s': there is none of this name", op);
    if (args_bytes != found->args_bytes)
        HD_FAIL(err, HD_ERR_INVALID, "%s: arguments of %zu bytes, this library's have %zu", op,
                args_bytes, found->args_bytes);
    HD_TRY(hd_isa_check(isa, hd_ops_families(), err));
    const char *const limit = hd_op_broken_limit(found, args);
    if (limit) HD_FAIL(err, HD_ERR_INVALID, "%s: its arguments must have %s", op, limit);
    hd_kernel_choice const choice = hd_kernel_choice_of(isa);
    const hd_kernel *const k = hd_kernel_select(&choice, found, args);
    if (!k) {
        char shapes[256];
        print_shapes(found, args, shapes, sizeof shapes);
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "%s: no kernel of families 0x%x takes %s", op,
                (unsigned)isa, shapes);
    }
    *out = k;
    return HD_OK;
}

hd_status hd_ops_launch(const hd_kernel *k, const void *args, void *stream, hd_error *err)
{
    hd_operand o[HD_MAX_OPERANDS];
    if (!k || !args) HD_FAIL(err, HD_ERR_INVALID, "no kernel or no arguments");
    int32_t const n = k->op->describe(args, o);
    for (int32_t i = 0; i < n; i++)
        if (hd_operand_count(&o[i]) > 0 && !hd_operand_pointer(args, &o[i]))
            HD_FAIL(err, HD_ERR_INVALID, "%s: the pointer %s is NULL", k->name, o[i].name);
    hd_status const s = k->run(args, stream);
    if (s != HD_OK) HD_FAIL(err, s, "%s: the launch failed", k->name);
    return HD_OK;
}
