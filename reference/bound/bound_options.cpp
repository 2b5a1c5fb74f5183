// SPDX-License-Identifier: Apache-2.0
// The effect of softcap, biases, ALiBi and sinks on the error of a score
// (bounds.md, "Options").
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/power_of_two.h"
#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Roundings of s / cap in proportion to it: a reciprocal and a product; one
// more where the scale is not a stage of its own.
constexpr double kCapArgument = 2;
constexpr double kCapArgumentAnyhow = 3;
// Roundings where scores and biases are combined in no single known way: c q k
// in units of its own (log2 e in c), b or a slope's product likewise, and what
// they are added up to.
constexpr double kScoreAnyhow = 2;
constexpr double kBiasAnyhow = 3;
constexpr double kAlibiAnyhow = 5;
constexpr double kSumAnyhow = 2;
// Roundings of a sink in units other than those of the scores, and moved along
// where ALiBi moves all keys.
constexpr double kSinkAnyhow = 3;

double at(const double* x, int64_t a) { return x != nullptr ? x[a] : 0; }

double capped(double cap, double s) { return cap * std::tanh(s / cap); }

// Unit roundoff of what makes a score of c q k: each result on the way may be
// stored in half.
double stage_u(const PrecisionModel& model) {
  return model.u + model.score.u * (1 + model.u);
}

// The error of cap * tanh(s / cap), where s is off by e.
double capped_error(const RowView& row, const PrecisionModel& model, double s,
                    double e, double lambda) {
  const double u = stage_u(model);
  const double cap = row.softcap;
  const double roundings =
      combines_anyhow(model) ? kCapArgumentAnyhow : kCapArgument;
  const double argument =
      e + roundings * u * (std::fabs(s) + e) + lambda * (cap + 1);
  const double nearest = std::max(0.0, std::fabs(s) - argument);
  const double cosh = std::cosh(nearest / cap);
  const double moved = argument / (cosh * cosh);
  const double size = std::fabs(capped(cap, s)) + moved;
  return moved + (model.tanh_error + u) * size + cap * model.tanh_floor +
         lambda * (cap + 1);
}

// The error of s = before + b - alibi, where `before` is off by e.
double biased_error(const RowView& row, const PrecisionModel& model, int64_t a,
                    double before, double after, double e, double lambda) {
  const double u = stage_u(model);
  const double b = std::fabs(at(row.bias, a));
  const double alibi = std::fabs(at(row.alibi, a));
  const double s = std::fabs(after);
  if (combines_anyhow(model)) {
    const double reference = at(row.reference, a);
    e += kScoreAnyhow * u * (std::fabs(before) + e) + kBiasAnyhow * u * b +
         kAlibiAnyhow * u * reference + kSumAnyhow * u * s + kSumAnyhow * u * e;
    return e + lambda * (4 + 2 * std::max(1.0, row.scale));
  }
  if (b == 0 && alibi == 0) return e;
  e += u * alibi;
  if (b != 0 && alibi != 0) {
    // Each by itself: the sum of two lowest numbers of f64 is no number.
    e += std::max(u * b + u * alibi, u * s + u * std::max(b, alibi));
  }
  return e + u * s + u * e + 3 * lambda;
}

constexpr double kLargestF32 = std::numeric_limits<float>::max();

// Whether scores near the lowest f32 stay finite: they are kept unscaled in
// f32, and only their difference is multiplied. A number added to the lowest
// one is then so small that rounding removes it.
bool keeps_lowest(const RowView& row, const PrecisionModel& model) {
  const FloatRange f32;
  constexpr double kHalfUlp = 0x1p102;  // of the largest f32
  if (combines_anyhow(model) || model.ref_roundings != 0 ||
      model.merge == Merge::kLse || model.score.rounds() ||
      model.range.largest_safe != f32.largest_safe || row.softcap > 0 ||
      row.sink != nullptr || row.bias == nullptr)
    return false;
  for (int64_t a = 0; a < row.n; ++a)
    if (!(std::fabs(row.scaled[a]) + std::fabs(at(row.alibi, a)) +
              at(row.reference, a) <
          kHalfUlp))
      return false;
  return true;
}

}  // namespace

bool options_overflow(const RowView& row, const PrecisionModel& model) {
  const FloatRange& range = model.range;
  // Beyond, the cap or its reciprocal may be no normal number.
  const double largest_cap = power_of_two(range.cap_exponent);
  if (row.softcap > 0 &&
      !(row.softcap >= 1 / largest_cap && row.softcap <= largest_cap)) {
    return true;
  }
  const double safe = range.largest_safe;
  // A sink that its type cannot hold, and that is not far below all keys.
  const double largest_sink =
      std::min(model.sink.largest, model.softmax.largest);
  if (row.sink != nullptr && std::fabs(*row.sink) > largest_sink &&
      !(row.top - *row.sink > far_below(model))) {
    return true;
  }
  if (row.scaled == nullptr && row.sink == nullptr) return false;
  double largest = -safe * 2;
  for (int64_t a = 0; a < row.n; ++a) {
    largest = std::max(largest, row.score[a]);
    // Far below the maximum, -infinity is as good as any other score.
    if (!(row.score[a] <= safe)) return true;
    if (!(at(row.bias, a) <= safe)) return true;
    if (!(at(row.reference, a) <= safe)) return true;
    const bool into_cap = row.softcap > 0 && row.softcap_after_bias;
    if (into_cap && !(at(row.bias, a) >= -safe)) return true;
  }
  const double lowest = keeps_lowest(row, model) ? -kLargestF32 : -safe;
  return !(largest >= lowest && row.top <= safe);
}

double sink_gap(const RowView& row, const RowErrors& errors) {
  // exp overflows beyond it, which no kernel may let happen.
  return std::min(row.top - errors.keys_top, errors.largest_argument);
}

double option_error(const RowView& row, const PrecisionModel& model, int64_t a,
                    double e, double lambda) {
  const double s = row.score[a];
  if (model.score.rounds()) lambda += model.score.floor;
  double before = row.scaled != nullptr ? row.scaled[a] : s;
  if (row.softcap > 0 && !row.softcap_after_bias) {
    e = capped_error(row, model, before, e, lambda);
    before = capped(row.softcap, before);
  }
  if (row.added()) {
    const double sum = before + at(row.bias, a) - at(row.alibi, a);
    e = biased_error(row, model, a, before, sum, e, lambda);
    before = sum;
  }
  if (row.softcap > 0 && row.softcap_after_bias) {
    e = capped_error(row, model, before, e, lambda);
  }
  const bool other_units = row.sink != nullptr && !row.added();
  if (other_units && combines_anyhow(model)) {
    e += kScoreAnyhow * model.u * (std::fabs(s) + e);
  }
  return e * second_order(row.scaled != nullptr ? stage_u(model) : model.u);
}

double oracle_option_error(const RowView& row, int64_t a) {
  // tanh of the C library is good to two ulps; its argument and its product
  // round once each, and so do the bias, the product and both sums of ALiBi.
  // Each by itself, since with a bias of the lowest f64 the sum is no number.
  constexpr double kUnit = 8 * kOracleU;
  return kUnit * std::fabs(row.scaled[a]) + kUnit * std::fabs(row.score[a]) +
         kUnit * std::fabs(at(row.bias, a)) +
         kUnit * std::fabs(at(row.alibi, a));
}

double sink_rounding(const RowView& row, const PrecisionModel& model) {
  // Nearest numbers of either; one rounding after the other is within their
  // sum.
  const double off =
      model.sink.exactly(*row.sink) + model.softmax.exactly(*row.sink);
  // A score that becomes -infinity, which options_overflow() lets pass, is off
  // by 0.
  return std::isfinite(off) ? off : 0;
}

double sink_error(const RowView& row, const PrecisionModel& model) {
  const double rounded = sink_rounding(row, model);
  if (!combines_anyhow(model)) return rounded;
  return rounded +
         kSinkAnyhow * model.u * (std::fabs(*row.sink) + rounded + row.shift);
}

}  // namespace qkvet::reference
