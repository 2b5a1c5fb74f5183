// SPDX-License-Identifier: Apache-2.0
// controls/online16: online softmax over tiles of 16 keys, first to last.
// The smallest tile that an undeclared kernel may have.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 16;
using Online16 = Online<OnlineShape{.tile = kTile}>;

// Rescaling keeps the order of the sums: one lane, keys ascending.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_online16 =
    plain_kernel("controls/online16", "online softmax, tiles of 16 keys",
                 {"impl/controls/online16.cpp", __LINE__}, &kPrecision,
                 kRowForward<Online16>, &kAllCapabilities);

}  // namespace qkvet::impl
