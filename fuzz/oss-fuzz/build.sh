#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds fuzzers of $SRC/qkvet into $OUT: OSS-Fuzz and ClusterFuzzLite call it with $CC,
# $CXX, their flags and $LIB_FUZZING_ENGINE, and so can anyone else.
set -euo pipefail

root=$SRC/qkvet
work=${WORK:-$SRC/work}

# Built here where the C++ library is not that of the distribution.
if [ -d "$SRC/rapidcheck" ]; then
  cmake -S "$SRC/rapidcheck" -B "$work/rapidcheck" -G Ninja \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX="$work/prefix"
  cmake --build "$work/rapidcheck" --target install
fi

# No type of build: optimisation is in the flags. The engine is the caller's,
# and so no other one is looked for.
cmake -S "$root" -B "$work/qkvet" -G Ninja -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DQKVET_BUILD_TESTS=OFF \
  -DQKVET_FUZZER=OFF -DQKVET_FUZZING_ENGINE="$LIB_FUZZING_ENGINE"
cmake --build "$work/qkvet" --target qkvet_fuzzers
mkdir -p "$OUT"
cp "$work"/qkvet/fuzz-bin/fuzz_* "$OUT"

# fuzz/corpus/TARGET.txt has an input a line, fuzz/corpus/TARGET one a file.
python3 - "$root/fuzz/corpus" "$OUT" << 'PYTHON'
import pathlib
import sys
import zipfile

corpus, out = (pathlib.Path(word) for word in sys.argv[1:])
for program in sorted(out.glob("fuzz_*")):
    if program.suffix:
        continue
    target = program.name.removeprefix("fuzz_")
    inputs = []
    for file in [corpus / (target + ".txt"), *(corpus / target).glob("**/*")]:
        if not file.is_file():
            continue
        data = file.read_bytes()
        if file.suffix == ".txt":
            inputs += [line for line in data.split(b"\n")
                       if line and not line.startswith(b"#")]
        else:
            inputs.append(data)
    if not inputs:
        continue
    with zipfile.ZipFile(out / (program.name + "_seed_corpus.zip"), "w") as seeds:
        for number, data in enumerate(inputs):
            seeds.writestr(f"{number:05}", data)
PYTHON
