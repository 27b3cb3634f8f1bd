#include "ops/x86/peak_rounds.h"

void hd_peak_avx512(int64_t rounds) { multiply_add_rounds(rounds); }
