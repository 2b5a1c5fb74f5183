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
  const Shape& s = input.value.shape;
  const bool is_o = tensor == TensorName::kO;
  const Dtype dtype =
      is_o ? input.value.o_dtype : lse_dtype(input.value.o_dtype);
  const auto read = [&](const CallView& call) {
    return as_doubles(is_o ? call.outcome->o : call.outcome->lse, dtype);
  };
  const auto bounds = [&](const CallView& call) -> const std::vector<double>& {
    return is_o ? call.truth->bound->o : call.truth->bound->lse;
  };
  const auto reach = [&](const CallView& call, size_t n) {
    return is_o ? (*call.truth->reach)[n] : 0;
  };
  const CallView& all = input.calls[0];
  const std::vector<double> whole = read(all);
  if (whole.empty()) return;
  const int64_t width = is_o ? s.dv : 1;
  for (const CallView& call : input.calls.subspan(1)) {
    const RowBlock block = RowBlock::unpacked(call.planned->argument);
    const int64_t rows = block.to - block.from;
    const std::vector<double> part = read(call);
    for (size_t m = 0; m < part.size(); ++m) {
      const auto at = static_cast<int64_t>(m);
      const int64_t head = at / width / rows;
      const int64_t row = block.from + at / width % rows;
      if (visible_keys(input.value, row) == 0) continue;  // the dialect's
      const int64_t number = (head * s.Tq + row) * width + at % width;
      const auto n = static_cast<size_t>(number);
      auto finding = compare_two_ways({whole[n],
                                       part[m],
                                       bounds(all)[n] + bounds(call)[m],
                                       std::max(reach(all, n), reach(call, m)),
                                       dtype,
                                       "in the whole call",
                                       "alone",
                                       {tensor, number, -1}},
                                      judgement);
      if (!finding) continue;
      finding->where = element_name(tensor, s, number);
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
