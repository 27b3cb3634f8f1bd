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
sums=$logs/sums # a line "PASSED FAILED" for each program
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

# fault_of STATUS PASSED FAILED SKIPPED: why this is no success, or nothing.
fault_of()
{
    if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
        echo "hangs or is killed"
    elif [ "$1" -ne 0 ]; then
        echo "fails"
    elif [ "$3" -gt 0 ]; then
        echo "fails but exits 0"
    elif [ "$4" -gt 0 ]; then
        echo "skips $4"
    elif [ "$2" -eq 0 ]; then
        echo "ran no test"
    fi
}

# report NAME LOG STATUS SECONDS: counts one program in and prints its line, a failing one's
# log before it.
report()
{
    # shellcheck disable=SC2046 # three numbers
    set -- "$1" "$2" "$3" "$4" $(count_tests "$2")
    fault=$(fault_of "$3" "$5" "$6" "$7")
    if [ -z "$fault" ]; then
        echo "$5 0" >>$sums
        printf 'ok    %-48s %6d tests %4d s\n' "$1" "$5" "$4"
    else
        echo "$5 $(($6 > 0 ? $6 : 1))" >>$sums
        printf '%s\nFAIL  %-48s %s (status %d, %d s)\n' "$(sed 's/^/    /' "$2")" \
            "$1" "$fault" "$3" "$4"
    fi
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
    report "$name" "$log" $? $(($(date +%s) - start))
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
    echo "0 1" >>$sums
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

# run_kernels BUILD: each family that has kernels, as far as this machine runs it.
run_kernels()
{
    kernels=$1/tests/kernels/test_kernels
    found "$kernels" || return
    for isa in $("$kernels" --list | cut -d ' ' -f 2 | sort -u); do
        if "$kernels" --isa "$isa" --list >/dev/null 2>&1; then
            run "$1/tests/kernels $isa" 900 "$kernels" --isa "$isa"
        else
            echo "note  $isa kernels: this machine does not run them"
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

run_plain()
{
    run_tests build 300 unit
    run_kernels build
    run_python
    run_cli build
    run_tests build/clang 300 unit
    run_tests build 2400 model
}

run_sanitized()
{
    run_tests build/san 600 unit
    run_kernels build/san
    run_fuzz build/san
    run_cli build/san
    run_tests build/san 2400 model
}

# Two lanes, because most programs use one core.
run_plain &
plain=$!
run_sanitized &
sanitized=$!
trap 'kill $plain $sanitized; exit 130' INT TERM
wait

awk '{ passed += $1; failed += $2 }
     END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 || passed == 0 }' $sums
