// SPDX-License-Identifier: Apache-2.0
// faulty/maximum_carried_over: one maximum for the whole call.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MaximumCarriedOver : OptionSeams {
  static float first_max(float sink, float carried) {
    return std::fmax(sink, carried);
  }
};

constexpr const char* kKilledBy[] = {
    "other_rows_change_nothing", "other_heads_change_nothing",
    "other_members_change_nothing", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the running maximum is not reset: a row begins with that of all rows, "
        "heads and members before it",
    .symptom =
        "other last bits with other batch mates; NaN when an earlier row had "
        "scores larger by 104",
    .cause =
        "x - x.max() over the whole tensor, or a maximum set up outside of the "
        "loop over rows",
    .fix = "one maximum a row, beginning at -infinity",
    .source = "textbook",
    .trigger = "a row whose scores are all below those of an earlier row",
    .killed_by = kKilledBy,
    .when = "B * H * Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_maximum_carried_over =
    option_fault<MaximumCarriedOver>(
        "faulty/maximum_carried_over", &kFault,
        {"impl/faulty/maximum_carried_over.cpp", __LINE__});

}  // namespace qkvet::impl
