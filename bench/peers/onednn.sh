#!/bin/sh
# Routed experts beside oneDNN's bf16: one table of both, taking turns in one process.
# usage: bench/peers/onednn.sh [TOKENS [THREADS [ROUNDS [EXPERTS]]]]
# Needs oneDNN 2 (Debian: libdnnl-dev), build/libhadal.a (make) and 16 MiB of memory an expert.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/peers
${CC:-gcc} -std=c11 -D_GNU_SOURCE -O3 -Iinclude -Isrc -o build/peers/onednn_experts bench/peers/onednn_experts.c \
    build/libhadal.a -ldnnl -lhwloc -lm -lpthread
# Its threads are OpenMP's.
OMP_NUM_THREADS=${2:-2} exec build/peers/onednn_experts "$@"
