// SPDX-License-Identifier: Apache-2.0
// faulty/backward_empty_row_nan: a row that was set to 0 has a gradient of
// NaN.
#include <limits>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct EmptyRowNan : PlainBackward {
  static float empty_row() { return std::numeric_limits<float>::quiet_NaN(); }
};

constexpr const char* kKilledBy[] = {"backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the softmax of a row that sees no key is NaN and replaced by 0, its "
        "gradient is not",
    .symptom = "o is fine and dq of such rows is NaN",
    .cause =
        "NaN is repaired behind the softmax, and the gradient goes through it",
    .fix = "leave rows that see no key out of both passes",
    .source = "Xilinx/brevitas#1591",
    .trigger = "a row that sees no key",
    .killed_by = kKilledBy,
    .when = "rows(seen == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_empty_row_nan =
    backward_fault<EmptyRowNan>(
        "faulty/backward_empty_row_nan", &kFault,
        {"impl/faulty/backward_empty_row_nan.cpp", __LINE__});

}  // namespace qkvet::impl
