// SPDX-License-Identifier: Apache-2.0
#include "properties/row_block.h"

#include <cmath>

#include "core/half.h"
#include "properties/compare.h"
#include "properties/visibility.h"

namespace qkvet {
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

// Both values are near the same number, each within its own bound and its own
// rounding to storage.
void compare_pair(double whole, double part, double bounds,
                  const JudgeInput& input, TensorName tensor, int64_t n,
                  Dtype dtype, Judgement& judgement) {
  if (!(bounds < INFINITY)) {
    ++judgement.vacuous;
    return;
  }
  const double allowed =
      bounds + unit_roundoff(dtype) * (std::fabs(whole) + std::fabs(part)) +
      2 * underflow_error(dtype);
  const double error = std::fabs(whole - part);
  ++judgement.compared;
  if (whole == part || error <= allowed) {
    if (error > 0)
      judgement.worst_ratio = std::max(judgement.worst_ratio, error / allowed);
    return;
  }
  Finding finding;
  finding.where = element_name(tensor, input.value.shape, n);
  finding.expected = number_text(part, dtype) + " (alone)";
  finding.actual = number_text(whole, dtype) + " (in the whole call)";
  finding.allowed = "a difference of " + number_text(allowed, Dtype::kF32);
  finding.ratio = error > 0 ? error / allowed : INFINITY;
  add_failure(judgement, std::move(finding));
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
  const std::vector<double> whole = read(input.calls[0]);
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
      const int64_t n = (head * s.Tq + row) * width + at % width;
      compare_pair(
          whole[static_cast<size_t>(n)], part[m],
          bounds(input.calls[0])[static_cast<size_t>(n)] + bounds(call)[m],
          input, tensor, n, dtype, judgement);
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

}  // namespace qkvet
