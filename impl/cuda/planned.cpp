// SPDX-License-Identifier: Apache-2.0
// planned: plans a batch once and runs it often (planned_skeleton.h), and has
// no other way in. Rows packed over pages, steps of decoding beside prompts,
// are what it is for; what decode takes, it takes, but for new tokens.
#include "impl/cuda/planned_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = device_capabilities(
      kDevicePlanOptions, {kF32, kF16, kBf16}, kDecodeMostWidth);
  c.flags |= QKVET_FLAG_ALLOCATES;
  return with_paths(
      c, {{QKVET_AXIS_TK, kDecodeKeys}, {QKVET_AXIS_TQ, kDecodeRows}});
}();

}  // namespace

extern constinit const qkvet_kernel cuda_planned =
    device_planned_kernel<DevicePlanHooks>(
        QKVET_FAMILY "/planned", "CUDA: plans a batch, runs it often",
        {"impl/cuda/planned.cpp", __LINE__}, &kCapabilities);

}  // namespace qkvet::impl
