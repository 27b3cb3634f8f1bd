#!/bin/sh
# Builds every fuzz/fuzz_<x>.c with clang's libFuzzer, the library with the same sanitizers:
#   scripts/build_fuzzers.sh
#   mkdir -p build/found && build/fuzz-engine/fuzz_<x> build/found fuzz/corpus/<x>
# json-c and hwloc are linked in, so that the fuzzers run on any machine with this C library.
set -eu
cd "$(dirname "$0")/.."
command -v clang >/dev/null || { echo "build_fuzzers: no clang; run scripts/setup.sh test" >&2; exit 1; }

build=build/fuzz-engine
san=address,undefined
# The libraries' halves of the coverage come from fuzzer-no-link; the engine's main from fuzzer.
flags="-std=c11 -O1 -g -ffp-contract=off -fno-omit-frame-pointer -fno-sanitize-recover=all"
# Kernels see no hostile input, and take most of the time: their sanitizers are build/san's.
make -s -j"$(nproc)" CC=clang BUILD=$build CFLAGS="$flags -fsanitize=fuzzer-no-link,$san" \
    KERNEL_CFLAGS=-fno-sanitize=all $build/libhadal.a $build/server.a
n=0
for source in fuzz/fuzz_*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086 # a list of flags
    clang -Iinclude -Isrc -D_GNU_SOURCE $flags -fsanitize=fuzzer,$san -o "$build/$name" "$source" \
        $build/server.a $build/libhadal.a -l:libjson-c.a -l:libhwloc.a -l:libudev.so.1 -lm -lpthread
    n=$((n + 1))
done
echo "build_fuzzers: $n in $build"
[ $n -gt 0 ]
