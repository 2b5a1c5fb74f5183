// SPDX-License-Identifier: Apache-2.0
// controls/naive: the plainest correct order of everything: sequential sums,
// maximum first, divided at the end.
#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

using Naive = TwoPass<dot_ascending, libm_exp>;

// Exactly the plain declaration.
constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_naive = plain_kernel(
    "controls/naive", "sequential sums, maximum first, divided at the end",
    {"impl/controls/naive.cpp", __LINE__}, &kPrecision, kRowForward<Naive>,
    &kAllCapabilities);

}  // namespace qkvet::impl
