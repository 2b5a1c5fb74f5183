// SPDX-License-Identifier: Apache-2.0
// Chunked prefill. The rows of a prompt are computed in blocks, each over the
// keys up to its own last row, masked from the bottom right. For up to six rows
// every possible block is computed, so that all partitions into chunks are
// covered, not sampled; for more, the blocks of one partition that the seed
// picks.
#include "core/base/philox.h"
#include "properties/calls/row_block.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_chunks_equal_whole {

constexpr int64_t kAllUpTo = 6;

std::vector<RowBlock> all_blocks(int64_t first, int64_t rows) {
  std::vector<RowBlock> blocks;
  for (int64_t from = first; from < rows; ++from)
    for (int64_t to = from + 1; to <= rows; ++to) blocks.push_back({from, to});
  return blocks;
}

std::vector<RowBlock> one_partition(int64_t first, const Case& value) {
  // Two chunks at least: one alone is the whole call again.
  const int64_t longest = std::min<int64_t>(16, value.shape.Tq / 2);
  std::vector<RowBlock> blocks;
  uint32_t n = 0;
  for (int64_t from = first; from < value.shape.Tq;) {
    const int64_t length =
        1 + pick_by_seed(philox_u64(value.seed, n++, 0, 0), longest);
    const int64_t to = std::min(value.shape.Tq, from + length);
    blocks.push_back({from, to});
    from = to;
  }
  return blocks;
}

// Rows before the first that sees a key follow the dialect.
int64_t first_row(const Case& value) {
  int64_t row = 0;
  while (row < value.shape.Tq && visible_keys(value, row) == 0) ++row;
  return row;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (value.causal == Causal::kNone) {
    plan.not_applicable = "without a causal mask nothing is computed in chunks";
    return plan;
  }
  // With more rows than keys, counted from the top left, late rows see all
  // keys, and a block of them cannot be masked from the bottom right.
  if (value.causal == Causal::kTopLeft && value.shape.Tq > value.shape.Tk) {
    plan.not_applicable = "more rows than keys, counted from the top left";
    return plan;
  }
  const int64_t first = first_row(value);
  PlannedCall whole;
  whole.want_lse = wants_lse(kernel);
  whole.needs_truth = true;
  plan.calls.push_back(whole);
  const bool all = value.shape.Tq - first <= kAllUpTo;
  for (const RowBlock block :
       all ? all_blocks(first, value.shape.Tq) : one_partition(first, value))
    plan.calls.push_back(
        block_call(value, kernel, block, Causal::kBottomRight));
  return plan;
}

Case constrain(Case value) {
  value = with_masked_key(value);
  if (value.causal == Causal::kTopLeft)
    value.shape.Tq = std::min(value.shape.Tq, value.shape.Tk);
  return value;
}

}  // namespace of_chunks_equal_whole

extern constinit const Law chunks_equal_whole{
    "chunks_equal_whole",
    "Chunked prefill equals prefill: rows computed in blocks, each over the "
    "keys so far, are the rows of the whole call.",
    "forward(rows [a, b), keys < visible(b - 1)) = forward(all)[a .. b)",
    "causal; counted from the top left, no more rows than keys",
    "The formula of a row names its query and its visible keys only.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it reaches Tq < Tk with every offset, (d) it needs no oracle",
    510,
    Domain{.causal = true,
           .allows = QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
    of_chunks_equal_whole::constrain,
    of_chunks_equal_whole::plan,
    judge_blocks};

}  // namespace qkvet::properties
