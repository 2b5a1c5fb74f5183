#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Style: format, floors, prose, and (without --quick) clang-tidy, which
# needs a configured build/release and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints the command of an LLVM tool of version 14: versions format differently.
# The distribution's, or that of PyPI.
tool() {
  if ! command -v "$1-14"; then
    local folder=build/lint
    if [ ! -x "$folder/bin/$1" ]; then
      python3 -m venv "$folder" >&2
      "$folder/bin/pip" install -q "$1==14.0.6" >&2 || {
        echo "ci/lint.sh: $1-14 is not installed, and PyPI does not give $1 14.0.6" >&2
        exit 1
      }
    fi
    echo "$folder/bin/$1"
  fi
}

clang_format=$(tool clang-format)
mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.c')
"$clang_format" --dry-run --Werror "${sources[@]}"
python3 ci/floors.py
python3 ci/english.py >/dev/null
echo "format and floors: ${#sources[@]} files are fine"

if [ "${1:-}" != --quick ]; then
  clang_tidy=$(tool clang-tidy)
  cmake --preset release >/dev/null
  # The headers of generated lists must exist, nothing has to be compiled.
  # testdata/ holds what misbehaves on purpose.
  mapfile -t units < <(git ls-files '*.cpp' | grep -v -e _test.cpp -e testdata/)
  printf '%s\n' "${units[@]}" |
    xargs -P "$(nproc)" -n 4 "$clang_tidy" -p build/release --quiet
  echo "clang-tidy: ${#units[@]} files are fine"
fi
