// SPDX-License-Identifier: Apache-2.0
// controls/dialect_empty_lse_plus_inf: lse of a row that sees no key is
// +infinity, as FlashAttention 2 has it.
#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct EmptyLsePlusInf : NaiveRow {
  static void empty_row(const Row& row) {
    fill_output(row, 0);
    row.write_lse(kInfinity);
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::empty_row_lse, QKVET_EMPTY_LSE_PLUS_INF);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_empty_lse_plus_inf =
    dialect_kernel("controls/dialect_empty_lse_plus_inf",
                   "lse of a row without keys is +infinity",
                   {"impl/controls/dialect_empty_lse_plus_inf.cpp", __LINE__},
                   &kDialect, kRowForward<EmptyLsePlusInf>);

}  // namespace qkvet::impl
