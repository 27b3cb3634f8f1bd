#!/bin/sh
# Few tokens beside ggml: one table of both, taking turns in one process.
# usage: bench/peers/ggml.sh TREE [TOKENS [THREADS [ROUNDS [ISA]]]]
# TREE is llama.cpp's source; what it has built in TREE/build/bin is used, else its ggml is built in
# build/peers/ggml.  Needs cmake and g++ for that, and build/libhadal.a (make).
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0"; exit 2; }
tree=$1; shift
libs=$tree/build/bin
if [ ! -e "$libs/libggml-cpu.so" ]; then
    libs=$PWD/build/peers/ggml/bin
    cmake -S "$tree/ggml" -B build/peers/ggml -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
        -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$libs" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$libs" >build/peers/cmake.log
    cmake --build build/peers/ggml -j"$(nproc)" --target ggml ggml-cpu >>build/peers/cmake.log
fi
mkdir -p build/peers
${CC:-gcc} -std=c11 -D_GNU_SOURCE -O3 -Iinclude -Isrc -I"$tree/ggml/include" -o build/peers/ggml_gemv bench/peers/ggml_gemv.c \
    build/libhadal.a -L"$libs" -Wl,-rpath,"$libs" -lggml -lggml-cpu -lggml-base -lhwloc -lm -lpthread
exec build/peers/ggml_gemv "$@" 2>build/peers/ggml.log
