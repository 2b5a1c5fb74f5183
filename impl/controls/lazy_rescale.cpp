// SPDX-License-Identifier: Apache-2.0
// controls/lazy_rescale: online softmax over tiles of 16 keys whose maximum may
// stay behind by up to a factor of 2^8 before anything is rescaled.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 16;
// Below 8 ln 2 = 5.5451...: the lag is computed with a rounding of its own.
constexpr float kLag = 5.5f;
constexpr double kDeclaredLag = 5.545177444479562;  // 8 ln 2
using LazyRescale = Online<OnlineShape{.tile = kTile, .lag = kLag}>;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  p.lazy = kDeclaredLag;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_lazy_rescale = plain_kernel(
    "controls/lazy_rescale", "online softmax, rescaled only when 2^8 behind",
    {"impl/controls/lazy_rescale.cpp", __LINE__}, &kPrecision,
    kRowForward<LazyRescale>, &kAllCapabilities);

}  // namespace qkvet::impl
