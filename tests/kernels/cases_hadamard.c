#include <math.h>

#include "cases.h"
#include "ops/hadamard.h"

static void make(const test_case *c, void *args)
{
    static const int32_t t[] = {1, 33, 1, 0, 2}, k[] = {128, 128, 128, 64, 4096};
    int32_t const        i = c->index;
    *(hd_hadamard_args *)args = i < 5 ? (hd_hadamard_args){.t = t[i], .k = k[i]}
                                      : (hd_hadamard_args){.t = 3, .k = 1 << (i - 5)};
}

const hd_cases hd_cases_hadamard = {
    .n = 5 + 11, .patterns = TEST_FINITE, .rows = offsetof(hd_hadamard_args, t), .make = make};
