#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One wheel: the Python package with the program, its worker, the kernel families
# and the headers inside. Built, named after the oldest C library that it runs
# with, and tried as its users get it: in a fresh virtual environment, from
# another folder, with nothing but a compiler beside it.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "ci/wheel.sh: $*" >&2
  exit 1
}

bash ci/install_deps.sh --program
python=${PYTHON:-python3}
out=build/wheels
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/build" ||
  fail "$python has no venv (Debian: python3-venv)"
"$scratch/build/bin/pip" install -q build scikit-build-core
mkdir -p "$out"
rm -f "$out"/*.whl
began=$SECONDS
"$scratch/build/bin/python" -m build --wheel --no-isolation --outdir "$scratch" . \
  >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" >&2; fail "no wheel"; }
built=$((SECONDS - began))
wheel=$(echo "$scratch"/*.whl)

# The newest symbol of the C library decides the tag, as for ninja and cmake.
"$python" -m zipfile -e "$wheel" "$scratch/content"
mapfile -t binaries < <(find "$scratch/content" -type f \
  \( -path '*/bin/*' -o -name '*.so' \))
glibc=$(objdump -T "${binaries[@]}" | grep -oE 'GLIBC_[0-9.]+' | sort -uV |
  tail -n 1)
tag=manylinux_$(echo "${glibc#GLIBC_}" | cut -d. -f1,2 | tr . _)_$(uname -m)
"$scratch/build/bin/python" -m pip install -q wheel
"$scratch/build/bin/python" -m wheel tags --platform-tag "$tag" --remove \
  "$wheel" >/dev/null
wheel=$(echo "$scratch"/*.whl)
size=$(stat -c %s "$wheel")
[ "$size" -le $((15 << 20)) ] || fail "the wheel has $size bytes, at most 15 MiB"
cp "$wheel" "$out"

# As a user gets it.
"$python" -m venv "$scratch/user"
began=$SECONDS
"$scratch/user/bin/pip" install -q "$wheel"
installed=$((SECONDS - began))
cat >"$scratch/three.py" <<'PY'
import numpy as np
import qkvet

def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)

report = qkvet.check(attention)
print(report.text)
report.raise_on_failure()
PY
began=$SECONDS
(cd "$scratch" && env -i PATH=/usr/bin:/bin user/bin/python three.py >said)
judged=$((SECONDS - began))
grep -E '^(PASSED|FAILED)' "$scratch/said"
(cd "$scratch" && env -i PATH=/usr/bin:/bin HOME="$scratch" user/bin/qkvet new mine.cpp >/dev/null &&
  env -i PATH=/usr/bin:/bin HOME="$scratch" user/bin/qkvet check mine.cpp --cases 500 |
  grep -E '^(PASSED|FAILED)')
echo "$out/$(basename "$wheel"): $((size >> 10)) KiB, built in $built s;" \
  "installed in $installed s, the first verdict after $judged s"
