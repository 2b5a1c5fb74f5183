// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/row_block.h"

#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// Keeps rows [from, from + count) of every head.
void keep_rows(std::vector<double>& values, int64_t heads, int64_t rows,
               int64_t width, int64_t from, int64_t count) {
  std::vector<double> kept;
  kept.reserve(static_cast<size_t>(heads * count * width));
  for (int64_t h = 0; h < heads; ++h) {
    const auto begin = values.begin() + (h * rows + from) * width;
    kept.insert(kept.end(), begin, begin + count * width);
  }
  values = std::move(kept);
}

void block_inputs(const Case& value, int64_t argument, Inputs& inputs) {
  const Shape& s = value.shape;
  const RowBlock block = RowBlock::unpacked(argument);
  const int64_t keys = visible_keys(value, block.to - 1);
  keep_rows(inputs.q, s.B * s.H, s.Tq, s.d, block.from, block.to - block.from);
  keep_rows(inputs.k, s.B * s.Hkv, s.Tk, s.d, 0, keys);
  keep_rows(inputs.v, s.B * s.Hkv, s.Tk, s.dv, 0, keys);
}

void compare_blocks(const JudgeInput& input, TensorName tensor,
                    Judgement& judgement) {
  const CallOutput whole = output_of(input, input.calls[0], tensor);
  if (whole.values.empty()) return;
  for (const CallView& call : input.calls.subspan(1)) {
    const RowBlock block = RowBlock::unpacked(call.planned->argument);
    const CallOutput part = output_of(input, call, tensor);
    for (size_t m = 0; m < part.values.size(); ++m) {
      Element at = part.grid.at(m);
      at.i += block.from;
      if (visible_keys(input.value, at.i) == 0) continue;  // the dialect's
      const size_t n = whole.grid.index(at);
      auto finding =
          compare_two_ways(whole, n, "in the whole call", part, m, "alone",
                           {tensor, static_cast<int64_t>(n), -1}, judgement);
      if (!finding) continue;
      finding->where = whole.grid.name(n);
      add_failure(judgement, std::move(*finding));
    }
  }
}

}  // namespace

PlannedCall block_call(const Case& value, const KernelInfo& kernel,
                       RowBlock block, Causal causal) {
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  call.edit = block_inputs;
  call.argument = block.packed();
  call.variant = value;
  call.variant->shape.Tq = block.to - block.from;
  call.variant->shape.Tk = visible_keys(value, block.to - 1);
  call.variant->causal = causal;
  return call;
}

Judgement judge_blocks(const JudgeInput& input) {
  Judgement judgement;
  compare_blocks(input, TensorName::kO, judgement);
  compare_blocks(input, TensorName::kLse, judgement);
  return judgement;
}

}  // namespace qkvet::properties
