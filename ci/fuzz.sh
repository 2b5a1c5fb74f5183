#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hunts with every target in turn: `ci/fuzz.sh [TIME]`, 10s each by default (2 minutes
# in all), `ci/fuzz.sh 10m` at night; `ci/fuzz.sh 2000` for that many executions each,
# as in CI. Inputs begin with fuzz/corpus, and grow in build/fuzz. Findings get a line
# in build/fuzz/regressions.txt, and the exit code is the worst of all. QKVET_FUZZ_ARGS
# has further arguments for all hunts of kernels, such as "--jobs 8 --seed random".
# `ci/fuzz.sh --minimise` reduces the grown inputs to a smallest set with the same
# coverage and puts it into fuzz/corpus, for targets with lines as inputs.
set -euo pipefail
cd "$(dirname "$0")/.."

qkvet=build/release/bin/qkvet
if [ ! -x "$qkvet" ]; then
  bash ci/install_deps.sh
  cmake --preset release > /dev/null
  cmake --build --preset release --target qkvet_program
fi
grown=build/fuzz
mkdir -p "$grown"

if [ "${1:-}" = --minimise ]; then
  for target in shapes stability stories layer; do
    [ -d "$grown/$target" ] || continue
    rm -rf "$grown/least"
    "$qkvet" fuzz "$target" --corpus "$grown/least" --merge "$grown/$target"
    {
      echo "# Inputs that show all that hunts have shown: LAW CASE"
      for input in "$grown"/least/*; do cat "$input"; echo; done | sort -u
    } > "fuzz/corpus/$target.txt"
  done
  exit 0
fi

read -r -a more <<< "${QKVET_FUZZ_ARGS:-}"
worst=0
hunt() { # target, words
  local target=$1 seeds=() code=0
  shift
  for path in "fuzz/corpus/$target.txt" "fuzz/corpus/$target"; do
    if [ -e "$path" ]; then seeds=(--seeds "$path"); fi
  done
  "$qkvet" fuzz "$target" "${long[@]}" --corpus "$grown/$target" \
    "${seeds[@]}" "$@" || code=$?
  # 2 before 4 before 1 before 3, as in one run.
  for one in 2 4 1 3; do
    if [ "$code" = "$one" ] || [ "$worst" = "$one" ]; then worst=$one; break; fi
  done
}
long=(--budget "${1:-10s}")
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then long=(--cases "$1"); fi
kept=(--out "$grown/regressions.txt" "${more[@]}")
for target in shapes stability stories layer; do hunt "$target" "${kept[@]}"; done
hunt differential --kernel scalar/plain --kernel eigen/plain "${kept[@]}"
for target in case_text story_text condition_text worker_reply npy safetensors \
  npz onnx_tensor; do
  hunt "$target"
done
exit "$worst"
