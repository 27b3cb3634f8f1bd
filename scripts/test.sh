#!/bin/sh
# All tests.  Installs what is missing, then builds and runs every program that a pattern
# below finds: a new test needs no line here.  One line a program, its output in build/log,
# a failing one's output also on the screen; the last line is the sum.
set -u
cd "$(dirname "$0")/.." || exit 1
scripts/setup.sh test || exit 1

jobs=$(nproc)
python=build/venv/bin/python3
logs=build/log
passed=0
failed=0
rm -rf $logs
mkdir -p $logs

# Prints "PASSED FAILED SKIPPED" of a log: cmocka's lines, or the closing line of our own
# programs and scripts.
count_tests()
{
    awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
         /^\[  FAILED  \] [0-9]+ test\(s\)/ { failed += $4 }
         /^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped += $4 }
         /^[0-9]+ passed, [0-9]+ failed$/   { passed += $1; failed += $3 }
         /^[^ ]+: [0-9]+ inputs replayed$/  { passed += $2 }
         END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# Says in one word why a program that ended with this status is not a success, or nothing.
fault_of()
{
    case $1 in
    0) ;;
    124 | 137) echo "hangs" ; return ;;
    *) echo "fails" ; return ;;
    esac
    if [ "$3" -gt 0 ]; then
        echo "fails but exits 0"
    elif [ "$4" -gt 0 ]; then
        echo "skips $4"
    elif [ "$2" -eq 0 ]; then
        echo "ran no test"
    fi
}

# report NAME LOG STATUS SECONDS: counts one program in and prints its line.
report()
{
    # shellcheck disable=SC2046 # three numbers
    set -- "$1" "$2" "$3" "$4" $(count_tests "$2")
    fault=$(fault_of "$3" "$5" "$6" "$7")
    passed=$((passed + $5))
    if [ -z "$fault" ]; then
        printf 'ok    %-48s %6d tests %4d s\n' "$1" "$5" "$4"
        return
    fi
    failed=$((failed + ($6 > 0 ? $6 : 1)))
    sed 's/^/    /' "$2"
    printf 'FAIL  %-48s %s (status %d, %d s)\n' "$1" "$fault" "$3" "$4"
}

# run NAME SECONDS COMMAND...: a program that reports its own number of tests; one that hangs
# is cut after so many seconds.
run()
{
    name=$1 limit=$2
    shift 2
    log=$logs/$(echo "$name" | tr -c 'a-zA-Z0-9_\n' '-').log
    start=$(date +%s)
    timeout -k 10 "$limit" "$@" </dev/null >"$log" 2>&1
    status=$?
    report "$name" "$log" $status $(($(date +%s) - start))
}

# check NAME SECONDS COMMAND...: a build or a check, one test in itself.
check()
{
    name=$1 limit=$2
    shift 2
    # shellcheck disable=SC2016 # for the inner shell
    run "$name" "$limit" sh -c '"$@" || exit; echo "1 passed, 0 failed"' sh "$@"
}

# found FILE: whether a pattern matched anything; a kind of tests without any is a failure.
found()
{
    [ -e "$1" ] && return
    failed=$((failed + 1))
    echo "FAIL  $1: no such tests"
    return 1
}

# run_tests BUILD SECONDS KIND: the cmocka programs of tests/KIND.
run_tests()
{
    for source in tests/"$3"/test_*.c; do
        found "$source" && run "$1/${source%.c}" "$2" "$1/${source%.c}"
    done
}

# run_kernels BUILD: every family of kernels that this machine runs.
run_kernels()
{
    for isa in ref avx2 avx512; do
        if "$1/tests/kernels/test_kernels" --isa $isa --list >/dev/null 2>&1; then
            run "$1/tests/kernels $isa" 900 "$1/tests/kernels/test_kernels" --isa $isa
        elif [ $isa = ref ]; then
            found "$1/tests/kernels/test_kernels --isa ref"
        else
            echo "note  this machine does not run $isa kernels"
        fi
    done
}

run_fuzz()
{
    for source in fuzz/fuzz_*.c; do
        found "$source" || continue
        name=$(basename "$source" .c)
        run "$1/$name" 300 "$1/fuzz/$name" "fuzz/corpus/${name#fuzz_}"
    done
}

run_cli()
{
    for script in tests/cli/*.py; do
        found "$script" && run "$1 $script" 1200 $python "$script" "$1/hadal"
    done
}

run_python()
{
    for script in tests/python/test_*.py; do
        found "$script" && run "$script" 900 $python "$script"
    done
}

# A sanitizer's finding ends the program; leaks count.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

check "tree" 300 scripts/check_tree.sh
check "build with gcc" 1200 make -j"$jobs" CC=gcc BUILD=build everything
check "build with clang" 1200 make -j"$jobs" CC=clang BUILD=build/clang everything
check "build with sanitizers" 1200 make -j"$jobs" CC=gcc SAN=1 BUILD=build/san everything
check "build of fuzzers" 1200 scripts/build_fuzzers.sh

run_tests build 300 unit
run_tests build 900 model
run_kernels build
run_python
run_cli build
run_tests build/clang 300 unit
run_tests build/san 600 unit
run_tests build/san 1200 model
run_kernels build/san
run_fuzz build/san
run_cli build/san

echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
