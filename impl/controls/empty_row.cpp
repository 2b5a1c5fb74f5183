// SPDX-License-Identifier: Apache-2.0
// The output of the engine for a row without keys.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "impl/controls/engine.h"

namespace qkvet::impl {
namespace {

// One number for all columns, and one for lse.
void write_row(const Row& row, float o, float lse) {
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = o;
  }
  row.write_lse(lse);
}

// Writes a row for which the plain loop does not follow the dialect; false for
// all other rows.
bool write_odd_row(const Row& row, const Arithmetic& a) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float sink = row.terms.sink;
  if (a.sink_alone && sink > -kInfinity) {
    write_row(row, 0, a.sink_in_lse ? sink : -kInfinity);
  } else if (a.empty_by_way && row.masked) {
    write_row(row, nan, nan);
  } else if (a.empty_row == QKVET_EMPTY_ROW_UNSPECIFIED) {
    thread_local int turn = 0;
    const float other = ++turn % 2 != 0 ? nan : static_cast<float>(turn);
    write_row(row, other, other);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void Controlled::empty_row(const Row& row) {
  const auto& arithmetic = *static_cast<const Arithmetic*>(row.user);
  if (write_odd_row(row, arithmetic)) {
    return;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bool is_nan = arithmetic.empty_row == QKVET_EMPTY_ROW_NAN;
  std::fill_n(row.acc, row.value_width, is_nan ? nan : 0);
  // As a softmax over equal scores of -1e9; 0 if there are no keys.
  const bool mean = arithmetic.empty_row == QKVET_EMPTY_ROW_MEAN;
  for (int64_t n = 0; mean && n < row.keys; ++n) {
    const float* const v = row.v.row(n);
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] += v[c * row.v.step];
    }
  }
  const auto count = static_cast<float>(mean && row.keys > 0 ? row.keys : 1);
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = row.acc[c] / count;
  }
  row.write_lse(arithmetic.empty_row_lse == QKVET_EMPTY_LSE_NAN ? nan
                : arithmetic.empty_row_lse == QKVET_EMPTY_LSE_PLUS_INF
                    ? kInfinity
                    : -kInfinity);
}

}  // namespace qkvet::impl
