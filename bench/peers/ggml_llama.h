/* What llama.cpp's ggml multiplies by. */
#include <ggml-cpu.h>

static const kind kinds[] = {{"ggml nvfp4", GGML_TYPE_NVFP4, false},
                             {"ggml mxfp4", GGML_TYPE_MXFP4, false},
                             {"ggml mxfp4 repacked", GGML_TYPE_MXFP4, true},
                             {"ggml q8_0", GGML_TYPE_Q8_0, false}};

/* Where ggml moves weights for kernels of its own; NULL: nowhere. */
static ggml_backend_buffer_type_t find_repack(void)
{
    ggml_backend_dev_t const           dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t const           reg = dev ? ggml_backend_dev_backend_reg(dev) : NULL;
    ggml_backend_dev_get_extra_bufts_t get = NULL;
    void *const                        at =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts") : NULL;
    memcpy(&get, &at, sizeof get);
    for (ggml_backend_buffer_type_t *b = get ? get(dev) : NULL; b && *b; b++)
        if (strcmp(ggml_backend_buft_name(*b), "CPU_REPACK") == 0) return *b;
    return NULL;
}
