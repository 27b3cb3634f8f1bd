#!/bin/sh
# Installs what is missing, builds, and lets the demo model answer one question.
#   scripts/demo.sh ["Which city is the capital of Norway?"]
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh
make -s -j"$(nproc)"
echo "build/hadal run models/demo -p \"${1-What is the capital of France?}\""
exec build/hadal run models/demo -p "${1-What is the capital of France?}"
