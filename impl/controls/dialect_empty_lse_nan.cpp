// SPDX-License-Identifier: Apache-2.0
// controls/dialect_empty_lse_nan: lse of a row that sees no key is NaN, as
// -infinity minus itself is.
#include <limits>

#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct EmptyLseNan : NaiveRow {
  static void empty_row(const Row& row) {
    fill_output(row, 0);
    row.write_lse(std::numeric_limits<float>::quiet_NaN());
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::empty_row_lse, QKVET_EMPTY_LSE_NAN);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_empty_lse_nan =
    dialect_kernel("controls/dialect_empty_lse_nan",
                   "lse of a row without keys is NaN",
                   {"impl/controls/dialect_empty_lse_nan.cpp", __LINE__},
                   &kDialect, kRowForward<EmptyLseNan>);

}  // namespace qkvet::impl
