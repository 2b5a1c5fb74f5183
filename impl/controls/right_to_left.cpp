// SPDX-License-Identifier: Apache-2.0
// controls/right_to_left: online softmax over tiles of 16 keys, from the last
// visible key to the first, so that causal rows begin at their diagonal.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 16;
using RightToLeft = Online<OnlineShape{.tile = kTile, .descending = true}>;

// Sequential, but descending, which no declaration of lanes says.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.tile = kTile;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_right_to_left = plain_kernel(
    "controls/right_to_left", "online softmax from the last key to the first",
    {"impl/controls/right_to_left.cpp", __LINE__}, &kPrecision,
    kRowForward<RightToLeft>, &kAllCapabilities);

}  // namespace qkvet::impl
