// SPDX-License-Identifier: Apache-2.0
// faulty/diagonal_ignores_q_len: the diagonal ignores q_len.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DiagonalIgnoresQLen : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.top_left && whole.options.q_len.data != nullptr) {
      member->diagonal = member->keys - whole.queries;
    }
  }
};

constexpr const char* kKilledBy[] = {
    "lengths_equal_shorter_call", "every_key_counts_once", "rows_stay_in_hull",
    "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the diagonal counts from Tq, not from the rows that the member has",
    .symptom = "a causal row sees too few keys",
    .cause = "padding rows counted as queries",
    .fix = "count from q_len",
    .source = "textbook",
    .trigger = "q_len below Tq, and the causal rule from the bottom right",
    .killed_by = kKilledBy,
    .when = "bottom_right && q_len && members(queries < Tq)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_diagonal_ignores_q_len =
    option_fault<DiagonalIgnoresQLen, QKVET_OPTION_LENGTHS>(
        "faulty/diagonal_ignores_q_len", &kFault,
        {"impl/faulty/diagonal_ignores_q_len.cpp", __LINE__});

}  // namespace qkvet::impl
