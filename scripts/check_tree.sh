#!/bin/sh
# Fails when the tree breaks a rule that no compiler sees.  Run from anywhere; prints each
# complaint with its place and exits 1 when there was one.
cd "$(dirname "$0")/.." || exit 1
LC_ALL=C
export LC_ALL
fail=0
found=$(mktemp) || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$found" "$folder"' EXIT

# Complaints of one rule, a line each in $found.
report() {
    [ -s "$found" ] || return 0
    sed "s|^|check_tree: $1: |" "$found"
    fail=1
    : > "$found"
}
sources() {
    find include src tests fuzz bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) \
        2>/dev/null | sort
}
in_src() { sources | grep '^src/'; }

# ---- every kernel is listed, in a file compiled for its family, and the other way round ----
# A family's files are known by their suffix; those that define no kernel hold helpers.
kernel='^hd_status hd_[a-z0-9_]+_(ref|avx2|avx512|cuda|sm[0-9]+|wgmma)\(const void \*args'
in_src | grep '^src/ops/.*/.*\.cu*$' | xargs grep -nE "$kernel" /dev/null |
    sed -E 's/^([^:]*):([0-9]*):hd_status hd_([a-z0-9_]+)\(.*/\1 \2 \3/' > "$folder/defined"
sed -nE 's/^KERNEL\(([a-z0-9_]+), *([a-z0-9_]+),.*/\1_\2/p' src/ops/kernels.def > "$folder/listed"
while read -r f line name; do
    grep -qx "$name" "$folder/listed" || echo "$f:$line: $name is not in src/ops/kernels.def"
    case $f in *_"${name##*_}".c | *_"${name##*_}".cu) ;;
    *) echo "$f:$line: $name wants a file named *_${name##*_}" ;; esac
done < "$folder/defined" > "$found"
while read -r name; do
    grep -q " $name\$" "$folder/defined" || echo "src/ops/kernels.def:1: $name is in no file"
done < "$folder/listed" >> "$found"
for f in src/ops/ref/*_ref.c; do
    grep -q "^$f " "$folder/defined" || echo "$f:1: defines no kernel"
done >> "$found"
report "kernel"
in_src | grep -v '^src/ops/x86/' | xargs grep -n 'include <.*intrin\.h>' > "$found"
report "intrinsics only in src/ops/x86"

# ---- who may include whom ----
allowed() {
    case $1 in
    base) ;;
    quant | tokenizer) echo base ;;
    grammar) echo base tokenizer ;;
    checkpoint | kv) echo base quant ;;
    weights) echo base quant checkpoint ;;
    ops) echo base quant kv ;;
    model) echo base quant kv weights ops ;;
    engine) echo base quant checkpoint tokenizer kv weights model ;;
    doctor) echo base quant checkpoint kv weights model engine ;;
    server) echo base ;;
    cli) echo base bench doctor server ;;
    bench) echo base quant checkpoint kv weights ops model ;;
    *) echo "unknown folder" ;;
    esac
}
in_src | xargs grep -n '^#include "' | while IFS=: read -r f line text; do
    own=${f#src/}
    own=${own%%/*}
    target=${text#*\"}
    target=${target%\"*}
    case $target in
    hadal*.h) continue ;;
    ../*) echo "$f:$line: includes $target by a relative path" && continue ;;
    */*) ;;
    *) [ -e "$(dirname "$f")/$target" ] && continue ;;
    esac
    case " $own $(allowed "$own") " in
    *" ${target%%/*} "*) ;;
    *) echo "$f:$line: $own/ may not include $target" ;;
    esac
done > "$found"
report "include"
in_src | xargs grep -n 'include <json-c/' |
    grep -v '^src/base/json[a-z_]*\.[ch]:' > "$found"
report "json-c only through base/json.h"
in_src | xargs grep -n 'include <hwloc' | grep -v '^src/base/topology\.c:' > "$found"
report "hwloc only through base/topology.h"
grep -n '^#include "' include/*.h | grep -v '"hadal.h"$' > "$found"
report "public headers stand on hadal.h alone"

# ---- what library code does not do ----
# Comments, strings and characters are blanked first, so that only code is searched.
strip() {
    awk '
    FNR == 1 { comment = 0 }
    {
        line = $0; out = ""
        while (line != "") {
            if (comment) {
                at = index(line, "*/")
                if (!at) break
                line = substr(line, at + 2); comment = 0
            } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
                token = substr(line, RSTART, 2)
                out = out substr(line, 1, RSTART - 1)
                if (token == "//") break
                comment = token == "/*"
                if (!comment) out = out "0"
                line = substr(line, comment ? RSTART + 2 : RSTART + RLENGTH)
            } else { out = out line; line = "" }
        }
        print FILENAME ":" FNR ":" out
    }' "$@"
}
# shellcheck disable=SC2046
strip $(in_src) > "$folder/code"
grep -v '^src/cli/' "$folder/code" > "$folder/library"
grep -v '^src/base/' "$folder/code" > "$folder/above"

search() { grep -E "$1" "$2" > "$found"; }
before='(^|[^a-zA-Z0-9_.>])'
search "${before}(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|strdup|strndup|asprintf|vasprintf|free|mmap|munmap|cudaMalloc[A-Za-z]*|cudaFree[A-Za-z]*)[[:space:]]*\(" "$folder/above"
report "memory only through base/memory.h"
search "${before}(exit|_exit|_Exit|quick_exit|abort)[[:space:]]*\(" "$folder/library"
report "library code ends the process"
search "${before}(printf|vprintf|puts|putchar|perror)[[:space:]]*\(|${before}(stdout|stderr)([^a-zA-Z0-9_]|$)" "$folder/library"
report "library code prints"
search "${before}getenv[[:space:]]*\(" "$folder/library"
report "library code reads the environment"
search "${before}(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|strtok|alloca)[[:space:]]*\(" "$folder/code"
report "call without a bound or an error"

# ---- names and sizes ----
sources | sed 's|.*/||' | sort | uniq -d | while read -r name; do
    sources | grep "/$name\$" | sed 's|$|:1: not unique|'
done > "$found"
report "file name used twice"
for f in $(find src -name '*.c') $(find tests fuzz bench -name '*.c' 2>/dev/null); do
    case $(basename "$f") in *[!a-z0-9_.]*) echo "$f:1: want snake_case" ;; esac
done > "$found"
report "file name"
find src -name '*.h' | sort | while read -r f; do
    guard=$(echo "${f#src/}" | sed 's|[/.]|_|g' | tr '[:lower:]' '[:upper:]')
    grep -q "^#ifndef HD_$guard\$" "$f" || echo "$f:1: want the guard HD_$guard"
done > "$found"
report "include guard"

# Tables that a program writes may be long.
generated() { head -5 "$1" | grep -Eqi 'generated|made by scripts/'; }
sources | while read -r f; do
    n=$(wc -l < "$f")
    if [ "$n" -gt 1000 ] && ! generated "$f"; then
        echo "$f:1000: $n lines, at most 1000"
    elif [ "$n" -gt 500 ] && ! generated "$f"; then
        echo "check_tree: note: $f has $n lines, more than 500" >&3
    fi
done 3>&1 > "$found"
report "long file"
# Functions begin and end with a brace in the first column; one of a GPU may be longer.
# shellcheck disable=SC2046
awk '
    FNR == 1 { start = 0; is_table = 0; longest = FILENAME ~ /[.]cuh?$/ ? 300 : 100 }
    FNR <= 5 && /[Gg]enerated|[Mm]ade by scripts\// { is_table = 1 }
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start > longest)
                print FILENAME ":" start ": a function of " FNR - start " lines, at most " longest
            start = 0 }
    length($0) > 100 && !is_table {
        line = $0; gsub(/[\200-\277]/, "", line)
        if (length(line) > 100) print FILENAME ":" FNR ": " length(line) " columns, at most 100" }
    /\t/ { print FILENAME ":" FNR ": a tab" }
    /[ \t\r]$/ { print FILENAME ":" FNR ": space at the end of the line" }
' $(sources) > "$found"
report "length"

# Blocks four deep inside a function, and at most six parameters, except in the public header's
# functions, whose callers have no use for a struct.
awk '
    FILENAME == "include/hadal.h" { public = public $0; next }
    { at = index($0, ":"); rest = substr($0, at + 1); code = substr(rest, index(rest, ":") + 1)
      place = substr($0, 1, at) substr(rest, 1, index(rest, ":") - 1) }
    code ~ /^[{]/ { depth = 0; in_body = 1 }
    in_body { n = length(code)
        for (i = 1; i <= n; i++) {
            c = substr(code, i, 1)
            if (c == "{" && ++depth == 6) print place ": more than four levels of nesting"
            if (c == "}") depth--
        }
        if (depth == 0) in_body = 0 }
    !in_body && code ~ /^[a-z].*[(]/ && code !~ /^typedef|=/ { head = ""; head_place = place; reading = 1 }
    reading { head = head code
        if (head ~ /[)]/) { reading = 0; commas = 0; level = 0
            n = length(head)
            for (i = 1; i <= n; i++) {
                c = substr(head, i, 1)
                if (c == "(") level++
                if (c == ")" && --level == 0) break
                if (c == "," && level == 1) commas++
            }
            name = head; sub(/[(].*/, "", name); sub(/.*[ *]/, "", name)
            if (level == 0 && commas > 5 && !index(public, name "("))
                print head_place ": " commas + 1 " parameters, at most 6" } }
' include/hadal.h "$folder/code" > "$found"
report "shape"

# ---- the tests that doc/cases.md names ----
# `folder/file: test`, and `test` for another one of the same file.
awk -F '|' '/^[|] [A-Z]+-[0-9]+ / { print $5 }' doc/cases.md | grep -o '`[^`]*`' | tr -d '`' |
    while read -r test; do
        case $test in */*': '*) file=tests/${test%%: *} ;; esac
        grep -qF -- "${test##*: }" "$file".c "$file".py 2>/dev/null ||
            echo "doc/cases.md:1: no test ${test##*: } in $file"
    done > "$found"
report "test"

# ---- words ----
text_files() {
    git ls-files -co --exclude-standard 2>/dev/null |
        grep -Ev '\.(safetensors|bin|jsonl|json|png|gz|model)$|^(fuzz/corpus|tests/golden|models)/' |
        while read -r f; do [ -f "$f" ] && echo "$f"; done
}
# Written so that this file does not find itself.
words='TO''DO|FIX''ME|(^|[^X])XX''X([^X]|$)'
paths='(^|[^a-zA-Z0-9_.])/(wo''rk|home|root|Users)/'
text_files | xargs grep -nE "$words" /dev/null > "$found"
report "word"
text_files | xargs grep -nE "$paths" /dev/null > "$found"
report "path of one machine"
sources | xargs grep -nE '^#if 0|@author|Copyright \(c\) [0-9]' > "$found"
report "dead code or a name"

# ---- every header compiles alone, as C and as C++ ----
flags="-Iinclude -Isrc -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only"
for f in $(find include src -name '*.h' | sort); do
    case $f in include/*) name=${f#include/} ;; *) name=${f#src/} ;; esac
    case $f in
    *_avx512.h) isa="-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi" ;;
    src/ops/x86/*) isa="-mavx2 -mfma -mf16c -mbmi2" ;;
    *) isa= ;;
    esac
    printf '#include "%s"\nextern int not_empty;\n' "$name" > "$folder/alone.c"
    cp "$folder/alone.c" "$folder/alone.cc"
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -Wpedantic $flags $isa "$folder/alone.c" 2> "$folder/log" ||
        echo "$f:1: not alone as C: $(grep -m1 'error' "$folder/log")"
    # shellcheck disable=SC2086
    ${CXX:-c++} -std=c++17 $flags $isa "$folder/alone.cc" 2> "$folder/log" ||
        echo "$f:1: not alone as C++: $(grep -m1 'error' "$folder/log")"
done > "$found"
report "header"

# ---- layout ----
if command -v clang-format > /dev/null; then
    # shellcheck disable=SC2046
    clang-format --dry-run $(sources) 2>&1 | grep -E 'warning|error' > "$found"
    report "format"
else
    echo "check_tree: clang-format is not installed, layout is not checked"
fi

[ $fail = 0 ] && echo "check_tree: nothing to complain about"
exit $fail
