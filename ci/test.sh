#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test in one command: installs what is missing, checks the style, builds
# and runs the tests: with ASan and UBSan (a quick part), with TSan (what runs
# on several threads), then, behind a short hunt, in full. QKVET_SANITIZERS=off
# leaves the first two parts out.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
bash ci/lint.sh --quick

if [ "${QKVET_SANITIZERS:-on}" != off ]; then
  # Without the tests that would take too long; ASan itself sees null pointers.
  cmake --preset asan-ubsan
  cmake --build --preset asan-ubsan
  ctest --preset asan-ubsan -LE slow -j "$(nproc)"

  # TSan of these compilers wants less randomness of addresses than newer
  # kernels give; where a container forbids to ask for none, it runs as it is.
  fixed=()
  if setarch -R true 2> /dev/null; then fixed=(setarch -R); fi
  cmake --preset tsan
  "${fixed[@]}" cmake --build --preset tsan
  "${fixed[@]}" ctest --preset tsan -j "$(nproc)"
fi

cmake --preset release
cmake --build --preset release
bash ci/fuzz.sh 2000
ctest --preset release -j "$(nproc)"
