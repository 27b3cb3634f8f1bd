#!/bin/sh
# All tests.  Installs what is missing, builds everything in six ways, then runs every program
# that a pattern below finds, as many at once as there are cores: a new test needs no line
# here.  One line a program; the last line is the sum.
set -u
cd "$(dirname "$0")/.." || exit 1
scripts/setup.sh test || exit 1

jobs=$(nproc)
python=build/venv/bin/python3
rm -rf build/log
mkdir -p build/log

# A sanitizer's finding ends the program; leaks count.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

# check NAME COMMAND...: a build or a check, one test in itself.
check()
{
    name=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    scripts/run_test.sh "$name" 1800 sh -c '"$@" || exit; echo "1 passed, 0 failed"' sh "$@"
}

# The functions below print the programs to run, one a line: NAME SECONDS COMMAND...
# A pattern that finds none stays as it is, and fails as a program that is not there.

# list_tests BUILD SECONDS KIND: the cmocka programs of tests/KIND.
list_tests()
{
    for source in tests/"$3"/test_*.c; do
        echo "$1/${source%.c} $2 $1/${source%.c}"
    done
}

# list_kernels BUILD: each family that has kernels; one that this machine does not run is named.
list_kernels()
{
    program=$1/tests/kernels/test_kernels
    for isa in $({ "$program" --list || echo "- ref"; } 2>/dev/null | cut -d ' ' -f 2 | sort -u); do
        if [ "$isa" = ref ] || "$program" --isa "$isa" --list >/dev/null 2>&1; then
            echo "$program-$isa 1200 $program --isa $isa"
        else
            echo "note  $isa kernels: this machine does not run them" >&2
        fi
    done
}

list_fuzz()
{
    for source in fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        echo "$1/$name 300 $1/fuzz/$name fuzz/corpus/${name#fuzz_}"
    done
}

# list_scripts BUILD KIND: the scripts of tests/KIND that run the program.
list_scripts()
{
    for script in tests/"$2"/test_*.py; do
        echo "$1:$script 2400 $python $script $1/hadal"
    done
}

list_python()
{
    for script in tests/python/test_*.py; do
        echo "$script 1200 $python $script"
    done
}

# The long ones first.
list_all()
{
    list_tests build/san 2400 model
    echo "cuda 2400 scripts/check_cuda.sh 1"
    list_racing
    list_scripts build/san cli
    list_scripts build/san server
    list_tests build 2400 model
    list_scripts build cli
    list_scripts build server
    list_kernels build/san
    list_tests build/san 900 unit
    list_fuzz build/san
    list_kernels build
    list_python
    list_tests build 600 unit
    list_tests build/clang 600 unit
}

# What threads share, under TSan, a minute of it: a team, those who ask while a batch steps, the
# writer of kept prompts, and all threads of the server.
tsan=build/tsan/tests
list_racing()
{
    echo "$tsan/unit/test_team 300 $tsan/unit/test_team"
    echo "$tsan/model/test_batch 900 $tsan/model/test_batch test_askers"
    echo "$tsan/model/test_prefix 900 $tsan/model/test_prefix test_bounded_folder"
    script=tests/server/test_server_http.py
    echo "build/tsan:$script 900 $python $script build/tsan/hadal"
}

# Without a whole build there is nothing to run, or something old.
build_all()
{
    check "build with gcc" make -s -j"$jobs" CC=gcc BUILD=build everything &&
        check "build with clang" make -s -j"$jobs" CC=clang BUILD=build/clang everything &&
        check "build with sanitizers" make -s -j"$jobs" CC=gcc SAN=1 BUILD=build/san everything &&
        check "build with TSan" make -s -j"$jobs" CC=gcc SAN=thread BUILD=build/tsan build/tsan/hadal \
            $tsan/unit/test_team $tsan/model/test_batch $tsan/model/test_prefix &&
        check "build of fuzzers" scripts/build_fuzzers.sh
}

check "tree" scripts/check_tree.sh
if build_all; then
    list_all | xargs -L 1 -P "$jobs" --process-slot-var=slot scripts/run_test.sh
fi

awk '{ passed += $1; failed += $2 }
     END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 || passed == 0 }' \
    build/log/sums
