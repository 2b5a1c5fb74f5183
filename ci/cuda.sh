#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For a machine with a GPU and nvcc: builds the CUDA kernels, checks them against all
# laws on the device, and runs a part of that under compute-sanitizer where it is
# installed. Arguments are passed on to `qkvet check`, instead of --cases 20000.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
if ! log=$(cmake --preset release -DQKVET_CUDA=ON 2>&1); then
  echo "$log" >&2
  exit 2
fi
cmake --build --preset release --target qkvet_program
qkvet=build/release/bin/qkvet

# Errors above the bound of tensor cores are only warnings in the report: no device
# was measured against this bound.
[ $# -gt 0 ] || set -- --cases 20000
"$qkvet" check --kernel 'cuda/*' --junit build/cuda.xml \
  --json build/cuda.jsonl "$@"

sanitizer=$(command -v compute-sanitizer || true)
if [ -z "$sanitizer" ]; then
  echo "ci/cuda.sh: no compute-sanitizer in PATH: memcheck and racecheck are left out"
else
  for tool in memcheck racecheck synccheck; do
    "$sanitizer" --tool "$tool" --error-exitcode 1 \
      "$qkvet" check --kernel 'cuda/*' --cases 200 --in-process
  done
fi
