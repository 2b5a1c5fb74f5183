// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "diagnosis/parametric.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

struct Measured {
  Problem problem;    // its width, and the scale of the call
  double actual = 0;  // the scale according to the weights
};

double width_of(const Measured& one) {
  return static_cast<double>(one.problem.shape.d);
}

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
  Measured out;
  Problem& p = out.problem;
  p.shape = value.shape;
  p.scale_given = value.scale.has_value();
  p.scale = scale_of(value);
  out.actual = std::log(o[0] / o[1]) / value.set[1].value;
  return out;
}

// The largest relative distance.
using Scale = std::function<double(const Problem&)>;
double distance(const std::vector<Measured>& all, const Scale& scale) {
  double worst = 0;
  for (const Measured& one : all)
    worst = std::max(worst, std::fabs(one.actual / scale(one.problem) - 1));
  return worst;
}

// The p of a scale 1/d^p, to four decimals: what is written in a source. The
// widest head determines it best.
double power_of_width(const std::vector<Measured>& all) {
  constexpr double kDecimals = 1e4;
  const auto widest = std::max_element(
      all.begin(), all.end(), [](const Measured& a, const Measured& b) {
        return width_of(a) < width_of(b);
      });
  const double power =
      -std::log(std::fabs(widest->actual)) / std::log(width_of(*widest));
  return std::nearbyint(power * kDecimals) / kDecimals;
}

// The precision to which the weights determine the scale.
double resolution(Dtype o) {
  constexpr double kUnits = 8;
  return kUnits * std::max(unit_roundoff(o), unit_roundoff(Dtype::kF32));
}

std::unique_ptr<Suspect> suspect_of(const std::vector<Measured>& all,
                                    const std::string& like, Scale scale) {
  const Measured& one = all.front();
  const bool given = one.problem.scale_given;
  return std::make_unique<ReadingSuspect>(
      Cause{"other_scale",
            fmt::format(
                "The scores are multiplied by {:.6g} instead of {} = {:.6g} "
                "(d = {:g}): this is {}.",
                one.actual, given ? "the caller's scale" : "1/sqrt(d)",
                one.problem.scale, width_of(one), like),
            "Multiply q k^T by the scale that the caller gives, or by "
            "1/sqrt(d_head) where none is given."},
      [given, scale = std::move(scale)](Problem& p, Room&) {
        if (p.scale_given != given) return;
        p.scale = scale(p);
        p.scale_given = true;
      });
}

}  // namespace

std::vector<std::unique_ptr<Suspect>> measured_scales(const Case& value,
                                                      Witness& witness) {
  std::vector<std::unique_ptr<Suspect>> suspects;
  const bool given = value.scale.has_value();
  std::vector<Measured> all;
  const int64_t own = value.shape.d;
  for (const int64_t d : {own, own + 8, int64_t{2}, int64_t{16}, int64_t{64}})
    if (const auto one = measure(two_keys(value, d, given), witness))
      all.push_back(*one);
  const double finest = resolution(value.o_dtype);
  const auto add = [&](const std::string& like, Scale scale) {
    if (distance(all, scale) <= finest)
      suspects.push_back(suspect_of(all, like, std::move(scale)));
  };
  const auto right = [](const Problem& p) { return p.scale; };
  if (all.empty() || distance(all, right) <= finest) return suspects;
  for (const OtherScale& other : other_scales()) add(other.text, other.of);
  if (!suspects.empty()) return suspects;
  const double factor = all[0].actual / all[0].problem.scale;
  add(fmt::format("{:.6g} times it", factor),
      [factor](const Problem& p) { return p.scale * factor; });
  const double power = power_of_width(all);
  if (suspects.empty() && !given)
    add(fmt::format("1/d^{:g}", power), [power](const Problem& p) {
      return std::pow(static_cast<double>(p.shape.d), -power);
    });
  return suspects;
}

}  // namespace qkvet::diagnosis
