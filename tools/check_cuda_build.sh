#!/usr/bin/env bash
# Compiles the program with the CUDA backend, for the GPU architectures named (90a-real, ...; without any for all that
# the preset names), and prints what each kernel takes of a multiprocessor. Fails at a warning, at a kernel that
# spills registers to memory, and where the program does not say what it has of CUDA.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

build=build/cuda_check
if ! command -v nvcc >/dev/null; then PATH="$PATH:/usr/local/cuda/bin"; fi
if ! command -v nvcc >/dev/null; then
  echo "check_cuda_build: skipped: there is no nvcc"
  exit 0
fi

# What nvcc makes is looked at; the rest need only link.
options=(-DTAPE8_BUILD_TESTS=OFF -DTAPE8_BUILD_EXAMPLES=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O0 "-DCMAKE_CUDA_FLAGS=-Xptxas=-v")
if (($# > 0)); then options+=("-DCMAKE_CUDA_ARCHITECTURES=$(IFS=';' && echo "$*")"); fi
cmake --fresh --preset cuda -B "$build" --log-level=WARNING "${options[@]}" >/dev/null
log="$build/ptxas.log"
if ! cmake --build "$build" --clean-first -j "$(nproc)" >"$log" 2>&1; then
  grep -E 'error|warning|FAILED' "$log" || tail -40 "$log"
  exit 1
fi

# Of each kernel: architecture, registers of a thread, bytes of a block's shared memory, bytes that a thread spills.
awk '
  /Compiling entry function/ { split($0, name, "\x27"); kernel = name[2]; arch = name[4] }
  /bytes stack frame/ { spilled = $(NF - 9) + $(NF - 4) }
  /Used [0-9]+ registers/ && kernel != "" {
    registers = shared = 0
    for (i = 1; i < NF; ++i) {
      if ($(i + 1) ~ /^registers/) registers = $i
      if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
    }
    printf "%-8s %9d %9d %9d  %s\n", arch, registers, shared, spilled, kernel
    kernel = ""
  }
' "$log" | c++filt --no-params | sort -k1,1 -k2,2nr >"$build/kernels.txt"
printf '%-8s %9s %9s %9s  %s\n' GPU registers shared spilled kernel
cat "$build/kernels.txt"
if [[ ! -s "$build/kernels.txt" ]]; then
  echo "check_cuda_build: ptxas must say what kernels take: it said nothing" >&2
  exit 1
fi
if awk '$4 > 0 { found = 1 } END { exit !found }' "$build/kernels.txt"; then
  echo "check_cuda_build: no kernel may spill registers" >&2
  exit 1
fi
"$build/bin/tape8" info
"$build/bin/tape8" info | grep -qE '^ *cuda .*(built, no driver|cuda:0)'
