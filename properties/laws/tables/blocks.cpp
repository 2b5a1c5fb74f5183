// SPDX-License-Identifier: Apache-2.0
// Blocks of rows, each over the keys up to its own last row. Kernels take other
// paths for prefill and decode (tiles of queries, splits of keys, another
// mask), and both must be attention. These laws are about kernels without a
// cache; the keys are passed in again.
#include <algorithm>

#include "core/base/philox.h"
#include "properties/calls/row_block.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law_texts.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_blocks {

constexpr int64_t kAllBlocksUpTo = 6;

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

Case with_chunks(Case value) {
  value = with_masked_key(value);
  if (value.causal == Causal::kTopLeft)
    value.shape.Tq = std::min(value.shape.Tq, value.shape.Tk);
  return value;
}

// For up to six rows every possible block, so that all partitions into chunks
// are covered, not sampled; for more, the blocks of one partition that the seed
// picks.
void plan_chunks(const Case& value, const KernelInfo&, Plan& plan) {
  plan.calls.resize(1);
  const int64_t rows = value.shape.Tq;
  if (value.causal == Causal::kNone) {
    plan.not_applicable = "without a causal mask nothing is computed in chunks";
    return;
  }
  // With more rows than keys, counted from the top left, late rows see all
  // keys, and a block of them cannot be masked from the bottom right.
  if (value.causal == Causal::kTopLeft && rows > value.shape.Tk) {
    plan.not_applicable = "more rows than keys, counted from the top left";
    return;
  }
  // Rows before the first that sees a key follow the dialect.
  int64_t first = 0;
  while (first < rows && visible_keys(value, first) == 0) ++first;
  for (const RowBlock block : rows - first <= kAllBlocksUpTo
                                  ? all_blocks(first, rows)
                                  : one_partition(first, value))
    add_block(value, block, Causal::kBottomRight, plan);
}

// Rows that are decoded: first, last, and one between. For one query the future
// is absent: no mask is needed.
void plan_decode(const Case& value, const KernelInfo&, Plan& plan) {
  plan.calls.resize(1);
  const int64_t Tq = value.shape.Tq;
  if (value.causal == Causal::kNone)
    plan.not_applicable = "without a causal mask no row is decoded";
  if (Tq == 0 || visible_keys(value, Tq - 1) == 0)
    plan.not_applicable = "no row sees a key";
  if (!plan.not_applicable.empty()) return;
  int64_t last = -1;
  for (const int64_t row : {int64_t{0}, pick_by_seed(value.seed, Tq), Tq - 1}) {
    if (visible_keys(value, row) == 0 || row <= last) continue;
    last = row;
    add_block(value, {row, row + 1}, Causal::kNone, plan);
  }
}

constexpr const char* kRowsAlone =
    "The formula of a row names its query and its visible keys only.";

constexpr Law kRows[] = {
    {.id = "prefill_equals_decode",
     .sentence =
         "Prefill equals incremental decode: a row of one large call is what a "
         "call of that row alone gives over the keys that it sees.",
     .formula = "forward(Tq = T)[t] = forward(Tq = 1, Tk = visible(t))",
     .precondition = "causal; the row sees at least one key",
     .reason = kRowsAlone,
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 500,
     .domain = {.causal = true,
                .allows =
                    QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
     .constrain = with_masked_key,
     .relation = {.first = "in the whole call",
                  .second = "alone",
                  .more_plan = plan_decode,
                  .pair = rows_of_block}},
    {.id = "chunks_equal_whole",
     .sentence = "Chunked prefill equals prefill: rows computed in blocks, "
                 "each over the keys so far, are the rows of the whole call.",
     .formula =
         "forward(rows [a, b), keys < visible(b - 1)) = forward(all)[a .. b)",
     .precondition =
         "causal; counted from the top left, no more rows than keys",
     .reason = kRowsAlone,
     .rounding = kNeverBitwise,
     .kept_for =
         "(c) it reaches Tq < Tk with every offset, (d) it needs no oracle",
     .rank = 510,
     .domain = {.causal = true,
                .allows =
                    QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
     .constrain = with_chunks,
     .relation = {.first = "in the whole call",
                  .second = "alone",
                  .more_plan = plan_chunks,
                  .pair = rows_of_block}},
};

}  // namespace of_blocks

extern constinit const LawTable blocks_laws{of_blocks::kRows};

}  // namespace qkvet::properties
