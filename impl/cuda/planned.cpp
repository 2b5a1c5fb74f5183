// SPDX-License-Identifier: Apache-2.0
// planned: plans a batch once and runs it often (planned_skeleton.h), and has
// no other entry. It is for rows packed over pages, decoding next to prompts;
// it takes the calls that decode takes, except new tokens.
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
