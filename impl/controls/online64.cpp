// SPDX-License-Identifier: Apache-2.0
// controls/online64: online softmax over tiles of 64 keys, first to last.
// The tile of most GPU kernels.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 64;
using Online64 = Online<OnlineShape{.tile = kTile}>;

// Rescaling keeps the order of the sums: one lane, keys ascending.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_online64 =
    plain_kernel("controls/online64", "online softmax, tiles of 64 keys",
                 {"impl/controls/online64.cpp", __LINE__}, &kPrecision,
                 kRowForward<Online64>, &kAllCapabilities);

}  // namespace qkvet::impl
