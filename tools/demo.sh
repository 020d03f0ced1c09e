#!/usr/bin/env bash
# Sets up, builds, and trains on the digits in fp32 and in FP8, to compare the two. Safe to repeat.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

tools/setup.sh
echo "demo: configuring build/release"
cmake --preset release --log-level=WARNING >/dev/null
echo "demo: building the program"
cmake --build --preset release --target tape8_program -j "$(nproc)"
# Threads that spin while they wait would let other work on the machine distort the comparison.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
command=(build/release/bin/tape8 train --compare fp32,delayed --activation swiglu --epochs 20 --seed 1)
echo "demo: ${command[*]}"
"${command[@]}"
