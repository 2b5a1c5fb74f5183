// SPDX-License-Identifier: Apache-2.0
// controls/alibi_by_position: ALiBi as the difference of two terms, one of the
// key and one of the row: slope * j - slope * position, or the other way round
// behind the diagonal. Both are exact in double, and so is what they round to
// f32 once: other arithmetic, and no error more.
#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

float by_position(const Row& row, float dot, int64_t n) {
  float s = row.capped(dot * row.scale);
  s = row.terms.bias != nullptr ? s + row.terms.bias[n] : s;
  if (row.terms.slope == 0) {
    return s;
  }
  const double slope = row.terms.slope;
  const double of_key = slope * static_cast<double>(row.key(n));
  const double of_row = slope * static_cast<double>(row.position);
  const bool behind = row.key(n) > row.position;
  return s + static_cast<float>(behind ? of_row - of_key : of_key - of_row);
}

using AlibiByPosition = TwoPass<dot_ascending, libm_exp,
                                /*kDescending=*/false, by_position>;

constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_alibi_by_position =
    plain_kernel("controls/alibi_by_position",
                 "ALiBi as a term of the key and one of the row",
                 {"impl/controls/alibi_by_position.cpp", __LINE__}, &kPrecision,
                 kRowForward<AlibiByPosition>, &kAllCapabilities);

}  // namespace qkvet::impl
