// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_grouped_heads_equal_repeated_heads {

// [B,Hkv,...] becomes [B,H,...].
void repeat(const Case& value, int64_t size, std::vector<double>& heads) {
  std::vector<double> out;
  for (auto at = heads.begin(); at != heads.end(); at += size)
    for (int64_t g = 0; g < value.shape.group(); ++g)
      out.insert(out.end(), at, at + size);
  heads = std::move(out);
}

void repeat_heads(const Case& value, int64_t, Inputs& inputs) {
  repeat(value, value.shape.Tk * value.shape.d, inputs.k);
  repeat(value, value.shape.Tk * value.shape.dv, inputs.v);
}

Case constrain(Case value) {
  Shape& s = value.shape;
  if (s.group() < 2) {
    s.H = std::max<int64_t>(s.H, 2);
    s.Hkv = 1;
  }
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.shape.Hkv = value.shape.H;
  return plan_two_forms(kernel, variant, repeat_heads);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "grouped heads";
  pair.second_name = "repeated heads";
  pair.looks = "a query head reads another key/value head than h / group";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_grouped_heads_equal_repeated_heads

extern constinit const Law grouped_heads_equal_repeated_heads{
    "grouped_heads_equal_repeated_heads",
    "Grouped heads equal repeated heads: query head h reads key/value "
    "head h / (H/Hkv).",
    "forward(q, k, v) = forward(q, repeat(k, H/Hkv), repeat(v, H/Hkv))",
    "Hkv < H",
    "A group of query heads reads the same keys and values.",
    "Each side is within its own bound of the same number; never "
    "bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no "
    "oracle",
    250,
    Domain{.allows =
               kAllowPairs | kAllowScores | kOptionLayout | kAllowServing},
    of_grouped_heads_equal_repeated_heads::constrain,
    of_grouped_heads_equal_repeated_heads::plan,
    of_grouped_heads_equal_repeated_heads::judge};

}  // namespace qkvet::properties
