// SPDX-License-Identifier: Apache-2.0
// faulty/kv_len_inclusive: one key beyond the length.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KvLenInclusive : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.options.kv_len.data != nullptr && member->keys < whole.keys) {
      ++member->keys;
    }
  }
};

constexpr const char* kKilledBy[] = {"lengths_equal_shorter_call",
                                     "poison_beyond_lengths_changes_nothing",
                                     "every_key_counts_once",
                                     "weights_sum_to_one",
                                     "other_rows_change_nothing",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "kv_len is taken for the last key, not for the number of keys",
    .symptom = "rows see one key of padding, or of what was there before",
    .cause = "a comparison with <= for one with <",
    .fix = "keys below kv_len only",
    .source = "textbook",
    .trigger = "kv_len below Tk",
    .killed_by = kKilledBy,
    .when = "kv_len && members(keys < Tk)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_kv_len_inclusive =
    option_fault<KvLenInclusive, QKVET_OPTION_LENGTHS>(
        "faulty/kv_len_inclusive", &kFault,
        {"impl/faulty/kv_len_inclusive.cpp", __LINE__});

}  // namespace qkvet::impl
