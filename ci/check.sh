#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job in one command: installs what is missing, builds, and judges the
# kernels that come with QKVet. Arguments are passed on to `qkvet check`.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
if ! log=$(cmake --preset release 2>&1); then
  echo "$log" >&2
  exit 2
fi
cmake --build --preset release --target qkvet_program
exec build/release/bin/qkvet check "$@"
