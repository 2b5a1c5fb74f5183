// SPDX-License-Identifier: Apache-2.0
// faulty/causal_group_takes_last_row: two rows share the diagonal of the
// second one.
#include <algorithm>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct CausalGroupTakesLastRow : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t last =
        std::min(i - i % half_tile() + half_tile(), call.queries) - 1;
    return j < call.visible(call.causal ? last : i);
  }
};

constexpr const char* kKilledBy[] = {
    "future_changes_nothing",      "future_weights_are_zero",
    "every_pair_is_seen_as_asked", "prefill_equals_decode",
    "agrees_with_oracle",          nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "two rows share the diagonal of the second one",
    .symptom = "every other row sees one key of the future",
    .cause =
        "what is asked of one row of a group is taken for the answer of all",
    .fix =
        "ask for each row, or for the first row whether a mask is needed at "
        "all",
    .source = "pytorch/pytorch#195910",
    .trigger =
        "causal, and a row before the last of its pair that has a key ahead of "
        "it",
    .killed_by = kKilledBy,
    .when = "causal && rows(row % 2 == 0 && row + 1 < queries && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_causal_group_takes_last_row =
    option_fault<CausalGroupTakesLastRow>(
        "faulty/causal_group_takes_last_row", &kFault,
        {"impl/faulty/causal_group_takes_last_row.cpp", __LINE__});

}  // namespace qkvet::impl
