// SPDX-License-Identifier: Apache-2.0
// controls/dialect_lse_base2: lse in base 2. The change of base is in double,
// so that lse rounds once.
#include <cmath>

#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

constexpr double kLog2EInDouble = 1.4426950408889634;

struct LseBase2 : NaiveRow {
  static void row(const Row& row) {
    const Denominator all = output(row);
    const double lse =
        static_cast<double>(all.max) + std::log(static_cast<double>(all.sum));
    row.write_lse(static_cast<float>(lse * kLog2EInDouble));
  }
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::lse_base, QKVET_LSE_BASE2);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_lse_base2 =
    dialect_kernel("controls/dialect_lse_base2", "lse in base 2",
                   {"impl/controls/dialect_lse_base2.cpp", __LINE__}, &kDialect,
                   kRowForward<LseBase2>);

}  // namespace qkvet::impl
