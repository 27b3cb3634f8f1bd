# Hadal: one file, no generator.
#   make            build/hadal, the program
#   make everything the tests, the replays of fuzz corpora and the benchmarks too
#   make test       all that .ci/run checks; one closing line
#   make check      the rules that no compiler sees
#   make fuzz       fuzzers for a fuzzing compiler (clang), in build/fuzz-engine
#   make SAN=1 ...  the same under ASan and UBSan, in build/san
#   make SAN=thread ...  the same under TSan, in build/tsan
#   make CC=clang   the same with clang, in build/clang
#   make CUDA=1     with CUDA kernels, in build/cuda (CUDA_ARCH="sm_90a sm_100a" or others)
#   make shared      libhadal.so, for programs of other languages
#   make STATIC_JSON=1 ...  json-c and hwloc linked in, for a machine that has none

ifeq ($(origin CC),default)
CC     := gcc
endif
PREFIX ?= /usr/local
FLAVOUR := $(if $(findstring clang,$(CC)),clang,)
SAN    ?=
CUDA   ?=
# For src/ops/x86 only, behind all other flags: sanitized kernels are most of the tests' time.
KERNEL_CFLAGS ?= $(if $(SAN),-O2)
BUILD  := build$(if $(FLAVOUR),/$(FLAVOUR))$(if $(SAN),/$(if $(filter thread,$(SAN)),tsan,san))$(if $(CUDA),/cuda)

CPPFLAGS := -Iinclude -Isrc -D_GNU_SOURCE
WARN     := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror
CFLAGS   := -std=c11 -O3 -g -ffp-contract=off -fPIC -fno-semantic-interposition $(WARN)
LDLIBS   := $(if $(STATIC_JSON),-l:libjson-c.a -l:libhwloc.a -l:libudev.so.1,-ljson-c -lhwloc) -lm -lpthread
ifneq ($(SAN),)
SANITIZE := $(if $(filter thread,$(SAN)),thread,address,undefined)
CFLAGS   := $(subst -O3,-O1,$(CFLAGS)) -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# CUDA C replaces the empty accelerator.  The runtime is linked in, so that the program runs
# where only the driver is.
ifneq ($(CUDA),)
NVCC      ?= nvcc
CUDA_ARCH ?= sm_90a
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(NVCC))))
CPPFLAGS  += -DHD_CUDA
NVFLAGS   := -std=c++17 -O3 -lineinfo -Xcompiler -fPIC,-Wall,-Wextra,-Werror -Werror all-warnings
# A family's own instructions exist on its GPUs alone; the portable kernels are made for all.
gpu_archs = $(if $(filter %_sm90.cu %_wgmma.cu,$<),sm_90a,$(if $(filter %_sm100.cu,$<),sm_100a,$(CUDA_ARCH)))
gpu_flags = $(foreach a,$(gpu_archs),-gencode arch=$(a:sm_%=compute_%),code=$(a))
LDLIBS    += -L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib -lcudart_static -lrt -ldl -lstdc++
endif

# ISA files are the only ones compiled for more than the base machine.
ISA_avx2   := -mavx2 -mfma -mf16c -mbmi2
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi
isa_flags = $(if $(filter %_avx2.c,$<),$(ISA_avx2))$(if $(filter %_avx512.c,$<),$(ISA_avx512)) \
    $(if $(filter src/ops/x86/%,$<),$(KERNEL_CFLAGS))

# The program alone needs libevent and OpenSSL, which the server stands on.
SERVER_LIBS := -levent_openssl -levent_core -lssl -lcrypto

LIB_SRC   := $(filter-out src/cli/% src/server/%,$(wildcard src/*/*.c src/*/*/*.c))
ifneq ($(CUDA),)
LIB_SRC   := $(filter-out src/base/device_none.c,$(LIB_SRC)) $(wildcard src/*/*.cu src/*/*/*.cu)
endif
CLI_SRC   := $(wildcard src/cli/*.c)
SERVER_SRC := $(wildcard src/server/*.c src/server/*/*.c)
LIB_OBJ   := $(addprefix $(BUILD)/,$(addsuffix .o,$(basename $(LIB_SRC))))
CLI_OBJ   := $(CLI_SRC:%.c=$(BUILD)/%.o)
SERVER_OBJ := $(SERVER_SRC:%.c=$(BUILD)/%.o)
TEST_SRC  := $(wildcard tests/unit/test_*.c tests/model/test_*.c)
TESTS     := $(patsubst %.c,$(BUILD)/%,$(TEST_SRC)) $(BUILD)/tests/kernels/test_kernels
KERNEL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/kernels/*.c))
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
FUZZ_SRC  := $(filter-out fuzz/driver.c,$(wildcard fuzz/fuzz_*.c))
REPLAY    := $(patsubst fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SRC))
BENCH     := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/bench_*.c))

.PHONY: all shared everything test tests bench check fuzz demo install clean
.SECONDARY:
all: $(BUILD)/hadal

$(BUILD)/hadal: $(CLI_OBJ) $(BUILD)/server.a $(BUILD)/libhadal.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS) $(SERVER_LIBS) -ledit

# A part of the program, not of the library.
$(BUILD)/server.a: $(SERVER_OBJ)
	rm -f $@ && ar rcs $@ $^

# The page's files are taken in by the assembler, which tells no dependencies.
$(BUILD)/src/server/web_page.o: $(wildcard src/server/web/*)

$(BUILD)/libhadal.a: $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

# All that it exports begins with hd_.
shared: $(BUILD)/libhadal.so
$(BUILD)/libhadal.so: $(LIB_OBJ)
	$(CC) $(CFLAGS) -shared -Wl,-soname,libhadal.so -Wl,-z,defs -o $@ $^ $(LDLIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(isa_flags) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) $(CPPFLAGS) $(NVFLAGS) $(gpu_flags) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# Its harness is its own, so it needs no cmocka.
$(BUILD)/tests/kernels/test_kernels: $(KERNEL_OBJ) $(BUILD)/libhadal.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJ) $(BUILD)/server.a $(BUILD)/libhadal.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS) -Wl,--as-needed $(SERVER_LIBS) -lcmocka

# Replays a corpus without a fuzzing engine, so that corpora run in the ordinary tests.
$(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(BUILD)/fuzz/driver.o $(BUILD)/server.a $(BUILD)/libhadal.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
fuzz:
	scripts/build_fuzzers.sh

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libhadal.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
bench: $(BENCH)

everything: tests bench $(if $(SAN),,shared)
tests: $(BUILD)/hadal $(TESTS) $(REPLAY)
test:
	scripts/test.sh
check:
	scripts/check_tree.sh

demo: $(BUILD)/hadal
	$(BUILD)/hadal run models/demo -p "What is the capital of France?"

# Headers that describe the arguments of ops, with those that they include.
OPS_HEADERS := $(filter-out src/ops/matrix_operands.h,$(wildcard src/ops/*.h)) src/ops/kernels.def src/kv/row.h src/quant/matrix.h src/quant/tiles.h \
               $(addprefix src/base/,cpu.h device.h memory.h status.h team.h topology.h)
install: $(BUILD)/hadal $(BUILD)/libhadal.so
	install -D -m 755 $(BUILD)/hadal $(DESTDIR)$(PREFIX)/bin/hadal
	for h in $(notdir $(wildcard include/*.h)); do \
	    install -D -m 644 include/$$h $(DESTDIR)$(PREFIX)/include/$$h || exit; done
	for h in $(OPS_HEADERS:src/%=%); do \
	    install -D -m 644 src/$$h $(DESTDIR)$(PREFIX)/include/hadal/$$h || exit; done
	install -D -m 644 $(BUILD)/libhadal.a $(DESTDIR)$(PREFIX)/lib/libhadal.a
	install -D -m 755 $(BUILD)/libhadal.so $(DESTDIR)$(PREFIX)/lib/libhadal.so

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
