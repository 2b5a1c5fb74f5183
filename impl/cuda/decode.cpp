// SPDX-License-Identifier: Apache-2.0
// decode: few queries against many keys (decode_skeleton.h), in the same parts
// for all members. New tokens are stored first, by a separate kernel.
//
// Contract: f32, f16 and bf16, any strides, heads of up to 256; pages of a
// block table or of lists, packed batches over pages only. Cost: that of the
// skeleton, with at most 32 parts.
#include "impl/cuda/decode_forward.h"

namespace qkvet::impl {
namespace {

// Up to kDecodeMostParts tiles, a part is one tile; then it is several.
constexpr qkvet_capabilities kCapabilities = with_paths(
    device_capabilities(kDecodeOptions, {kF32, kF16, kBf16}, kDecodeMostWidth),
    {{QKVET_AXIS_TK, kDecodeKeys},
     {QKVET_AXIS_TK, kDecodeMostParts* kDecodeKeys},
     {QKVET_AXIS_TQ, kDecodeRows}});

}  // namespace

extern constinit const qkvet_kernel cuda_decode = decode_kernel<DecodeHooks>(
    QKVET_FAMILY "/decode", "CUDA: parts of the keys, merged; pages",
    {"impl/cuda/decode.cpp", __LINE__}, &kCapabilities);

}  // namespace qkvet::impl
