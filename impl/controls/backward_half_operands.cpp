// SPDX-License-Identifier: Apache-2.0
// controls/backward_half_operands: p and dz are rounded to the storage type in
// front of their products, as tensor cores of half storage take them; the sums
// are f32.
#include "impl/backward_kernel.h"
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {
namespace {

struct HalfOperands : PlainBackward {
  static float operand(const ForwardCall& call, float value) {
    return round_to(call.storage, value);
  }
};

}  // namespace

// Forward alike: P is normalised, then rounded.
extern constinit const qkvet_kernel controls_backward_half_operands =
    with_backward(
        plain_kernel("controls/backward_half_operands",
                     "p and ds of a gradient rounded to bf16",
                     {"impl/controls/backward_half_operands.cpp", __LINE__},
                     &kNormalisedP<Storage::kBf16>, kRowForward<NormalisedP>,
                     kOneHalf<Storage::kBf16>),
        &kBackwardTable<HalfOperands>);

}  // namespace qkvet::impl
