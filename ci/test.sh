#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test in one command: installs what is missing, checks the style, builds
# and runs the tests, first with sanitizers (a quick part), then in full.
# QKVET_SANITIZERS=off leaves the first part out.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
bash ci/lint.sh --quick

if [ "${QKVET_SANITIZERS:-on}" != off ]; then
  cmake --preset asan-ubsan
  cmake --build --preset asan-ubsan
  ctest --preset asan-ubsan -LE slow -j "$(nproc)"
fi

cmake --preset release
cmake --build --preset release
ctest --preset release -j "$(nproc)"
