#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One wheel: the Python package with the program, its worker, the kernel families and
# the headers inside. Named after the oldest C library that it runs with, and tried as
# its users get it: in a fresh virtual environment, from another folder, with only a
# compiler beside it.
#
#   ci/wheel.sh          builds the program anew, as `pip install .` does
#   ci/wheel.sh BUILD    takes the program of a build folder, and nothing of the
#                        network: NumPy is the one of this Python
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "ci/wheel.sh: $*" >&2
  exit 1
}

reused=${1:-}
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
began=$SECONDS
if [ -n "$reused" ]; then
  if [ ! -f "$reused/cmake_install.cmake" ]; then
    echo "ci/wheel.sh: $reused: no build; allowed: a folder that CMake has" \
      "configured" >&2
    exit 2
  fi
  out=$reused/wheels
  cmake --install "$reused" --component program --prefix "$scratch/program" \
    --strip >/dev/null
  rm -rf "$out"
  wheel=$("$python" ci/pack_wheel.py "$scratch/program" "$out")
else
  out=build/wheels
  bash ci/install_deps.sh --program
  "$python" -m venv "$scratch/build" ||
    fail "$python has no venv (Debian: python3-venv)"
  "$scratch/build/bin/pip" install -q build scikit-build-core wheel
  "$scratch/build/bin/python" -m build --wheel --no-isolation \
    --outdir "$scratch" . 2>&1 | tee "$scratch/log" | sed -un '/^\[[0-9]/p' ||
    { tail -n 30 "$scratch/log" >&2; fail "no wheel"; }
  # The newest symbol of the C library decides the tag, as for ninja and cmake.
  "$python" -m zipfile -e "$scratch"/*.whl "$scratch/content"
  tag=$("$python" ci/pack_wheel.py --tag "$scratch/content")
  "$scratch/build/bin/python" -m wheel tags --platform-tag "$tag" --remove \
    "$scratch"/*.whl >/dev/null
  mkdir -p "$out"
  rm -f "$out"/*.whl
  mv "$scratch"/*.whl "$out"
  wheel=$(echo "$out"/*.whl)
fi
size=$(stat -c %s "$wheel")
[ "$size" -le $((15 << 20)) ] || fail "the wheel has $size bytes, at most 15 MiB"
built=$((SECONDS - began))

# As a user gets it.
began=$SECONDS
if [ -n "$reused" ]; then
  "$python" -m venv --system-site-packages "$scratch/user"
  "$scratch/user/bin/pip" install -q --no-index "$wheel"
else
  "$python" -m venv "$scratch/user"
  "$scratch/user/bin/pip" install -q "$wheel"
fi
installed=$((SECONDS - began))
cat >"$scratch/three.py" <<'PY'
import numpy as np
import qkvet

def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)

def unscaled(q, k, v):
    return attention(q * np.float32(np.sqrt(q.shape[-1])), k, v)

report = qkvet.check(attention, cases=2000)
print(report.text)
report.raise_on_failure()
wrong = qkvet.check(unscaled, cases=500)
assert wrong.failures[0].cause == "no_scale", wrong.text
PY
bare=(env -i PATH=/usr/bin:/bin HOME="$scratch")
began=$SECONDS
(cd "$scratch" && "${bare[@]}" user/bin/python three.py) |
  grep -E '^(PASSED|FAILED)'
judged=$((SECONDS - began))
(cd "$scratch" && "${bare[@]}" user/bin/qkvet new mine.cpp >/dev/null &&
  "${bare[@]}" user/bin/qkvet check mine.cpp --cases 500) |
  grep -E '^(PASSED|FAILED)'
echo "$wheel: $((size >> 10)) KiB, made in $built s;" \
  "installed in $installed s, the first verdict after $judged s"
