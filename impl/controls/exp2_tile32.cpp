// SPDX-License-Identifier: Apache-2.0
// controls/exp2_tile32: online softmax over tiles of 32 keys whose exponentials
// are exp2((s - m) * log2(e)).
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 32;
using Exp2Tile32 = Online<OnlineShape{.tile = kTile}, libm_exp2>;

// What rescales is the same function of old - new, in proportion to it too.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  p.arg_roundings = kExp2ArgRoundings;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_exp2_tile32 = plain_kernel(
    "controls/exp2_tile32", "exp2 of (s - m) * log2(e), tiles of 32 keys",
    {"impl/controls/exp2_tile32.cpp", __LINE__}, &kPrecision,
    kRowForward<Exp2Tile32>, &kAllCapabilities);

}  // namespace qkvet::impl
