#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build and the tests need, from Debian's packages. Does
# nothing, and needs no root, if all of it is there. With --program only what
# the program is made of, which a user waits for: the rest takes as long again.
set -euo pipefail

packages=(
  g++ cmake ninja-build git librapidcheck-dev libeigen3-dev libcli11-dev
  nlohmann-json3-dev libfmt-dev libmd-dev libminizip-dev zlib1g-dev
  libprotozero-dev libclang-rt-dev
)
case "${1:-}" in
  --program) ;;
  "") packages+=(
        ccache mold python3 python3-numpy python3-pytest python3-jsonschema
        python3-yaml python3-venv libgtest-dev libdlpack-dev libmpfr-dev
        clang llvm curl groff rustc zsh
      )
      # For the test of pages, which skips without one. Ubuntu has it as a snap.
      if grep -qx ID=debian /etc/os-release; then packages+=(chromium); fi
      # Debian 13 has no clang-format 14, which ci/lint.sh then takes from PyPI,
      # and the first PyTorch that is new enough for the tests.
      if grep -qx 'VERSION_ID="13"' /etc/os-release; then
        packages+=(python3-torch)
      else
        packages+=(clang-format-14 clang-tidy-14)
      fi
      ;;
  *)
    echo "ci/install_deps.sh: $1: unknown; allowed is --program" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing: ${missing[*]}"
root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "ci/install_deps.sh: run as root, or install by hand: ${missing[*]}" >&2
    exit 2
  fi
  # Which passes no variable on.
  root=(sudo env DEBIAN_FRONTEND=noninteractive)
fi
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -qq
"${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" \
  >/dev/null
