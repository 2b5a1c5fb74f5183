// SPDX-License-Identifier: Apache-2.0
// controls/split2_lse: the keys in 2 parts, merged by their log-sum-exp.
// Rows of one key leave the second part empty.
#include "impl/controls/split.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kParts = 2;

constexpr qkvet_precision kPrecision = split_precision<kParts>();

}  // namespace

extern constinit const qkvet_kernel controls_split2_lse = plain_kernel(
    "controls/split2_lse", "keys in 2 parts, merged by log-sum-exp",
    {"impl/controls/split2_lse.cpp", __LINE__}, &kPrecision,
    kRowForward<SplitLse<kParts>>, &kAllCapabilities);

}  // namespace qkvet::impl
