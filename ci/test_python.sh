#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/python, the Python of the tests: the machine's own and, from PyPI,
# the packages that tests need and Debian does not have. Takes two minutes at
# most, once. A package that cannot be had is printed with the reason, and its
# tests are skipped.
#
#   ci/test_python.sh          what fits into two minutes
#   ci/test_python.sh --all    PyTorch from PyPI, with CUDA (4 GB)
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/python
index=https://download.pytorch.org/whl/cpu
# A module, and the words that pip installs it by.
wanted=(
  "onnx: onnx" "onnxruntime: onnxruntime" "hypothesis: hypothesis"
  "xdist: pytest-xdist" "ml_dtypes: ml_dtypes" "jax: jax"
  "ray: ray"
)
case "${1:-}" in
  "") limit=120 wanted+=("torch: torch --index-url $index") ;;
  --all) limit=3600 wanted+=("torch: torch") ;;
  *)
    echo "ci/test_python.sh: $1: unknown; allowed is --all" >&2
    exit 2
    ;;
esac

# Debian's packages belong to Debian's Python, which need not be the first.
if [ ! -x "$folder/bin/pip" ]; then
  rm -rf "$folder"
  /usr/bin/python3 -m venv --system-site-packages "$folder"
fi
python=$folder/bin/python
# The tests are about the machine's NumPy.
"$python" -c "import numpy; print(f'numpy=={numpy.__version__}')" \
  >"$folder/constraints.txt"
for row in "${wanted[@]}"; do
  module=${row%%:*}
  ! "$python" -c "import importlib.util as a, sys
sys.exit(a.find_spec('$module') is None)" || continue
  read -ra words <<<"${row#*: }"
  left=$((limit > SECONDS ? limit - SECONDS : 1))
  if ! log=$(timeout "$left" "$python" -m pip install -q --only-binary :all: \
    --retries 1 --timeout 20 -c "$folder/constraints.txt" "${words[@]}" 2>&1); then
    echo "$module: not installed, its tests are skipped: $(
      grep -m 1 -iE 'error|fail' <<<"$log" || echo "not done in $limit s")"
  fi
done
