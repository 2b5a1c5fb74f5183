// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/row_block.h"

#include <utility>

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

}  // namespace

void add_block(const Case& value, RowBlock block, Causal causal, Plan& plan) {
  PlannedCall call = plan.calls[0];
  call.edit = block_inputs;
  call.argument = block.packed();
  call.variant = value;
  call.variant->shape.Tq = block.to - block.from;
  call.variant->shape.Tk = visible_keys(value, block.to - 1);
  call.variant->causal = causal;
  plan.calls.push_back(std::move(call));
}

void rows_of_block(const JudgeInput& input, CallPair& pair) {
  const RowBlock block =
      RowBlock::unpacked(input.calls[pair.second].planned->argument);
  pair.map = [block](Element at) -> std::optional<Element> {
    if (at.i < block.from || at.i >= block.to) return std::nullopt;
    at.i -= block.from;
    return at;
  };
}

}  // namespace qkvet::properties
