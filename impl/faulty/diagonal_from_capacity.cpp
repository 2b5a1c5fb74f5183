// SPDX-License-Identifier: Apache-2.0
// faulty/diagonal_from_capacity: the diagonal ignores kv_len.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DiagonalFromCapacity : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.kv_len.data != nullptr) {
      member->diagonal = whole.keys - member->queries;
    }
  }
};

constexpr const char* kKilledBy[] = {"lengths_equal_shorter_call",
                                     "weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the diagonal counts from Tk, not from the keys that the member has",
    .symptom = "a causal row sees later keys of its member",
    .cause = "the size of the cache taken for what is in it",
    .fix = "count from kv_len",
    .source = "textbook",
    .trigger = "kv_len below Tk, and the causal rule from the bottom right",
    .killed_by = kKilledBy,
    .when = "bottom_right && kv_len && members(keys < Tk)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_diagonal_from_capacity =
    option_fault<DiagonalFromCapacity, QKVET_OPTION_LENGTHS>(
        "faulty/diagonal_from_capacity", &kFault,
        {"impl/faulty/diagonal_from_capacity.cpp", __LINE__});

}  // namespace qkvet::impl
