// SPDX-License-Identifier: Apache-2.0
// decode: few queries against many keys (decode_skeleton.h), in parts that are
// alike in all members. New tokens are stored first, by a kernel of their own.
//
// Contract: f32, f16 and bf16, any strides, heads of up to 256; pages of a
// block table or of lists, packed batches over pages alone. Cost: that of the
// skeleton, with at most 32 parts.
#include "impl/cuda/decode_forward.h"

namespace qkvet::impl {
namespace {

// Up to the most parts each is a tile of keys, and from there on more of them.
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
