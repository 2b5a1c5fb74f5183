// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/merge_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_merge_of_empty_states_is_empty {

// Every other row sees no key; the o of its states stays.
bool is_emptied(int64_t t) { return t % 2 == 0; }

void empty_rows(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    if (!is_emptied(t)) return;
    for (int64_t n = 0; n < s.Tk; ++n)
      inputs.bias[static_cast<size_t>(place_of_state(s, t, h, n))] = kEmptyLse;
  });
}

void add_wrong(const JudgeInput& input, TensorName tensor, int64_t n,
               const char* expected, double actual, Judgement& judgement) {
  Finding finding;
  finding.where = element_name(tensor, input.value.shape, n);
  finding.expected =
      std::string(expected) + ": all states of the row are empty";
  finding.actual = number_text(actual, tensor == TensorName::kO
                                           ? input.value.o_dtype
                                           : lse_dtype(input.value.o_dtype));
  finding.looks = std::isnan(actual)
                      ? "-inf - (-inf): the largest lse of the row is -inf"
                      : "a row that nothing is seen by has weight";
  finding.planned = 0;
  add_failure(judgement, std::move(finding));
}

// Compares with the declaration for rows that see no key, or with 0 and -inf
// without one.
Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallOutcome& outcome = *input.calls[0].outcome;
  const Shape& s = input.value.shape;
  const qkvet_dialect& dialect = input.kernel.dialect;
  const bool asks_o =
      dialect.empty_row == 0 || dialect.empty_row == QKVET_EMPTY_ROW_ZERO;
  const bool asks_lse = dialect.empty_row_lse == 0 ||
                        dialect.empty_row_lse == QKVET_EMPTY_LSE_MINUS_INF;
  const std::vector<double> o = as_doubles(outcome.o, input.value.o_dtype);
  const std::vector<double> lse =
      as_doubles(outcome.lse, lse_dtype(input.value.o_dtype));
  for_each_head(s, [&](int64_t t, int64_t h) {
    if (!is_emptied(t)) return;
    const int64_t row = t * s.H + h;
    for (int64_t n = row * s.dv; asks_o && n < (row + 1) * s.dv; ++n) {
      const double actual = o[static_cast<size_t>(n)];
      ++judgement.compared;
      if (actual != 0)
        add_wrong(input, TensorName::kO, n, "0", actual, judgement);
    }
    if (!asks_lse) return;
    const double actual = lse[static_cast<size_t>(row)];
    ++judgement.compared;
    if (actual != kEmptyLse)
      add_wrong(input, TensorName::kLse, row, "-inf", actual, judgement);
  });
  return judgement;
}

}  // namespace of_merge_of_empty_states_is_empty

extern constinit const Law merge_of_empty_states_is_empty{
    "merge_of_empty_states_is_empty",
    "A row of empty states stays empty: o is 0 and lse is -infinity.",
    "merge((x, -inf), (y, -inf)) = (0, -inf)",
    "none; a kernel that declares other rows without a key keeps to that",
    "Nothing was seen by any of the states, so nothing is by their merge.",
    "Zeros and infinities are exact.",
    "(c) agreement asks nothing of rows that see no key where a kernel "
    "declares nothing, (d) it needs no oracle",
    20,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    with_states<1>,
    plan_one_call<of_merge_of_empty_states_is_empty::empty_rows>,
    of_merge_of_empty_states_is_empty::judge};

}  // namespace qkvet::properties
