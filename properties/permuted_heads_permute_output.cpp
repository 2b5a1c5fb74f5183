// SPDX-License-Identifier: Apache-2.0
#include "properties/call_pairs.h"
#include "properties/fit.h"

namespace qkvet {
namespace {

// Key/value head `kv` goes here, and its query heads with it.
int64_t place_of(const Case& value, int64_t kv) {
  return (kv + 1) % value.shape.Hkv;
}

// Heads [B, heads, ...] of `size` elements each, `group` of them together.
void rotate_heads(const Case& value, int64_t group, int64_t size,
                  std::vector<double>& values) {
  const std::vector<double> from = values;
  const int64_t heads = value.shape.Hkv * group;
  for (size_t n = 0; n < from.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t head = at / size % heads;
    const int64_t to = place_of(value, head / group) * group + head % group;
    values[static_cast<size_t>(at + (to - head) * size)] = from[n];
  }
}

void permute_heads(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  rotate_heads(value, s.group(), s.Tq * s.d, inputs.q);
  rotate_heads(value, 1, s.Tk * s.d, inputs.k);
  rotate_heads(value, 1, s.Tk * s.dv, inputs.v);
}

Case fit(Case value) { return with_two_kv_heads(std::move(value)); }

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_pair(kernel, permute_heads);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "heads in order";
  pair.second_name = "heads permuted";
  pair.map = [&](const Element& at) {
    const int64_t group = input.value.shape.group();
    Element to = at;
    to.h = place_of(input.value, at.h / group) * group + at.h % group;
    return std::optional(to);
  };
  pair.looks = "where a head stands decides what it computes";
  compare_as_claimed(input, pair, QKVET_FLAG_HEAD_ORDER_INVARIANT, judgement);
  return judgement;
}

}  // namespace

extern constinit const Law permuted_heads_permute_output{
    "permuted_heads_permute_output",
    "Heads permuted together permute the output: no head is special.",
    "forward(P q, P k, P v) = P forward(q, k, v), P over heads",
    "two key/value heads; no sink, slopes or mask per head",
    "Every head is computed by the same formula from its own data.",
    "Bit for bit where the kernel declares head_order_invariant; else "
    "each side within its own bound.",
    "(d) it needs no oracle: a wrong map from query heads to key/value "
    "heads does not commute with permutations",
    Aim{.admits = kAdmitWindow | kAdmitLengths | kAdmitPacked | kAdmitSoftcap |
                  kAdmitLayout | kAdmitServed},
    fit,
    plan,
    judge};

}  // namespace qkvet
