#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gets the kernels of others that the wrappers here include, into theirs/: clones
# of the repositories, and the functions cut out of them by their names.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p theirs
cd theirs

clone() { [ -d "$2" ] || git clone -q --depth 1 "https://github.com/$1" "$2"; }
# The function of FILE whose first line matches PATTERN, to its closing brace.
cut_out() { awk -v p="$2" '$0 ~ p {on = 1} on {print} on && /^}/ {exit}' "$1"; }

clone karpathy/llm.c llm.c
clone karpathy/llama2.c llama2.c
clone tspeterkim/flash-attention-minimal flash
clone ggml-org/ggml ggml
# A large repository: one folder of one release.
[ -d vllm ] || git clone -q --depth 1 --branch v0.6.6 --filter=blob:none \
  --sparse https://github.com/vllm-project/vllm vllm
git -C vllm sparse-checkout set csrc/cpu

for function in attention_forward attention_backward; do
  cut_out llm.c/train_gpt2.c "^void $function\("
done > llmc_cpu.inc
cut_out llm.c/dev/cuda/attention_forward.cu \
  '^__global__ void attention_forward_fused1\(' > llmc_fused.inc
cut_out llama2.c/run.c '^void softmax\(' > llama2_softmax.inc
awk '/multihead attention. iterate/ {on = 1} /final matmul to get/ {exit} on' \
  llama2.c/run.c > llama2_attention.inc
# The one word in which the emulator differs from nvcc.
cut_out flash/flash.cu '^__global__' |
  sed 's/extern __shared__ float sram\[\];/SIMT_DYNAMIC_SHARED(float, sram);/' \
    > flash_minimal.inc
wc -l ./*.inc

# A library, and the words that link it.
cmake -S ggml -B ggml/build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DGGML_OPENMP=OFF -DGGML_BUILD_TESTS=OFF \
  -DGGML_BUILD_EXAMPLES=OFF > ggml.log
cmake --build ggml/build -j "$(nproc)" >> ggml.log
echo "-I$PWD/ggml/include $PWD/ggml/build/src/libggml.a" \
  "$PWD/ggml/build/src/libggml-cpu.a $PWD/ggml/build/src/libggml-base.a" \
  -lpthread -ldl -lm > ggml.cflags
echo "-I$(dirname "$PWD")/torch_stub" -mavx2 -mfma -mf16c -fopenmp \
  > vllm.cflags
