#!/usr/bin/env bash
# No function may be in two units of which one is compiled for AVX2 or AVX-512: the linker keeps one copy for both, and
# other processors would run it. Arguments: the library's object files.
set -euo pipefail

symbols_of() { nm --defined-only "$@" 2>/dev/null | awk '$2 ~ /^[WT]$/ { print $3 }' | sort -u; }

special=() others=()
for object in "$@"; do
  if [[ $object =~ _avx[0-9]+\. ]]; then special+=("$object"); else others+=("$object"); fi
done
if ((${#special[@]} == 0)); then
  echo "skipped: no unit has flags of its own"
  exit 0
fi
failed=0
for object in "${special[@]}"; do
  rest=("${others[@]}")
  for other in "${special[@]}"; do
    # Units of one instruction set may share.
    [[ ${other##*_avx} == "${object##*_avx}" ]] || rest+=("$other")
  done
  shared=$(comm -12 <(symbols_of "$object") <(symbols_of "${rest[@]}") | c++filt)
  if [[ -n $shared ]]; then
    printf '%s shares with units of other instruction sets:\n%s\n' "$(basename "$object")" "$shared"
    failed=1
  fi
done
exit "$failed"
