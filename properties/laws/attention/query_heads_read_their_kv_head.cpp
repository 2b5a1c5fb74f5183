// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_query_heads_read_their_kv_head {

// The one key of a head that has a score, and its value, which names the head.
int64_t hot_key(const Case& value, int64_t b, int64_t kv) {
  return (pick_by_seed(value.seed, 97) + b * value.shape.Hkv + kv) %
         value.shape.Tk;
}
double name_of(int64_t kv) { return static_cast<double>(1 + kv); }

void name_heads(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (size_t n = 0; n < inputs.q.size(); ++n)
    inputs.q[n] = static_cast<int64_t>(n) % s.d == 0 ? raw_score(value) : 0;
  std::fill(inputs.k.begin(), inputs.k.end(), 0.0);
  std::fill(inputs.v.begin(), inputs.v.end(), 0.0);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < s.Hkv; ++kv) {
      const int64_t row = (b * s.Hkv + kv) * s.Tk + hot_key(value, b, kv);
      inputs.k[static_cast<size_t>(row * s.d)] = 1;
      std::fill_n(inputs.v.begin() + row * s.dv, s.dv, name_of(kv));
    }
}

// More keys do not change which head is read, and the bound of a sum of many
// terms in a half type is wider than the difference between heads.
constexpr int64_t kMostKeys = 128;

Case constrain(Case value) {
  value.shape.Tk = std::min(value.shape.Tk, kMostKeys);
  value.causal = Causal::kNone;
  value.q = value.k = value.v = make_recipe(RecipeKind::kZero);
  value.set.clear();
  if (value.scale && *value.scale == 0) value.scale = 1.0f;
  return with_two_kv_heads(std::move(value));
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan;
  if (!has_raw_score(value))
    plan.not_applicable = "the given scale leaves no room for a raw score";
  PlannedCall call;
  call.edit = name_heads;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

std::vector<double> closed_formula(const Case& value) {
  const Shape& s = value.shape;
  const double others = std::exp(-scale_of(value) * raw_score(value));
  const double weight = 1 / (1 + static_cast<double>(s.Tk - 1) * others);
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  for (size_t n = 0; n < out.size(); ++n) {
    const int64_t h = static_cast<int64_t>(n) / s.dv / s.Tq % s.H;
    out[n] = weight * name_of(h / s.group());
  }
  return out;
}

// The head that an output belongs to, if it belongs to one.
std::string looks_like(const Case& value, double actual, double weight) {
  const double name = actual / weight;
  const double nearest = std::nearbyint(name);
  if (std::fabs(name - nearest) < 0x1p-6 && nearest >= 1 &&
      nearest <= static_cast<double>(value.shape.Hkv))
    return "the value of key/value head " +
           std::to_string(static_cast<int64_t>(nearest) - 1);
  return "keys and values of different heads";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const std::vector<double> known = closed_formula(input.value);
  compare_with_known(input, input.calls[0], known, judgement);
  if (!judgement.finding) return judgement;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, input.value.o_dtype);
  for (size_t n = 0; n < o.size(); ++n)
    if (std::fabs(o[n] - known[n]) > known[n] / 64) {
      judgement.finding->looks = looks_like(input.value, o[n], known[0]);
      break;
    }
  return judgement;
}

}  // namespace of_query_heads_read_their_kv_head

extern constinit const Law query_heads_read_their_kv_head{
    "query_heads_read_their_kv_head",
    "Query head h reads key/value head h / (H/Hkv), of its own member.",
    "o[b,h] = w (1 + kv), kv = h / (H/Hkv); w = e^(c g) / (e^(c g) + Tk "
    "- 1)",
    "two key/value heads, at most 128 keys; nothing depends on positions; "
    "plain scores",
    "Each head has one key with a score, at its own place, and the value of "
    "that key is the head's number; all else is 0.",
    "The dot product has one term and is exact; the bound of o covers "
    "the rest.",
    "(d) it needs no oracle: the right answer is a closed formula that "
    "names the head",
    70,
    Domain{.free_v = false,
           .free_data = false,
           .allows = kOptionLayout | kAllowServing},
    of_query_heads_read_their_kv_head::constrain,
    of_query_heads_read_their_kv_head::plan,
    of_query_heads_read_their_kv_head::judge};

}  // namespace qkvet::properties
