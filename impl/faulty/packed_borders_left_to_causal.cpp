// SPDX-License-Identifier: Apache-2.0
// faulty/packed_borders_left_to_causal: the causal rule alone holds packed
// members apart.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct PackedBordersLeftToCausal : OptionSeams {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_k;
    if (starts.data == nullptr || !whole.causal) {
      return;
    }
    const int64_t before = *starts.at(n, 0, 0);
    member->k.data = whole.k.data;
    member->v.data = whole.v.data;
    member->keys += before;
    member->diagonal += before;
  }
};

constexpr const char* kKilledBy[] = {
    "packed_members_equal_calls", "every_pair_is_seen_as_asked",
    "every_key_counts_once", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "with the causal rule, rows of a packed member see all keys in front "
        "of it",
    .symptom =
        "without the rule members are apart; with it each one knows all those "
        "before it",
    .cause =
        "the causal mask replaces the one of the borders, and both would be "
        "needed",
    .fix = "keys from cu_k[n] on, and the causal rule among them",
    .source = "AI-Hypercomputer/maxtext#4476",
    .trigger =
        "a packed batch, the causal rule, and a member that is not the first",
    .killed_by = kKilledBy,
    .when = "packed && causal && members(member > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_packed_borders_left_to_causal =
    option_fault<PackedBordersLeftToCausal, QKVET_OPTION_PACKED>(
        "faulty/packed_borders_left_to_causal", &kFault,
        {"impl/faulty/packed_borders_left_to_causal.cpp", __LINE__});

}  // namespace qkvet::impl
