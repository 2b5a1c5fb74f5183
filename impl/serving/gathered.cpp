// SPDX-License-Identifier: Apache-2.0
// serving/gathered: copies the pages of a member to rows one behind the other
// and attends over those, with every option: what systems do whose attention
// knows no pages. Online softmax over tiles of 64 keys.
//
// Contract: that of serving_frame.h.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"
#include "impl/serving/kernel.h"
#include "impl/serving_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 64;
using Online64 = Online<OnlineShape{.tile = kTile}>;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

// What is computed is a copy, the same wherever the pages were.
constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c =
      capabilities_with((kAllOptions & ~QKVET_OPTION_PACKED) | kServingOptions,
                        {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT;
  return c;
}();

}  // namespace

extern constinit const qkvet_kernel serving_gathered = family_serving(
    QKVET_FAMILY "/gathered", "pages gathered to rows, then every option",
    {"impl/serving/gathered.cpp", __LINE__}, &kPrecision,
    ServingKernel<ServingSeams, compute_rows<Online64>>::forward,
    &kCapabilities);

}  // namespace qkvet::impl
