#!/usr/bin/env bash
# Sets up, builds and runs the tests, but for those labelled slow. Arguments go to cmake's configuration. Safe to repeat.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

tools/setup.sh
echo "test: configuring build/release"
cmake --preset release --log-level=WARNING "$@" >/dev/null
echo "test: building the library, the program, the examples and the tests"
cmake --build --preset release -j "$(nproc)"
echo "test: running the tests"
ctest --preset release -LE slow
