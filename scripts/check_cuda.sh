#!/bin/sh
# What can be checked of the CUDA kernels without a GPU: builds them for every GPU that they are
# written for (build/cuda), looks into the machine code for what each family must hold, compares
# the table of chosen kernels, and says how old the report from a GPU is.
#   scripts/check_cuda.sh [JOBS]
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${1:-$(nproc)}
archs="sm_90a sm_100a sm_120a"
passed=0
failed=0

# The toolkit of this machine, or the one among the Python packages of the tests.
packaged=$(echo "$PWD"/build/venv/lib/python3*/site-packages/nvidia/cu*/bin)
command -v nvcc >/dev/null || PATH=$packaged:$PATH
command -v nvcc >/dev/null || { echo "check_cuda: no nvcc; scripts/setup.sh test installs one" && exit 1; }
command -v cuobjdump >/dev/null || PATH=$PATH:$packaged
CUDA_HOME=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
export CUDA_HOME

# expect NAME STATUS: one test; 0 is right.
expect()
{
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "check_cuda: $1"
    fi
}

# code OBJECT GPU: its instructions, one name a line.
code()
{
    cuobjdump -sass -arch "$2" "$1" | sed -nE 's/^ +\/\*[0-9a-f]{4,}\*\/ +(@!?U?P[0-9T]+ )?([A-Z0-9]+).*/\2/p'
}

# stored OBJECT: the most words that one of its kernels stores to a thread's own memory; nothing
# where no kernel is found.
stored()
{
    cuobjdump -sass "$1" | awk '/Function :/ { kernels++; words = 0 }
        /[[:space:]]STL/ { words += /STL[.A-Z]*\.128/ ? 4 : /STL[.A-Z]*\.64/ ? 2 : 1
                           if (words > most) most = words }
        END { if (kernels) print most + 0 }'
}

# must_hold PATTERN GPU INSTRUCTION...: each file holds at least one of each.
must_hold()
{
    pattern=$1 gpu=$2
    shift 2
    for source in src/ops/cuda/$pattern; do
        code "build/cuda/${source%.cu}.o" "$gpu" | sort -u >build/cuda/held
        for instruction in "$@"; do
            grep -qx "$instruction" build/cuda/held
            expect "$source holds no $instruction for $gpu" $?
        done
    done
}

make -s -j"$jobs" CUDA=1 CUDA_ARCH="$archs" BUILD=build/cuda build/cuda/hadal \
    build/cuda/tests/kernels/test_kernels build/cuda/libhadal.so || exit 1

# The most words that a thread of a kernel may store to its own memory, and those of whom it is
# known that they store more: arrays that are indexed at run time, or many registers put aside.
# It is not 0, as each version of the compiler puts a few registers aside in kernels of its choice.
most_stored=32
may_store="
    gemm_mxfp4_tiles_sm90 gemm_nvfp4_sm120 gemm_nvfp4_tiles_sm90 grouped_gemm_fp8_sm90
    grouped_gemm_mxfp4_tiles_many_wgmma grouped_gemm_nvfp4_sm120
    grouped_gemm_nvfp4_tiles_codes_many_wgmma grouped_gemm_nvfp4_tiles_many_wgmma
"

# Tensor cores, copies past the registers.
must_hold '*_wgmma.cu' sm_90a HGMMA
must_hold '*_tiles_sm90.cu' sm_90a HMMA UBLKCP
must_hold '*_tiles_codes_sm90.cu' sm_90a HMMA UBLKCP
must_hold '*_tiles_one_sm90.cu' sm_90a HMMA UBLKCP
must_hold '*_tiles_one_codes_sm90.cu' sm_90a HMMA UBLKCP
must_hold '*_sm120.cu' sm_120a OMMA
# Block-scaled products, copies to and from tensor memory, barriers that the tensor core arrives at.
must_hold '*_sm100.cu' sm_100a UTCOMMA UTCCP LDTM UTCBAR LDGSTS FENCE
must_hold '*_fp8_sm90.cu' sm_90a HMMA LDGSTS
must_hold 'attn_sparse_sm90.cu' sm_90a HMMA UBLKCP
must_hold 'attn_sparse_wgmma.cu' sm_90a UBLKCP
for source in src/ops/cuda/*.cu; do
    object=build/cuda/${source%.cu}.o
    if ! echo "$may_store" | grep -qw "$(basename "$source" .cu)"; then
        words=$(stored "$object")
        [ -n "$words" ] && [ "$words" -le $most_stored ]
        expect "$source stores ${words:-?} words to a thread's own memory" $?
    fi
    case $source in
    *_sm90.cu | *_sm100.cu | *_wgmma.cu) continue ;;
    esac
    for arch in $archs; do
        cuobjdump -lelf "$object" | grep -q "\.$arch\.cubin"
        expect "$source is not built for $arch" $?
    done
done

build/cuda/tests/kernels/test_kernels --dispatch-device | cmp - tests/golden/dispatch_cuda.txt
expect "tests/golden/dispatch_cuda.txt is not what is chosen" $?

measured=$(sed -n 's/.*"commit": "\([0-9a-f]*\)".*/\1/p' bench/results/h200.json)
if git rev-parse -q --verify "$measured^{commit}" >/dev/null 2>&1; then
    since=$(git log --format=%h "$measured.." -- src/ops/cuda src/base/device_cuda.cu | wc -l)
    echo "note  bench/results/h200.json is of $measured, $since changes to kernels ago"
else
    echo "note  bench/results/h200.json is of $measured, which this checkout cannot compare with"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
