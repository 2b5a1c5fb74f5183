// SPDX-License-Identifier: Apache-2.0
// With q = 0 an output is the sum of the visible values over their number. Each
// value is a power of two of its own, so the sum shows every key that is in it:
// bits * dv keys a call, and as many calls as the keys need.
#include <algorithm>
#include <cmath>

#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_every_pair_is_seen_as_asked {

constexpr int64_t kMostCalls = 64;

// How many keys one column can distinguish. An output is off by some roundings
// of its own size, which is up to 2^bits / n, and n times that must stay below
// 1/2 to decide the last bit. f32: 2^16 times 127 roundings of 2^-24, more than
// any model has. Half formats: one rounding of P and one of the output,
//   2 * 2^7 * 2^-11 for f16 and 2 * 2^5 * 2^-8 for bf16.
// Whole numbers below 2^24 are exact in the accumulators.
int64_t bits_of(Dtype dtype) {
  return dtype == Dtype::kF16 ? 7 : dtype == Dtype::kBf16 ? 5 : 16;
}
int64_t bits_per_column(const Case& value) {
  return std::min(bits_of(value.kv_dtype), bits_of(value.o_dtype));
}
int64_t keys_per_call(const Case& value) {
  return bits_per_column(value) * value.shape.dv;
}

// The value of key j in column c of a call; 0 for keys of other calls.
double code_at(const Case& value, int64_t call, int64_t j, int64_t c) {
  const int64_t bits = bits_per_column(value);
  const int64_t at = j - call * keys_per_call(value);
  if (at < 0 || at / bits != c) return 0;
  return std::ldexp(1.0, static_cast<int>(at % bits));
}

void write_codes(const Case& value, int64_t call, Inputs& inputs) {
  const Shape& s = value.shape;
  for (double& x : inputs.q) x = std::isnan(x) ? x : 0;
  for (size_t n = 0; n < inputs.v.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    double& v = inputs.v[n];
    if (!std::isnan(v)) v = code_at(value, call, at / s.dv % s.Tk, at % s.dv);
  }
}

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  value.v = make_recipe(RecipeKind::kCount);
  value.set.clear();
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan;
  const int64_t each = keys_per_call(value);
  const int64_t calls = (value.shape.Tk + each - 1) / each;
  if (calls > kMostCalls) {
    plan.not_applicable = "more keys than 64 calls can name";
    return plan;
  }
  PlannedCall call;
  call.edit = write_codes;
  call.needs_truth = true;
  for (call.argument = 0; call.argument < calls; ++call.argument)
    plan.calls.push_back(call);
  return plan;
}

std::vector<double> closed_formula(const JudgeInput& input, int64_t call) {
  const Shape& s = input.value.shape;
  const Visibility& visibility = *input.visibility;
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  double* at = out.data();
  const int64_t from = call * keys_per_call(input.value);
  const int64_t end = std::min(s.Tk, from + keys_per_call(input.value));
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i, at += s.dv) {
        for (int64_t j = from; j < end; ++j) {
          const int64_t c = (j - from) / bits_per_column(input.value);
          if (visibility.sees(b, h, i, j))
            at[c] += code_at(input.value, call, j, c);
        }
        const auto keys = static_cast<double>(visibility.keys(b, h, i));
        for (int64_t c = 0; c < s.dv; ++c) at[c] /= keys;
      }
  return out;
}

// Which keys are in a row, if `keys` of them are: their codes must be whole
// numbers and name that many. `outputs` has one entry a call.
std::optional<std::vector<bool>> decode_with(
    const Case& value, const std::vector<std::vector<double>>& outputs,
    int64_t row, int64_t keys) {
  const Shape& s = value.shape;
  const int64_t bits = bits_per_column(value);
  std::vector<bool> seen(static_cast<size_t>(s.Tk));
  int64_t found = 0;
  for (int64_t j = 0; j < s.Tk; ++j) {
    const auto call = static_cast<size_t>(j / keys_per_call(value));
    const int64_t c = j % keys_per_call(value) / bits;
    const double code = outputs[call][static_cast<size_t>(row * s.dv + c)] *
                        static_cast<double>(keys);
    const double whole = std::nearbyint(code);
    // Half of the last bit for the largest code, less for smaller ones.
    const double error = std::ldexp(whole, static_cast<int>(-1 - bits));
    if (!(whole >= 0 && whole < std::ldexp(1.0, static_cast<int>(bits)) &&
          std::fabs(code - whole) <= error))
      return std::nullopt;
    const bool is_set = (static_cast<int64_t>(whole) >> j % bits & 1) != 0;
    seen[static_cast<size_t>(j)] = is_set;
    found += is_set;
  }
  if (found != keys) return std::nullopt;
  return seen;
}

// The first key at which the row differs from the request; "" if it is right.
std::string row_looks(const JudgeInput& input,
                      const std::vector<std::vector<double>>& outputs,
                      int64_t row) {
  const Shape& s = input.value.shape;
  const int64_t b = row / s.Tq / s.H, h = row / s.Tq % s.H, i = row % s.Tq;
  const std::string place = "row b=" + std::to_string(b) +
                            ",h=" + std::to_string(h) +
                            ",i=" + std::to_string(i) + ": ";
  const int64_t right = input.visibility->keys(b, h, i);
  for (int64_t n = 0; n <= s.Tk; ++n) {
    // The right number first, then all others in their order.
    const int64_t keys = n == 0 ? right : n;
    const auto seen = decode_with(input.value, outputs, row, keys);
    if (!seen) continue;
    for (int64_t j = 0; j < s.Tk; ++j) {
      const bool is_seen = (*seen)[static_cast<size_t>(j)];
      if (is_seen == input.visibility->sees(b, h, i, j)) continue;
      return place + "key " + std::to_string(j) +
             (is_seen ? " is seen and should not be" : " is missing");
    }
    return "";
  }
  return place + "no set of keys, each counted once, gives it";
}

std::string looks_like(const JudgeInput& input) {
  std::vector<std::vector<double>> outputs;
  for (const CallView& call : input.calls)
    outputs.push_back(as_doubles(call.outcome->o, input.value.o_dtype));
  const Shape& s = input.value.shape;
  bool has_empty_row = false;
  for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row) {
    if (input.visibility->keys(row / s.Tq / s.H, row / s.Tq % s.H,
                               row % s.Tq) == 0) {
      has_empty_row = true;
      continue;
    }
    std::string looks = row_looks(input, outputs, row);
    if (!looks.empty()) return looks;
  }
  // It may be a row without a key that is wrong.
  return has_empty_row ? "" : "the right keys are seen, but do not count alike";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t call = 0; call < input.calls.size(); ++call)
    compare_with_known(input, input.calls[call],
                       closed_formula(input, static_cast<int64_t>(call)),
                       judgement);
  if (judgement.finding) judgement.finding->looks = looks_like(input);
  return judgement;
}

}  // namespace of_every_pair_is_seen_as_asked

extern constinit const Law every_pair_is_seen_as_asked{
    "every_pair_is_seen_as_asked",
    "A row sees exactly the keys that causal rule, window, mask and "
    "lengths leave to it.",
    "n(i) o[i,c] = sum of 2^bit(j) over the visible j, q = 0",
    "plain scores; the keys can be named in 64 calls",
    "Equal scores make an output the sum of the visible values over their "
    "number, and a sum of different powers of two names its terms.",
    "Whole numbers below 2^24 add up exactly in any order; a column holds "
    "so few bits that the other roundings stay below half of the last one.",
    "(a) it decides every pair, (d) it needs no oracle",
    260,
    Domain{.free_v = false,
           .free_data = false,
           .allows =
               kAllowPairs | kAllowFields | QKVET_OPTION_SOFTCAP | kAllowMemory,
           .about = kAllowPairs},
    of_every_pair_is_seen_as_asked::constrain,
    of_every_pair_is_seen_as_asked::plan,
    of_every_pair_is_seen_as_asked::judge};

}  // namespace qkvet::properties
