#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job in one command: installs what is missing, builds the program, the
# kernels that it judges by default and the known faults, by which it finds causes,
# and judges the kernels. Arguments are passed on to `qkvet check`. The program names
# the command that builds another family.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh --program
if ! log=$(cmake --preset release 2>&1); then
  echo "$log" >&2
  exit 2
fi
cmake --build --preset release --target qkvet_default_program
exec build/release/bin/qkvet check "$@"
