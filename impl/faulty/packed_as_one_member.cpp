// SPDX-License-Identifier: Apache-2.0
// faulty/packed_as_one_member: keys of a packed batch belong to everybody.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct PackedAsOneMember : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.cu_k.data != nullptr && !whole.causal) {
      member->k = whole.k;
      member->v = whole.v;
      member->keys = whole.keys;
    }
  }
};

constexpr const char* kKilledBy[] = {
    "packed_members_equal_calls", "other_rows_change_nothing",
    "lse_counts_equal_keys", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "cu_seqlens_k is not read: every member sees the keys of all",
    .symptom =
        "one sequence a batch is right; with several each answers from the "
        "others",
    .cause = "lengths are handed on to the causal path only",
    .fix = "keys cu_k[n] .. cu_k[n + 1] for member n, on every path",
    .source = "textbook (packed batches)",
    .trigger = "a packed batch of two members or more, without the causal rule",
    .killed_by = kKilledBy,
    .when = "packed && !causal && members(keys < Tk)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_packed_as_one_member =
    option_fault<PackedAsOneMember, QKVET_OPTION_PACKED>(
        "faulty/packed_as_one_member", &kFault,
        {"impl/faulty/packed_as_one_member.cpp", __LINE__});

}  // namespace qkvet::impl
