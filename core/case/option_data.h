// SPDX-License-Identifier: Apache-2.0
// Inside of make_inputs(): what the options of attention add to the data, and
// what they do to q, k and v.
#ifndef QKVET_CORE_CASE_OPTION_DATA_H_
#define QKVET_CORE_CASE_OPTION_DATA_H_

#include <cstdint>
#include <span>

#include "core/case/case.h"

namespace qkvet {

// For laws, the structure of text masks (kDocsN, kRangesN): the tokens [from,
// end) around `token` of member b that are one document or range, of Tk tokens
// in all; and whether the range is seen both ways.
struct TokenRange {
  int64_t from = 0, end = 0;
  bool both_ways = false;
};
TokenRange range_of_token(const Case& value, int64_t b, int64_t token);
// For kTreeN: the parent of draft n of member b; -1: the history.
int64_t parent_of_draft(const Case& value, int64_t b, int64_t n);

// Fills the masks and lists that hide keys.
void fill_hidden_keys(const Case& value, Inputs& inputs);
// The same, and bias, sink and slopes in double.
void fill_option_data(const Case& value, Inputs& inputs);
// Mask and bias of a step on a cache, in double: the rows `queries` and the
// columns `keys` of one tensor [H, T, T] over the positions of a sequence,
// which all sequences of the story have.
void fill_step_options(const Case& story, std::span<const int64_t> queries,
                       std::span<const int64_t> keys, Inputs& inputs);
// After the set= values: k and v the same along the shared extents, and NaN in
// the rows that do not count.
void share_and_poison(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_OPTION_DATA_H_
