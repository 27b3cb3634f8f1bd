#!/bin/sh
# Few tokens beside ggml: one table of both, taking turns in one process.
# usage: bench/peers/ggml.sh TREE [TOKENS [THREADS [ROUNDS [ISA]]]]
# TREE is the source of llama.cpp or of ik_llama.cpp; what llama.cpp has built in TREE/build/bin is used, else
# its ggml is built in build/peers.  Needs cmake and g++ for that, and build/libhadal.a (make).
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0"; exit 2; }
tree=$(realpath "$1"); shift
which=llama parts="ggml ggml-cpu ggml-base" link=
if [ -d "$tree/ggml/src/iqk" ]; then
    # Its attention takes most of the time to build, and nobody calls it here.
    which=ik parts=ggml link="-Wl,-z,lazy -Wl,--unresolved-symbols=ignore-in-shared-libs"
fi
built=$PWD/build/peers/$which
libs=$tree/build/bin
if [ ! -e "$libs/libggml-cpu.so" ]; then
    libs=$built/bin
    mkdir -p "$built"
    # A project around it: by itself ik_llama.cpp's ggml wants files that it does not have.
    printf '%s\n' 'cmake_minimum_required(VERSION 3.14)' 'project(peer C CXX)' "add_subdirectory($tree/ggml ggml)" \
        >"$built/CMakeLists.txt"
    cmake -S "$built" -B "$built/make" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 -DBUILD_SHARED_LIBS=ON \
        -DGGML_NATIVE=ON -DGGML_IQK_FLASH_ATTENTION=OFF \
        -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$libs" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$libs" >"$built/log"
    # shellcheck disable=SC2086 # a list of names
    cmake --build "$built/make" -j"$(nproc)" --target $parts >>"$built/log" 2>&1
fi
mkdir -p build/peers
# shellcheck disable=SC2046,SC2086 # lists
${CC:-gcc} -std=c11 -D_GNU_SOURCE -O3 -Iinclude -Isrc -Ibench/peers -I"$tree/ggml/include" "-DGGML_KINDS=\"ggml_$which.h\"" \
    -o "build/peers/ggml_gemv_$which" bench/peers/ggml_gemv.c build/libhadal.a -L"$libs" -Wl,-rpath,"$libs" \
    $link $(printf -- '-l%s ' $parts) -lhwloc -lm -lpthread
exec "build/peers/ggml_gemv_$which" "$@" 2>build/peers/ggml.log
