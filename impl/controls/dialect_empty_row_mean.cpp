// SPDX-License-Identifier: Apache-2.0
// controls/dialect_empty_row_mean: a row that sees no key has the mean of all
// values of its member for o, as a softmax over equal scores of -1e9 has it; 0
// if there are none.
#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct EmptyRowMean : NaiveRow {
  static void empty_row(const Row& row) {
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      add_weighted(1, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    const auto count = static_cast<float>(row.keys == 0 ? 1 : row.keys);
    write_quotient(row, row.acc, count);
    row.write_lse(-kInfinity);
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::empty_row, QKVET_EMPTY_ROW_MEAN);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_empty_row_mean =
    dialect_kernel("controls/dialect_empty_row_mean",
                   "o of a row without keys is the mean of v",
                   {"impl/controls/dialect_empty_row_mean.cpp", __LINE__},
                   &kDialect, kRowForward<EmptyRowMean>);

}  // namespace qkvet::impl
