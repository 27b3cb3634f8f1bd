/* Where Blackwell's tensor cores look for things: bits as others have them who have run them, and
 * places that are not two things' at once.  What the cores make of them: kernels/emulate_sm100. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cuda/tcgen05_layout.cuh"

/* As compilers and libraries of kernels have them: 128 rows and 256 columns of NVFP4; K-major lines
 * in swizzles of 128 bytes; scales without one. */
static void knows_bits(void **state)
{
    (void)state;
    assert_int_equal(hd_tc_instruction(256), 0x08400480);
    assert_int_equal(hd_tc_instruction(8), 0x08020480);
    assert_true(hd_tc_operand(0x1400, 0) == UINT64_C(0x4000404000000140));
    assert_true(hd_tc_operand(0x1400, 3) == UINT64_C(0x4000404000000146));
    assert_true(hd_tc_scale_operand(0x2200) == UINT64_C(0x0000400800000220));
}

static void mark(uint8_t *used, uint32_t at, uint32_t n)
{
    for (uint32_t i = at; i < at + n; i++) assert_int_equal(used[i]++, 0);
}

/* Lines and scales of a stage. */
static void places_are_apart(void **state)
{
    static uint8_t used[64 * 1024];
    (void)state;
    for (uint32_t columns = 8; columns <= HD_TC_COLUMNS; columns *= 2) {
        uint32_t const sfa = hd_tc_sfa(columns), sfb = hd_tc_sfb(columns);
        uint32_t const each = HD_TC_SCALES * hd_tc_blocks(columns);
        memset(used, 0, sizeof used);
        for (uint32_t i = 0; i < HD_TC_LINE; i += 16) {
            for (uint32_t r = 0; r < HD_TC_ROWS; r++) mark(used, hd_tc_place(r, i), 16);
            for (uint32_t c = 0; c < columns; c++) mark(used, hd_tc_b() + hd_tc_place(c, i), 16);
        }
        for (uint32_t part = 0; part < HD_TC_PARTS; part++) {
            for (uint32_t r = 0; r < HD_TC_ROWS; r++)
                mark(used, sfa + part * HD_TC_SCALES + hd_tc_scale_place(r), 4);
            for (uint32_t c = 0; c < columns; c++)
                mark(used, sfb + part * each + hd_tc_scale_place(c), 4);
        }
        for (uint32_t i = hd_tc_stage_bytes(columns); i < sizeof used; i++)
            assert_int_equal(used[i], 0);
        assert_int_equal(hd_tc_stage_bytes(columns) % 1024, 0);
    }
}

static void tensor_columns_are_apart(void **state)
{
    (void)state;
    for (uint32_t columns = 8; columns <= HD_TC_COLUMNS; columns *= 2) {
        uint8_t        used[512] = {0};
        uint32_t const words = HD_TC_WORDS * hd_tc_blocks(columns);
        mark(used, 0, columns);
        for (uint32_t slot = 0; slot < HD_TC_STAGES; slot++)
            for (uint32_t part = 0; part < HD_TC_PARTS; part++) {
                mark(used, hd_tc_sfa_column(columns, slot, part), HD_TC_WORDS);
                mark(used, hd_tc_sfb_column(columns, slot, part), words);
            }
        for (uint32_t i = hd_tc_tensor_columns(columns); i < 512; i++) assert_int_equal(used[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_bits),
        cmocka_unit_test(places_are_apart),
        cmocka_unit_test(tensor_columns_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
