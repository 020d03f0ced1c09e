#!/usr/bin/env bash
# Proves the CUDA backend on a real GPU of compute capability 9.0, in minutes:
#   tools/gpu_check.sh build   where there is nvcc: puts programs that run elsewhere into build/gpu_check
#   tools/gpu_check.sh         where there is a GPU: runs their tests, gradcheck and bench, and prints what came out
# The programs bring their libraries along, but for cuBLASLt, which is looked for. Exits with 77 where there is no GPU.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly package=build/gpu_check
readonly most_bytes=$((64 << 20))

build_package() {
  if ! command -v nvcc >/dev/null; then PATH="$PATH:/usr/local/cuda/bin"; fi
  local build=build/gpu
  cmake --preset cuda -B "$build" --log-level=WARNING -DCMAKE_CUDA_ARCHITECTURES=90a-real \
    -DTAPE8_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$build" -j "$(nproc)" --target tape8_program cuda_gpu_tests
  rm -rf "$package"
  mkdir -p "$package/bin" "$package/lib"
  cp "$build/bin/tape8" "$build/tests/cuda/cuda_gpu_tests" "$package/bin/"
  strip "$package"/bin/*
  # What a bare machine lacks; libc and the driver's are its own.
  ldd "$package"/bin/* | awk '$2 == "=>" && $1 ~ /^lib(fmt|spdlog|gomp|stdc\+\+|gcc_s|z)\.so/ { print $3 }' | sort -u |
    xargs -I{} cp -L {} "$package/lib/"
  local bytes
  bytes=$(du -sb "$package" | cut -f1)
  if ((bytes > most_bytes)); then
    echo "gpu_check: the package must be at most $most_bytes bytes: got $bytes" >&2
    exit 1
  fi
  echo "gpu_check: $package is ready, $bytes bytes"
}

# Runs a command for at most so many seconds; what it prints goes to a file.
run_step() {
  local name=$1 seconds=$2
  shift 2
  local status=0
  timeout "$seconds" "$@" >"$package/$name.log" 2>&1 || status=$?
  printf '%-10s exit status %d%s\n' "$name" "$status" "$( ((status == 124)) && echo ", out of its $seconds s")"
  ((status == 0)) || failed=1
}

run_checks() {
  if [[ ! -x "$package/bin/tape8" ]]; then
    echo "gpu_check: $package must be built first: tools/gpu_check.sh build" >&2
    exit 1
  fi
  local cublas
  cublas=$(find / -name 'libcublasLt.so.13' -not -path '/proc/*' -print -quit 2>/dev/null || true)
  export LD_LIBRARY_PATH="$PWD/$package/lib${cublas:+:$(dirname "$cublas")}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export OMP_WAIT_POLICY=passive
  local tape8="$package/bin/tape8"
  if ! "$tape8" info | grep -q 'cuda:0'; then
    echo "gpu_check: no GPU here, so nothing was checked:"
    "$tape8" info 2>&1 | grep -i cuda || true
    exit 77
  fi
  "$tape8" info
  failed=0
  run_step tests 180 "$package/bin/cuda_gpu_tests"
  grep -E 'ERROR|test cases' "$package/tests.log" | tail -20
  run_step gradcheck 150 "$tape8" gradcheck --backend cuda
  tail -3 "$package/gradcheck.log"
  run_step training 30 "$tape8" train --device cuda --recipe delayed
  tail -2 "$package/training.log"
  run_step bench 150 "$tape8" bench --device cuda --seconds 0.03
  cat "$package/bench.log"
  exit "$failed"
}

case "${1:-}" in
  "") run_checks ;;
  build) build_package ;;
  *)
    echo "usage: tools/gpu_check.sh [build]" >&2
    exit 2
    ;;
esac
