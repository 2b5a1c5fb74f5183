#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Style: format, floors, file sizes, and (without --quick) clang-tidy, which
# needs a configured build/release and some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.c')
clang-format-14 --dry-run --Werror "${sources[@]}"
python3 ci/floors.py
python3 ci/catalogue.py
echo "format and floors: ${#sources[@]} files are fine"

if [ "${1:-}" != --quick ]; then
  cmake --preset release >/dev/null
  cmake --build build/release --target qkvet_fault_lists >/dev/null
  # The headers of generated lists must exist, nothing has to be compiled.
  # testdata/ holds what misbehaves on purpose.
  mapfile -t units < <(git ls-files '*.cpp' | grep -v -e _test.cpp -e testdata/)
  printf '%s\n' "${units[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/release --quiet
  echo "clang-tidy: ${#units[@]} files are fine"
fi
