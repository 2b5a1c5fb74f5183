// SPDX-License-Identifier: Apache-2.0
// faulty/packed_sees_next_member: one key of the next sequence.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct PackedSeesNextMember : OptionSeams {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data != nullptr && *starts.at(n + 1, 0, 0) < whole.keys) {
      ++member->keys;
    }
  }
};

constexpr const char* kKilledBy[] = {"packed_members_equal_calls",
                                     "every_pair_is_seen_as_asked",
                                     "every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "other_rows_change_nothing",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the end of a packed member is inclusive: it sees the first key of the "
        "next one",
    .symptom = "one sequence leaks into another",
    .cause = "a comparison with <= for one with <",
    .fix = "keys below cu_k[n + 1] only",
    .source = "textbook, cf. AI-Hypercomputer/maxtext#4476",
    .trigger = "a packed batch, and a member that is not the last",
    .killed_by = kKilledBy,
    .when = "packed && members(keys < Tk)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_packed_sees_next_member =
    option_fault<PackedSeesNextMember, QKVET_OPTION_PACKED>(
        "faulty/packed_sees_next_member", &kFault,
        {"impl/faulty/packed_sees_next_member.cpp", __LINE__});

}  // namespace qkvet::impl
