// SPDX-License-Identifier: Apache-2.0
// controls/dialect_empty_row_nan: a row that sees no key has NaN for o, as 0 /
// 0 has it.
#include <limits>

#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct EmptyRowNan : NaiveRow {
  static void empty_row(const Row& row) {
    fill_output(row, std::numeric_limits<float>::quiet_NaN());
    row.write_lse(-kInfinity);
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::empty_row, QKVET_EMPTY_ROW_NAN);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_empty_row_nan =
    dialect_kernel("controls/dialect_empty_row_nan",
                   "o of a row without keys is NaN",
                   {"impl/controls/dialect_empty_row_nan.cpp", __LINE__},
                   &kDialect, kRowForward<EmptyRowNan>);

}  // namespace qkvet::impl
