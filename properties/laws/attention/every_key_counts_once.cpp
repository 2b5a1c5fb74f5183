// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/base/half.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_every_key_counts_once {

// Zeros and ones, so that all sums are exact: ones in column 0, and in column c
// at every key of a residue class. A single column holds the odd keys.
double value_at(const Shape& s, int64_t j, int64_t c) {
  if (s.dv == 1) return static_cast<double>(j % 2);
  return c == 0 || j % (s.dv - 1) == c - 1 ? 1 : 0;
}

void zeros_and_ones(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (double& x : inputs.q) x = std::isnan(x) ? x : 0;
  for (size_t n = 0; n < inputs.v.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    double& v = inputs.v[n];
    if (!std::isnan(v)) v = value_at(s, at / s.dv % s.Tk, at % s.dv);
  }
}

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  value.v = make_recipe(RecipeKind::kCount);
  value.set.clear();
  return value;
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  PlannedCall call;
  call.edit = zeros_and_ones;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

// The share of ones among the keys that each row sees.
std::vector<double> closed_formula(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const Visibility& visibility = *input.visibility;
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  double* at = out.data();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i, at += s.dv) {
        for (int64_t j = 0; j < s.Tk; ++j) {
          if (!visibility.sees(b, h, i, j)) continue;
          for (int64_t c = 0; c < s.dv; ++c) at[c] += value_at(s, j, c);
        }
        const auto keys = static_cast<double>(visibility.keys(b, h, i));
        for (int64_t c = 0; c < s.dv; ++c) at[c] /= keys;
      }
  return out;
}

// Whether each key of a row counts.
using Counts = std::vector<bool>;

// The sums over a row's keys. They are whole numbers: exact in any order.
class Tally {
 public:
  Tally(const Case& value, const Counts& counts)
      : shape_(value.shape),
        near_(64 * unit_roundoff(value.o_dtype)),
        sums_(static_cast<size_t>(shape_.dv)) {
    for (size_t j = 0; j < counts.size(); ++j)
      if (counts[j]) add(j, 1);
  }

  // This many times more.
  void add(size_t key, double times) {
    keys_ += times;
    for (size_t c = 0; c < sums_.size(); ++c)
      sums_[c] += times * value_at(shape_, static_cast<int64_t>(key),
                                   static_cast<int64_t>(c));
  }

  bool gives(const double* o) const {
    for (size_t c = 0; c < sums_.size(); ++c)
      if (!(std::fabs(o[c] * keys_ - sums_[c]) <= near_ * sums_[c]))
        return false;
    return keys_ > 0;
  }
  bool gives_with(size_t key, double times, const double* o) {
    add(key, times);
    const bool is_given = gives(o);
    add(key, -times);
    return is_given;
  }

 private:
  const Shape& shape_;
  double near_;
  double keys_ = 0;
  std::vector<double> sums_;
};

// The mistake in the number of keys that gives a row: one key that is lost or
// counts twice, hidden keys that count, or the last ones that are lost.
std::string row_looks(const Case& value, const Counts& right, const double* o) {
  const Counts all(right.size(), true);
  if (all != right && Tally(value, all).gives(o))
    return "hidden keys count as well";
  Tally first(value, right);
  for (size_t j = right.size(); j-- > 0;) {
    if (!right[j]) continue;
    first.add(j, -1);
    if (first.gives(o)) return "a key is lost";
  }
  Tally one(value, right);
  for (size_t j = 0; j < right.size(); ++j) {
    if (one.gives_with(j, 1, o))
      return right[j] ? "a key counts twice" : "a hidden key counts";
    if (right[j] && one.gives_with(j, -1, o)) return "a key is lost";
  }
  return "";
}

// The same mistake for all rows that are wrong; "" if no one mistake gives them
// all.
std::string looks_like(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, input.value.o_dtype);
  std::string out;
  for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row) {
    const int64_t b = row / s.Tq / s.H, h = row / s.Tq % s.H, i = row % s.Tq;
    if (input.visibility->keys(b, h, i) == 0) continue;
    Counts right;
    for (int64_t j = 0; j < s.Tk; ++j)
      right.push_back(input.visibility->sees(b, h, i, j));
    const double* at = o.data() + row * s.dv;
    if (Tally(input.value, right).gives(at)) continue;
    const std::string here = row_looks(input.value, right, at);
    if (here.empty() || (!out.empty() && here != out)) return "";
    out = here;
  }
  return out;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_known(input, input.calls[0], closed_formula(input), judgement);
  if (judgement.finding) judgement.finding->looks = looks_like(input);
  return judgement;
}

}  // namespace of_every_key_counts_once

extern constinit const Law every_key_counts_once{
    "every_key_counts_once",
    "Every key counts once: with equal scores an output is the share of "
    "ones among the keys that the row sees.",
    "o[i,c] = sum_j v[j,c] / n(i), q = 0, v in {0, 1}",
    "plain scores",
    "exp(0) = 1 for every key: numerator and denominator count.",
    "Whole numbers below 2^24 add up exactly in any order; only the "
    "division rounds.",
    "(b) one key among 131,072 shows, (d) it needs no oracle",
    50,
    Domain{.free_v = false,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_SOFTCAP |
                     kAllowMemory},
    of_every_key_counts_once::constrain,
    of_every_key_counts_once::plan,
    of_every_key_counts_once::judge};

}  // namespace qkvet::properties
