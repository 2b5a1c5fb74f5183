// SPDX-License-Identifier: Apache-2.0
// flash: tiles with an online softmax on the cores of a GPU (flash_skeleton.h).
//
// Contract: f32, f16 and bf16, any strides, heads of up to 256. Cost: K and V
// are read once for 64 rows.
#include "impl/cuda/flash_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_capabilities kCapabilities = with_paths(
    device_capabilities(kDeviceOptions, {kF32, kF16, kBf16}, kFlashMostWidth),
    {{QKVET_AXIS_TQ, kFlashRows}, {QKVET_AXIS_TK, kFlashKeys}});

}  // namespace

extern constinit const qkvet_kernel cuda_flash = device_kernel(
    QKVET_FAMILY "/flash", "CUDA: tiles with an online softmax, on CUDA cores",
    {"impl/cuda/flash.cpp", __LINE__}, &kFlashPrecision,
    flash_forward<FlashHooks>, &kCapabilities,
    supports_device<kFlashMostWidth>);

}  // namespace qkvet::impl
