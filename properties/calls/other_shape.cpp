// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/other_shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

// More than the rest of any tile that is not whole leaves room for in tiles of
// 8; what is larger by one vector or page is larger for most kernels.
constexpr int64_t kMoreTokens = 8;

int64_t common_multiple(const qkvet_capabilities& c) {
  return std::lcm(std::max<int64_t>(c.tq.multiple, 1),
                  std::max<int64_t>(c.tk.multiple, 1));
}

int64_t rounded_up(int64_t extent, int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

Case with_more_tokens(Case value, int64_t tokens) {
  value.shape.Tq += tokens;
  value.shape.Tk += tokens;
  for (int64_t& length : value.q_len) length += tokens;
  for (int64_t& length : value.kv_len) length += tokens;
  // The last member has them.
  if (!value.cu_q.empty()) value.cu_q.back() += tokens;
  if (!value.cu_k.empty()) value.cu_k.back() += tokens;
  return value;
}

// Positive: so many tokens more. Negative: no more than so many.
Case of_other_shape(Case value, int64_t tokens) {
  constexpr uint32_t kEverything = ~uint32_t{0};
  value.q = value.k = value.v = {};  // weights of all keys, none of them 0
  if (value.backward) value.d_o = {};
  value.seed = ~value.seed;
  value.set.clear();
  if (tokens > 0) return with_more_tokens(std::move(value), tokens);
  value.shape.Tq = std::min(value.shape.Tq, -tokens);
  value.shape.Tk = std::min(value.shape.Tk, -tokens);
  return keep_allowed(std::move(value), kEverything);
}

void inputs_of_other_shape(const Case& value, int64_t tokens, Inputs& inputs) {
  inputs = make_inputs(of_other_shape(value, tokens));
}

}  // namespace

std::vector<PlannedCall> calls_of_other_shapes(const Case& value,
                                               const KernelInfo& kernel,
                                               Operation operation) {
  std::vector<PlannedCall> calls;
  if (value.file != 0) return calls;
  const qkvet_capabilities& c = kernel.capabilities;
  const int64_t multiple = common_multiple(c);
  const int64_t least = std::max({c.tq.min, c.tk.min, int64_t{1}});
  const int64_t more = rounded_up(kMoreTokens, multiple);
  for (const int64_t tokens : {more, -rounded_up(least, multiple), 2 * more}) {
    PlannedCall call;
    call.operation = operation;
    call.only_between = true;
    call.variant = of_other_shape(value, tokens);
    call.edit = inputs_of_other_shape;
    call.argument = tokens;
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace qkvet::properties
