#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test in one command, and one count of them: installs what is missing,
# checks the style, builds three times and runs all. With ASan and UBSan, and
# with TSan, there is only what such a sanitizer can find something in
# (QKVET_TESTS in CMakeLists.txt). QKVET_SANITIZERS=off leaves these two out.
set -euo pipefail
cd "$(dirname "$0")/.."

bash ci/install_deps.sh
bash ci/test_python.sh &
packages=$!
bash ci/lint.sh --quick

builds=(release)
if [ "${QKVET_SANITIZERS:-on}" != off ]; then
  builds+=(asan-ubsan tsan)
  # TSan of these compilers needs less randomness of addresses than newer kernels give;
  # where a container forbids turning it off, it runs as it is.
  launcher=
  if setarch -R true 2> /dev/null; then launcher="setarch;-R"; fi
  cmake --preset asan-ubsan -D QKVET_BUILD_TESTS=ON
  cmake --preset tsan -D QKVET_BUILD_TESTS=ON -D CMAKE_CROSSCOMPILING_EMULATOR="$launcher"
  cmake --build --preset asan-ubsan
  cmake --build --preset tsan
fi
wait "$packages"
# If there is nvcc, builds for one kind of device; ci/cuda.sh builds for all.
cmake --preset release -D QKVET_BUILD_TESTS=ON \
  -D CMAKE_CUDA_ARCHITECTURES=90a-real
cmake --build --preset release

# The tests of all builds, in one run that keeps every core busy to its end, also
# while one of them waits for a kernel that hangs.
printf 'subdirs(%s)\n' "${builds[*]}" > build/CTestTestfile.cmake
exec ctest --test-dir build --output-on-failure --no-tests=error -j $(($(nproc) + 1))
