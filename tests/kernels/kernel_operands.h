#ifndef HD_KERNELS_KERNEL_OPERANDS_H
#define HD_KERNELS_KERNEL_OPERANDS_H

#include "ops/op.h"

/* Operands of one run, each between guards: a page that may not be touched on one side, known
 * bytes on the other. */

HD_BEGIN_C

typedef enum test_placement {
    TEST_PLACE_FRONT, /* starts on a page, the page before it is closed: aligned        */
    TEST_PLACE_BACK   /* ends on a page, the page behind it is closed: element-aligned */
} test_placement;

typedef struct test_buffer {
    unsigned char *map;  /* owned; NULL when closed */
    size_t         open; /* bytes between the closed pages */
    unsigned char *data;
    size_t         bytes;
} test_buffer;

typedef struct test_side {
    void        *args; /* owned copy, its pointers lead to the buffers below */
    const hd_op *op;
    hd_operand   operand[HD_MAX_OPERANDS];
    int32_t      n;
    test_buffer *data[HD_MAX_OPERANDS]; /* [1], or [list] for a list operand */
    test_buffer  list[HD_MAX_OPERANDS]; /* the array of pointers of a list operand */
} test_side;

/* Makes uninitialised operands for args; false when memory is short. */
bool test_side_open(test_side *s, const hd_op *op, const void *args, test_placement place);
void test_side_close(test_side *s); /* a zeroed one is fine */

/* The first byte behind the closed page in front. */
unsigned char *test_buffer_start(const test_buffer *b);

int32_t test_operand_members(const hd_operand *o);
size_t  test_operand_bytes(const hd_operand *o); /* of one member */

/* Copies what a kernel reads (IN and INOUT). */
void test_side_copy_inputs(test_side *to, const test_side *from);
/* Fills outputs with NaN made of `poison` (and 0x80808080 in I32 outputs). */
void test_side_poison(test_side *s, uint32_t poison);
/* Name of the first operand whose guard bytes changed, or NULL. */
const char *test_side_broken_guard(const test_side *s);
/* Name of the first IN operand that differs from the one of `from`, or NULL. */
const char *test_side_changed_input(const test_side *s, const test_side *from);
/* Name of the first output that differs in a byte, or NULL. */
const char *test_side_different_output(const test_side *a, const test_side *b);

HD_END_C
#endif
