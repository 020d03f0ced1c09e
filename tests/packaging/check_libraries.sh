#!/usr/bin/env bash
# A program needs no shared libraries but those that README.md names.
# check_libraries.sh PROGRAM
set -euo pipefail

allowed='linux-vdso|ld-linux[-a-z0-9]*|libfmt|libspdlog|libgomp|libomp|libz|libstdc\+\+|libm|libgcc_s|libc'
libraries=$(ldd "$1" | sed -E 's/^[[:space:]]*//; s/ .*//; s|.*/||')
echo "$libraries"
if ! grep -q '^libc\.so' <<<"$libraries"; then
  echo "libraries: ldd names no libc: is $1 a program?"
  exit 1
fi
if others=$(grep -vE "^($allowed)\.so(\.|$)" <<<"$libraries"); then
  echo "libraries: not expected: $others"
  exit 1
fi
