#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is counted in millions, and the records of the figures that pages quote
# (ci/records): correct kernels and controls without a false alarm, with several
# seeds and numbers of cases, faults killed, checked cases per second, how sharp
# the bounds are and how soon a fault is reported; distances of the references
# from MPFR. QKVET_CASES sets the cases per correct kernel, QKVET_FAULT_CASES those
# per fault.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
bash ci/test_python.sh --all
cmake --preset release >/dev/null
cmake --build --preset release
qkvet=build/release/bin/qkvet
out=build/release/long
mkdir -p "$out"

# recorded NAME WORD...: a run that keeps its lines and its command for a record.
recorded() {
  local name=$1
  shift
  echo "qkvet check $*" >"$out/$name.command"
  "$qkvet" check "$@" --json "$out/$name.jsonl"
}
correct=()
for family in scalar eigen avx2 simt kv_cache kv_cache_avx2 serving \
  serving_avx2 controls; do
  correct+=(--kernel "$family/*")
done

echo "== correct kernels and controls =="
status=0
recorded correct "${correct[@]}" --cases "${QKVET_CASES:-40000}" --seed 2 ||
  status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 3 ]  # 3: a verdict is mistrusted

echo "== the same with other seeds and numbers of cases =="
rm -f "$out"/sweep-*.jsonl
for cases in 500 1500 5000 20000; do
  for seed in 1 2 3 4 5; do
    status=0
    recorded "sweep-$seed-$cases" "${correct[@]}" --cases "$cases" \
      --seed "$seed" | tail -n 4 || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
  done
done
echo "qkvet check, correct kernels, --seed 1 to 5, --cases 500 to 20000" \
  >"$out/sweep.command"

echo "== 100,000 stories over every kind of cache =="
"$qkvet" check --kernel 'kv_cache/*' --kernel 'kv_cache_avx2/*' \
  --law 'cache_*' --cases 9000 --seed 3 | tail -n 8

echo "== small scope, by exhaustion =="
"$qkvet" check --kernel 'scalar/plain' --kernel 'avx2/*' \
  --kernel 'serving/paged' --exhaustive

echo "== faults: exit code 1 or 4 is expected =="
status=0
recorded faults --kernel 'faulty/*' --cases "${QKVET_FAULT_CASES:-12000}" \
  >"$out/faults.txt" || status=$?
tail -n 8 "$out/faults.txt"
[ "$status" -eq 1 ] || [ "$status" -eq 4 ]  # 4: some crash
# Triggers that are rarely met in a plan that all faults share.
rm -f "$out/again.jsonl"
living=()
for fault in $(python3 ci/figures.py --living "$out"); do
  living+=(--kernel "$fault")
done
if [ "${#living[@]}" -gt 0 ]; then
  "$qkvet" check "${living[@]}" --cases 60000 --diagnose 0 \
    --json "$out/again.jsonl" | tail -n 4 || true
fi

echo "== faults fail where their conditions hold, and nowhere else =="
"$qkvet" check --faults=every --seed 4 --json "$out/hunt.jsonl" | tail -n 8

echo "== each fault alone, until its first report =="
rm -f "$out/first.jsonl"  # of another build
ci/first_reports.py "$qkvet" "$out/first.jsonl"

echo "== the same calls with other data =="
rm -f "$out/recall.jsonl"
ci/data_recall.py "$qkvet" "$out/recall.jsonl"

echo "== faults, with an oracle that shares them =="
build/release/bin/sabotage >"$out/sabotage.jsonl"

echo "== a recording of 40,000 commands: run, and shrunk =="
for seed in 1 2; do
  build/release/bin/serving_log 40000 "$seed" forks >"$out/serving.story"
  for kind in contiguous growing paged prefix split; do
    "$qkvet" replay "$out/serving.story" --kernel "kv_cache/$kind"
  done
  status=0
  "$qkvet" replay "$out/serving.story" \
    --kernel faulty/cache_truncate_keeps_values || status=$?
  [ "$status" -eq 1 ]
done

echo "== speed at small shapes, one thread =="
ci/speed.py "$qkvet" 30000

echo "== PyTorch, which ci/test.sh may lack =="
ctest --test-dir build/release --output-on-failure -L python

echo "== samples of ci/test.sh, in full =="
QKVET_TEST_FACTOR=7 build/release/bin/reference_test --gtest_brief=1
QKVET_TEST_FACTOR=7 QKVET_HOME="$PWD/build/release" PYTHONPATH=python \
  build/python/bin/python -m pytest -q python/tests/test_verdict.py
QKVET_TEST_FACTOR=7 build/release/bin/diagnosis_test --gtest_brief=1
QKVET_TEST_FACTOR=7 build/release/bin/hunt_test --gtest_brief=1
QKVET_TEST_FACTOR=7 build/release/bin/cli_test --gtest_brief=1 \
  --gtest_filter='*GoldenKill*:*JudgeFaults*:*Emit*:*Templates*'
QKVET_TEST_FACTOR=7 build/release/bin/properties_test --gtest_brief=1 \
  --gtest_filter='*ShrinkingTest*'

echo "== both references against MPFR =="
QKVET_MPFR_PROBLEMS=1000 build/release/bin/mpfr_test \
  --gtest_filter='MpfrTest.Both*' | grep '^MPFR,'

echo "== the same defects, shown to others' acceptance rules =="
build/release/bin/acceptance --out properties/others.md

python3 ci/figures.py --record "$out"
