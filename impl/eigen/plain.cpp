// SPDX-License-Identifier: Apache-2.0
// eigen/plain: attention by Eigen's matrix products (attend.h). f32 tensors are
// read in place, half storage is converted first (in_f32.h). The gradient is
// that of gradient.h.
#include "impl/call/in_f32.h"
#include "impl/eigen/attend.h"
#include "impl/eigen/gradient.h"
#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {

namespace {

constexpr qkvet_capabilities kCapabilities = capabilities_with(
    kAllOptions | kDropoutOptions | QKVET_OPTION_VALUES_IN_KEYS,
    {kF32, kF16, kBf16});

}  // namespace

extern constinit const qkvet_kernel eigen_plain = with_backward(
    plain_kernel("eigen/plain",
                 "matrix products of Eigen, softmax on the visible prefix",
                 {"impl/eigen/plain.cpp", __LINE__}, &kEigenPrecision,
                 forward_in_f32<attend_with_eigen>, &kCapabilities),
    &kBackwardTable<PlainBackward, gradient_with_eigen>);

}  // namespace qkvet::impl
