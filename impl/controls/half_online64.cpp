// SPDX-License-Identifier: Apache-2.0
// controls/half_online64: half storage and no other rounding to it than that of
// the output: tiles of 64 keys, P in f32.
#include "impl/controls/online.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 64;
using HalfOnline64 = Online<OnlineShape{.tile = kTile}>;

// Inputs become f32 without an error, and P stays there.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_half_online64 = plain_kernel(
    "controls/half_online64", "half storage, P in f32, tiles of 64 keys",
    {"impl/controls/half_online64.cpp", __LINE__}, &kPrecision,
    kRowForward<HalfOnline64>, &kAllHalfCapabilities);

}  // namespace qkvet::impl
