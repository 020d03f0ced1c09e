#!/usr/bin/env bash
# Compiles each public header alone, with every compiler given that is there.
# check_headers.sh INCLUDE_DIR COMPILER...
set -euo pipefail
include_dir=$1
shift

headers=$(cd "$include_dir" && find tape8 -name '*.hpp' | sort)
for compiler in "$@"; do
  if ! command -v "$compiler" >/dev/null; then
    echo "headers: $compiler is not there: skipped"
    continue
  fi
  export compiler include_dir
  # shellcheck disable=SC2016
  xargs -P 2 -I{} bash -c '
    echo "#include <{}>" |
      "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror \
        -I "$include_dir" -x c++ - || { echo "headers: $compiler: {} does not compile alone"; exit 1; }
  ' <<<"$headers"
  echo "headers: $compiler: $(wc -l <<<"$headers") headers compile alone"
done
