// SPDX-License-Identifier: Apache-2.0
// faulty/bias_of_first_row: one row of the bias for all rows.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct BiasOfFirstRow : OptionSeams {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionSeams::allows(call, {at.b, at.h, 0}, j);
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionSeams::biased(call, {at.b, at.h, 0}, j, s);
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "all rows use row 0 of the bias",
    .symptom =
        "right for one query, and for a bias that is broadcast over rows",
    .cause = "the row taken for a chunk on its own, whose first is 0",
    .fix = "index the bias by the row of the call",
    .source = "huggingface/candle#899",
    .trigger = "Tq > 1, and a bias that differs from row to row",
    .killed_by = kKilledBy,
    .when = "bias.rows && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_bias_of_first_row =
    option_fault<BiasOfFirstRow, QKVET_OPTION_BIAS>(
        "faulty/bias_of_first_row", &kFault,
        {"impl/faulty/bias_of_first_row.cpp", __LINE__});

}  // namespace qkvet::impl
