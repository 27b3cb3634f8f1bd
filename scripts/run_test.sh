#!/bin/sh
# Runs one test program for scripts/test.sh:  run_test.sh NAME SECONDS COMMAND...
# Its output goes to build/log, one line tells how it went, a failing one's output comes in
# front of that; "PASSED FAILED" is appended to build/log/sums.  A program that hangs is cut
# after so many seconds; one that runs no test or skips one has failed.
set -u
cd "$(dirname "$0")/.." || exit 1
name=$1 limit=$2
shift 2
log=build/log/$(echo "$name" | tr -c 'a-zA-Z0-9_\n' '-').log

# A place of its own for each of the programs at the same time: more threads than cores would wait
# for each other.
pin=
[ -n "${slot:-}" ] && taskset -c "$slot" true 2>/dev/null && pin="taskset -c $slot"

start=$(date +%s)
# shellcheck disable=SC2086 # two words or none
timeout -k 10 "$limit" $pin "$@" </dev/null >"$log" 2>&1
status=$?
seconds=$(($(date +%s) - start))

# cmocka's lines, or the closing line of our own programs, scripts and fuzz replays.
# shellcheck disable=SC2046 # three numbers
set -- $(awk '/^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
              /^\[  FAILED  \] [0-9]+ test\(s\)/ { failed += $4 }
              /^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped += $4 }
              /^[0-9]+ passed, [0-9]+ failed$/   { passed += $1; failed += $3 }
              /^[^ ]+: [0-9]+ inputs replayed$/  { passed += $2 }
              END { print passed + 0, failed + 0, skipped + 0 }' "$log")
passed=$1 failed=$2 skipped=$3

fault=
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    fault="hangs or is killed"
elif [ $status -ne 0 ]; then
    fault="fails"
elif [ "$failed" -gt 0 ]; then
    fault="fails but exits 0"
elif [ "$skipped" -gt 0 ]; then
    fault="skips $skipped"
elif [ "$passed" -eq 0 ]; then
    fault="ran no test"
fi

# One call of printf each, so that programs at the same time do not mix their lines.
if [ -z "$fault" ]; then
    echo "$passed 0" >>build/log/sums
    printf 'ok    %-48s %6d tests %4d s\n' "$name" "$passed" $seconds
else
    echo "$passed $((failed > 0 ? failed : 1))" >>build/log/sums
    printf '%s\nFAIL  %-48s %s (status %d, %d s)\n' "$(sed 's/^/    /' "$log")" "$name" "$fault" \
        $status $seconds
    exit 1
fi
