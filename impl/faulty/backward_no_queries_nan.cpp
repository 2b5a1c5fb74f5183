// SPDX-License-Identifier: Apache-2.0
// faulty/backward_no_queries_nan: keys of a member without queries get what
// was in memory.
#include <limits>

#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct NoQueriesNan : PlainBackward {
  static float no_queries() { return std::numeric_limits<float>::quiet_NaN(); }
};

constexpr const char* kKilledBy[] = {"backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dk and dv of a member without queries are written from sums that "
        "nothing began",
    .symptom = "dk and dv are NaN and were to be 0",
    .cause =
        "the loop over queries clears the sums in its first step, and there is "
        "none",
    .fix = "clear the sums in front of the loop",
    .source = "Dao-AILab/flash-attention#2421",
    .trigger = "a member with keys and without queries",
    .killed_by = kKilledBy,
    .when = "members(queries == 0 && keys > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_no_queries_nan =
    backward_fault<NoQueriesNan, QKVET_OPTION_EMPTY_EXTENTS |
                                     QKVET_OPTION_LENGTHS |
                                     QKVET_OPTION_PACKED>(
        "faulty/backward_no_queries_nan", &kFault,
        {"impl/faulty/backward_no_queries_nan.cpp", __LINE__});

}  // namespace qkvet::impl
