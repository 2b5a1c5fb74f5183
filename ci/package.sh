#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One archive that runs wherever glibc is new enough: the program, its worker, the
# kernel families, the headers and the CMake package. It is built, then tried as its
# users get it: unpacked elsewhere, without rights, without an environment, and, where a
# bare root folder can be made, alone on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "ci/package.sh: $*" >&2
  exit 1
}

bash ci/install_deps.sh
version=$(sed -n 's/^project(qkvet VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=qkvet-$version-linux-$(uname -m)
build=build/package
cmake --preset package >/dev/null
cmake --build --preset package
rm -rf "${build:?}/$name" "$build/$name.tar.gz"
cmake --install "$build" --prefix "$build/$name" --strip >/dev/null
# The same tree gives the same archive.
tar --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
  -C "$build" -cf - "$name" | gzip -9n >"$build/$name.tar.gz"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
tar -C "$scratch" -xzf "$build/$name.tar.gz"
root=$scratch/$name
mapfile -t binaries < <(find "$root/bin" "$root/lib" -type f \
  \( -perm -u+x -o -name '*.so' \) | sort)
[ ${#binaries[@]} -ge 7 ] || fail "only ${#binaries[@]} programs and modules"

# Libraries that are needed besides glibc.
foreign_of() {
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libpthread|libdl)\.so|^ld-linux' || true
}

# There are none, and plug-ins see no symbol of the C++ library, because they bring
# their own.
for binary in "${binaries[@]}"; do
  foreign=$(foreign_of "$binary")
  [ -z "$foreign" ] || fail "${binary#"$root"/} needs $foreign"
  ! readelf -d "$binary" | grep -qE 'RPATH|RUNPATH' ||
    fail "${binary#"$root"/} has a library path"
  offered=$(nm -D --defined-only "$binary" | grep -E ' _Z| __cxa' || true)
  [ -z "$offered" ] || fail "${binary#"$root"/} exports $offered"
done
glibc=$(objdump -T "${binaries[@]}" | grep -oE 'GLIBC_[0-9.]+' | sort -uV |
  tail -n 1)

# As the user with id 65534, if this script may switch to it.
user=()
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
bare() { (cd / && "${user[@]}" env -i "$@"); }
bare "$root/bin/qkvet" explain >"$scratch/list"
grep -q weights_sum_to_one "$scratch/list" || fail "list shows no laws"
bare "$root/bin/qkvet" check --cases 200 | grep -E '^(PASSED|FAILED)'

# A plug-in with the compiler's own, shared C++ library, and exceptions and
# streams of it, beside the worker's.
"${CC:-cc}" -c -fPIC -O2 -I "$root/include" -Dqkvet_open=plain_open \
  cli/testdata/consumer/attention.c -o "$scratch/attention.o"
"${CXX:-c++}" -shared -fPIC -O2 -I "$root/include" "$scratch/attention.o" \
  cli/testdata/consumer/streams.cpp -o "$scratch/streams.so"
[ -n "$(foreign_of "$scratch/streams.so")" ] ||
  fail "the plug-in of the check brings no C++ library"
bare "$root/bin/qkvet" check --cases 200 "$scratch/streams.so" |
  grep -E '^(PASSED|FAILED)'

# A CUDA kernel, which needs the emulator beside the other headers.
"${CXX:-c++}" -std=c++17 -shared -fPIC -O2 -I "$root/include" \
  "$root/share/qkvet/examples/simt_kernel.cpp" -o "$scratch/simt.so"
bare "$root/bin/qkvet" check --cases 200 "$scratch/simt.so" |
  grep -E '^(PASSED|FAILED)'

# A root folder that contains only glibc.
system=$scratch/system
mkdir -p "$system/proc" "$system/opt" "$system/dev"
touch "$system/dev/null"
cp -r "$root" "$system/opt/qkvet"
ldd "${binaries[@]}" | grep -oE '/[^ ]+\.so[^ ]*' | grep -v "^$root" | sort -u |
  while read -r library; do
    mkdir -p "$system$(dirname "$library")"
    cp -L "$library" "$system$library"
  done
mounts="mount -t proc proc '$system/proc' &&
  mount --bind /dev/null '$system/dev/null'"
in_system="$mounts && exec env -i $(command -v chroot) '$system' /opt/qkvet/bin/qkvet check --cases 200"
if unshare -rmpf sh -c "$mounts" 2>/dev/null; then
  unshare -rmpf sh -c "$in_system" | grep -E '^(PASSED|FAILED)'
  where="tried in a root folder with glibc alone"
else
  where="not tried in a bare root folder: this machine does not allow one"
fi

echo "$build/$name.tar.gz: $(du -h "$build/$name.tar.gz" | cut -f1)," \
  "needs $glibc; $where"
