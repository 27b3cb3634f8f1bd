/* What ik_llama.cpp's ggml multiplies by: it has no NVFP4; its own types of four bits are IQ4_*,
 * and in those that end in _R8 eight rows lie in turns.  It moves no weights by itself. */
static const kind kinds[] = {
    {"ik mxfp4", GGML_TYPE_MXFP4, false},   {"ik mxfp4_r8", GGML_TYPE_MXFP4_R8, false},
    {"ik iq4_ks", GGML_TYPE_IQ4_KS, false}, {"ik iq4_k", GGML_TYPE_IQ4_K, false},
    {"ik q8_0", GGML_TYPE_Q8_0, false},     {"ik q8_0_r8", GGML_TYPE_Q8_0_R8, false}};

static ggml_backend_buffer_type_t find_repack(void) { return NULL; }
