// SPDX-License-Identifier: Apache-2.0
// controls/online3: online softmax over tiles of 3 keys, first to last.
// Three divides nothing else: every other size meets a ragged last
// tile, and short rows already rescale.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 3;
using Online3 = Online<OnlineShape{.tile = kTile}>;

// Rescaling keeps the order of the sums: one lane, keys ascending.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_online3 =
    plain_kernel("controls/online3", "online softmax, tiles of 3 keys",
                 {"impl/controls/online3.cpp", __LINE__}, &kPrecision,
                 kRowForward<Online3>, &kAllCapabilities);

}  // namespace qkvet::impl
