// SPDX-License-Identifier: Apache-2.0
// Compares one call over all rows with calls of one row each, over only the
// keys that the row sees, as a model does when it reads a prompt, and when it
// generates. Kernels take other paths for the two (tiles of queries, splits of
// keys, another mask), and both must be attention. This file is about kernels
// without a cache; the keys are passed in again.
#include "properties/calls/row_block.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_prefill_equals_decode {

// Rows that are decoded and compared with the prefill: first, last, and one
// between.
std::vector<int64_t> decoded_rows(const Case& value) {
  const int64_t Tq = value.shape.Tq;
  std::vector<int64_t> rows;
  if (Tq == 0) return rows;
  for (const int64_t row : {int64_t{0}, pick_by_seed(value.seed, Tq), Tq - 1})
    if (visible_keys(value, row) > 0 && (rows.empty() || row > rows.back()))
      rows.push_back(row);
  return rows;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const std::vector<int64_t> rows = decoded_rows(value);
  if (rows.empty()) {
    plan.not_applicable = "no row sees a key";
    return plan;
  }
  if (value.causal == Causal::kNone) {
    plan.not_applicable = "without a causal mask no row is decoded";
    return plan;
  }
  PlannedCall whole;
  whole.want_lse = wants_lse(kernel);
  whole.needs_truth = true;
  plan.calls.push_back(whole);
  // For one query the future is absent: no mask is needed.
  for (const int64_t row : rows)
    plan.calls.push_back(
        block_call(value, kernel, {row, row + 1}, Causal::kNone));
  return plan;
}

}  // namespace of_prefill_equals_decode

extern constinit const Law prefill_equals_decode{
    "prefill_equals_decode",
    "Prefill equals incremental decode: a row of one large call is what a call "
    "of that row alone gives over the keys that it sees.",
    "forward(Tq = T)[t] = forward(Tq = 1, Tk = visible(t))",
    "causal; the row sees at least one key",
    "The formula of a row names its query and its visible keys only.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    500,
    Domain{.causal = true,
           .allows = QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
    with_masked_key,
    of_prefill_equals_decode::plan,
    judge_blocks};

}  // namespace qkvet::properties
