// SPDX-License-Identifier: Apache-2.0
// controls/f64_plain: f64 storage and double arithmetic, sequential sums. It
// is judged under the double-double oracle with u = 2^-53.
#include "impl/f64_rows.h"

namespace qkvet::impl {
namespace {

struct InDouble {
  static double add_value(double acc, double term) { return acc + term; }
};

}  // namespace

extern constinit const qkvet_kernel controls_f64_plain = f64_kernel<InDouble>(
    "controls/f64_plain", "f64 storage, sequential sums in double",
    {"impl/controls/f64_plain.cpp", __LINE__});

}  // namespace qkvet::impl
