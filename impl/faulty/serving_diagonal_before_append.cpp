// SPDX-License-Identifier: Apache-2.0
// faulty/serving_diagonal_before_append: the diagonal is counted from the
// length before appending.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct DiagonalBeforeAppend : ServingSeams {
  static void member(const ServingCall& s, int64_t, ForwardCall* member) {
    if (!member->top_left) {
      member->diagonal -= s.new_tokens;
    }
  }
};

constexpr const char* kKilledBy[] = {"append_equals_given",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the causal rule counts from kv_len without the new tokens",
    .symptom = "rows do not see the last keys, themselves included",
    .cause = "kv_len is updated after the mask was made",
    .fix = "count from kv_len + Tnew",
    .source = "textbook",
    .trigger = "new tokens and the causal rule from the bottom right",
    .killed_by = kKilledBy,
    .when = "new_tokens > 0 && bottom_right",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_diagonal_before_append =
    serving_fault<DiagonalBeforeAppend>(
        "faulty/serving_diagonal_before_append", &kFault,
        {"impl/faulty/serving_diagonal_before_append.cpp", __LINE__});

}  // namespace qkvet::impl
