// SPDX-License-Identifier: Apache-2.0
// controls/split7_lse: the keys in 7 parts, merged by their log-sum-exp.
// Most short rows leave parts empty.
#include "impl/controls/split.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kParts = 7;

constexpr qkvet_precision kPrecision = split_precision<kParts>();

}  // namespace

extern constinit const qkvet_kernel controls_split7_lse = plain_kernel(
    "controls/split7_lse", "keys in 7 parts, merged by log-sum-exp",
    {"impl/controls/split7_lse.cpp", __LINE__}, &kPrecision,
    kRowForward<SplitLse<kParts>>, &kAllCapabilities);

}  // namespace qkvet::impl
