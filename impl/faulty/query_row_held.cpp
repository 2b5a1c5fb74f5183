// SPDX-License-Identifier: Apache-2.0
// faulty/query_row_held: one query for two rows.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct QueryRowHeld : OptionSeams {
  static RowAt query(const ForwardCall&, RowAt at) {
    return {at.b, at.h, at.i - at.i % 2};
  }
};

constexpr const char* kKilledBy[] = {"other_rows_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "two rows at a time, both with the scores of the first one's query",
    .symptom = "every other row answers the question of its neighbour",
    .cause = "the query loaded once in front of a loop over two rows",
    .fix = "load the query inside of the loop over rows",
    .source = "textbook",
    .trigger = "Tq > 1 and two rows with different queries",
    .killed_by = kKilledBy,
    .when = "Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_query_row_held =
    option_fault<QueryRowHeld>("faulty/query_row_held", &kFault,
                               {"impl/faulty/query_row_held.cpp", __LINE__});

}  // namespace qkvet::impl
