// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/half.h"
#include "diagnosis/parametric.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

struct Measured {
  double d = 0;
  double right = 0;   // the scale of the call
  double actual = 0;  // the scale according to the weights
  bool given = false;
};

// Scores 2 and 0 if the scale is right, and the weights as the output.
Case two_keys(const Case& like, int64_t d, bool given) {
  Case value;
  value.q_dtype = like.q_dtype;
  value.kv_dtype = like.kv_dtype;
  value.o_dtype = like.o_dtype;
  value.layout = like.layout;
  value.shape.Tk = 2;
  value.shape.d = d;
  value.shape.dv = std::max<int64_t>(d, 2);
  constexpr float kScale = 0.25;
  if (given) value.scale = kScale;
  value.q = value.k = make_recipe(RecipeKind::kZero);
  value.v = make_recipe(RecipeKind::kOnehotN);
  const double key = given ? 2 / static_cast<double>(kScale)
                           : std::round(2 * std::sqrt(static_cast<double>(d)));
  value.set = {{TensorName::kQ, {}, 1}, {TensorName::kK, {}, key}};
  return value;
}

std::optional<Measured> measure(const Case& value, Witness& witness) {
  const auto evidence =
      witness.ask(agreement_about(Subject::kAttention), value);
  if (evidence == nullptr || evidence->outcomes[0].status != CallStatus::kDone)
    return std::nullopt;
  const auto o = as_doubles(evidence->outcomes[0].o, value.o_dtype);
  if (!(o[0] > 0 && o[1] > 0)) return std::nullopt;
  const auto d = static_cast<double>(value.shape.d);
  const double right =
      value.scale ? static_cast<double>(*value.scale) : 1 / std::sqrt(d);
  return Measured{d, right, std::log(o[0] / o[1]) / value.set[1].value,
                  value.scale.has_value()};
}

double padded(double d, double to) { return std::ceil(d / to) * to; }

// A formula that may have been mistaken for the scale.
struct Formula {
  const char* text;
  double (*scale)(double d, double right);
};
constexpr Formula kFormulas[] = {
    {"1", [](double, double) { return 1.0; }},
    {"the square of it", [](double, double right) { return right * right; }},
    {"1/d", [](double d, double) { return 1 / d; }},
    {"1/sqrt(2 d)", [](double d, double) { return 1 / std::sqrt(2 * d); }},
    {"sqrt(d)", [](double d, double) { return std::sqrt(d); }},
    {"the square root of it",
     [](double, double right) { return std::sqrt(right); }},
    {"it times log2(e)",
     [](double, double right) { return right * std::numbers::log2e; }},
    {"it times ln(2)",
     [](double, double right) { return right * std::numbers::ln2; }},
    {"it rounded to bf16",
     [](double, double right) {
       return bf16_to_double(bf16_from_double(right));
     }},
    {"it rounded to f16",
     [](double, double right) {
       return f16_to_double(f16_from_double(right));
     }},
    {"1/sqrt(d rounded up to 8)",
     [](double d, double) { return 1 / std::sqrt(padded(d, 8)); }},
    {"1/sqrt(d rounded up to 16)",
     [](double d, double) { return 1 / std::sqrt(padded(d, 16)); }},
    {"1/sqrt(d rounded up to 32)",
     [](double d, double) { return 1 / std::sqrt(padded(d, 32)); }},
    {"1/sqrt(d rounded up to 64)",
     [](double d, double) { return 1 / std::sqrt(padded(d, 64)); }}};

// The largest relative distance.
template <class F>
double distance(const std::vector<Measured>& all, const F& scale) {
  double worst = 0;
  for (const Measured& one : all)
    worst =
        std::max(worst, std::fabs(one.actual / scale(one.d, one.right) - 1));
  return worst;
}

// The p of a scale 1/d^p, to four decimals: what is written in a source. The
// widest head determines it best.
double power_of_width(const std::vector<Measured>& all) {
  constexpr double kDecimals = 1e4;
  const auto widest = std::max_element(
      all.begin(), all.end(),
      [](const Measured& a, const Measured& b) { return a.d < b.d; });
  const double power =
      -std::log(std::fabs(widest->actual)) / std::log(widest->d);
  return std::nearbyint(power * kDecimals) / kDecimals;
}

// The precision to which the weights determine the scale.
double resolution(Dtype o) {
  constexpr double kUnits = 8;
  return kUnits * std::max(unit_roundoff(o), unit_roundoff(Dtype::kF32));
}

std::unique_ptr<Suspect> suspect_of(
    const std::vector<Measured>& all, const std::string& like, bool given,
    std::function<double(double, double)> scale) {
  const Measured& one = all.front();
  return std::make_unique<ReadingSuspect>(
      Cause{"other_scale",
            fmt::format(
                "The scores are multiplied by {:.6g} instead of {} = {:.6g} "
                "(d = {:g}): this is {}.",
                one.actual, given ? "the caller's scale" : "1/sqrt(d)",
                one.right, one.d, like),
            "Multiply q k^T by the scale that the caller gives, or by "
            "1/sqrt(d_head) where none is given."},
      [given, scale = std::move(scale)](Problem& p, Room&) {
        if (p.scale_given != given) return;
        const auto d = static_cast<double>(p.shape.d);
        p.scale = scale(d, given ? p.scale : 1 / std::sqrt(d));
        p.scale_given = true;
      });
}

}  // namespace

std::unique_ptr<Suspect> measured_scale(const Case& value, Witness& witness) {
  const bool given = value.scale.has_value();
  std::vector<Measured> all;
  const int64_t own = value.shape.d;
  for (const int64_t d : {own, own + 8, int64_t{2}, int64_t{16}, int64_t{64}})
    if (const auto one = measure(two_keys(value, d, given), witness))
      all.push_back(*one);
  if (all.empty()) return nullptr;
  const double finest = resolution(value.o_dtype);
  const auto right = [](double, double scale) { return scale; };
  const double off = distance(all, right);
  if (off <= finest) return nullptr;
  const Formula* best = nullptr;
  for (const Formula& formula : kFormulas)
    if (distance(all, formula.scale) < finest &&
        (best == nullptr ||
         distance(all, formula.scale) < distance(all, best->scale)))
      best = &formula;
  if (best != nullptr) return suspect_of(all, best->text, given, best->scale);
  const double factor = all[0].actual / all[0].right;
  const auto times = [factor](double, double scale) { return scale * factor; };
  if (distance(all, times) <= finest)
    return suspect_of(all, fmt::format("{:.6g} times it", factor), given,
                      times);
  const double power = power_of_width(all);
  const auto of_width = [power](double d, double) {
    return std::pow(d, -power);
  };
  if (given || !(distance(all, of_width) <= finest)) return nullptr;
  return suspect_of(all, fmt::format("1/d^{:g}", power), given, of_width);
}

}  // namespace qkvet::diagnosis
