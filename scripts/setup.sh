#!/bin/sh
# Installs what is missing on a Debian machine; says and does nothing when all is there.
#   scripts/setup.sh         what building and running needs
#   scripts/setup.sh test    also what scripts/test.sh needs, Python packages in build/venv
set -u
cd "$(dirname "$0")/.." || exit 1

missing=

fail()
{
    echo "setup: $*" >&2
    exit 1
}

# want PACKAGE PROBE...: the package is missing when its probe fails.
want()
{
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

has_header() { echo "#include <$1>" | gcc -E -x c -o /dev/null -; }
# Compiles and links, so that the header files and the sanitizers' run time are both there.
has_clang_runtime()
{
    echo 'int main(void) { return 0; }' |
        clang -fsanitize=address,undefined -x c -o /dev/null -
}

want_build()
{
    want gcc command -v gcc
    want make command -v make
    want libc6-dev has_header stdio.h
    want libjson-c-dev has_header json-c/json.h
    want libhwloc-dev has_header hwloc.h
    want libedit-dev has_header editline/readline.h
    want libevent-dev has_header event2/bufferevent_ssl.h
    want libssl-dev has_header openssl/ssl.h
}

# cmocka.h does not include the standard headers that it needs.
has_cmocka()
{
    printf '#include <%s>\n' stdarg.h stddef.h setjmp.h stdint.h cmocka.h |
        gcc -E -x c -o /dev/null -
}

want_test()
{
    want libcmocka-dev has_cmocka
    want g++ command -v g++
    want clang command -v clang
    want libclang-rt-dev has_clang_runtime
    want clang-format command -v clang-format
    want curl command -v curl
    want openssl command -v openssl
    want chromium command -v chromium
    want chromium-driver command -v chromedriver
    want python3 command -v python3
    want python3-venv python3 -c 'import ensurepip, venv'
}

as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

install_missing()
{
    [ -z "$missing" ] && return
    command -v apt-get >/dev/null || fail "no apt-get here; install the like of:$missing"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail "not root and no sudo; as root run: apt-get install$missing"
    echo "setup: installing$missing"
    log=$(mktemp) || exit 1
    # A source that cannot be refreshed need not be the one that is needed.
    as_root apt-get -q update >"$log" 2>&1
    # shellcheck disable=SC2086 # a list of package names
    if ! as_root apt-get -q -y --no-install-recommends install $missing >>"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        fail "apt-get could not install:$missing"
    fi
    rm -f "$log"
}

has_venv()
{
    cmp -s tests/requirements.txt build/venv/requirements.txt &&
        build/venv/bin/python3 - <<'END'
import importlib.util, sys
names = "anthropic jsonschema numpy openai safetensors schemathesis selenium tokenizers"
sys.exit(not all(map(importlib.util.find_spec, names.split())))
END
}

# --no-deps: exactly the pinned packages; what tokenizers adds to them is only for downloads.
make_venv()
{
    has_venv && return
    echo "setup: Python packages into build/venv"
    rm -rf build/venv
    mkdir -p build
    python3 -m venv build/venv || fail "python3 cannot make build/venv"
    build/venv/bin/python3 -m pip install -q --disable-pip-version-check --no-deps \
        -r tests/requirements.txt || fail "pip cannot install tests/requirements.txt"
    cp tests/requirements.txt build/venv/
    has_venv || fail "the Python packages in build/venv do not load"
}

case ${1-} in
'') want_build ;;
test)
    want_build
    want_test
    ;;
*) fail "unknown word '$1': wanted nothing or 'test'" ;;
esac
install_missing
[ "${1-}" != test ] || make_venv
