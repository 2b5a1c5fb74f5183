// SPDX-License-Identifier: Apache-2.0
// What lse shows of a kernel's logarithm and of its tanh.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "cli/identify/roundings.h"
#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

constexpr std::array<Dtype, 2> kShortTypes = {Dtype::kBf16, Dtype::kF16};

// The lse of the last row of each head, with all scores equal to x[head] before
// they are capped; empty if there is none.
struct EqualScores {
  std::vector<double> scores;  // as they were stored
  std::vector<double> lse;     // natural
  std::string said;
};
EqualScores ask_equal(Asker& asker, const std::vector<double>& x,
                      float softcap) {
  Case value = asker.base;
  Shape& s = value.shape;
  s.H = s.Hkv = std::ssize(x);
  value.softcap = softcap;
  value.q = value.k = {RecipeKind::kZero, 0};
  const double scale = scale_of(value);
  const Reply reply = asker.ask(
      value,
      [&](Inputs& inputs) {
        for (int64_t row = 0; row < s.H * s.Tq; ++row)
          inputs.q[static_cast<size_t>(row * s.d)] = 1;
        for (int64_t row = 0; row < s.H * s.Tk; ++row)
          inputs.k[static_cast<size_t>(row * s.d)] =
              x[static_cast<size_t>(row / s.Tk)] / scale;
      },
      /*want_lse=*/true);
  EqualScores found;
  found.said = reply.done() ? "no lse is returned" : reply.said;
  if (reply.lse.empty()) return found;
  const double unit =
      asker.dialect.lse_base == QKVET_LSE_BASE2 ? std::numbers::log2e : 1;
  for (int64_t h = 0; h < s.H; ++h) {
    found.scores.push_back(scale *
                           reply.inputs.k[static_cast<size_t>(h * s.Tk * s.d)]);
    found.lse.push_back(reply.lse[static_cast<size_t>(h * s.Tq + s.Tq - 1)] /
                        unit);
  }
  return found;
}

}  // namespace

LseFound ask_lse(Asker& asker) {
  LseFound found;
  constexpr int kHeads = 64;
  std::vector<double> x;
  for (int h = 0; h < kHeads; ++h) x.push_back(-3 + 0.1237 * h);
  const EqualScores asked = ask_equal(asker, x, /*softcap=*/0);
  if (asked.lse.empty()) {
    found.why = asked.said;
    return found;
  }
  const double unit =
      asker.dialect.lse_base == QKVET_LSE_BASE2 ? std::numbers::log2e : 1;
  const double keys = std::log(static_cast<double>(asker.base.shape.Tk));
  std::array<double, 2> off_half{};
  for (size_t h = 0; h < asked.lse.size(); ++h) {
    const double exact = asked.scores[h] + keys;
    const double size = std::max(1.0, std::fabs(exact));
    found.error = std::max(found.error, std::fabs(asked.lse[h] - exact) / size);
    for (size_t half = 0; half < kShortTypes.size(); ++half)
      off_half[half] =
          std::max(off_half[half],
                   std::fabs(asked.lse[h] -
                             stored(exact * unit, kShortTypes[half]) / unit));
  }
  found.why =
      fmt::format("lse of {} rows is off by {:.2g} of max(1, |lse|) at most",
                  kHeads, found.error);
  // Far above f32, far below half types.
  constexpr double kNoise = 0x1p-20;
  found.told = true;
  for (size_t half = 0; half < kShortTypes.size(); ++half)
    if (found.error > kNoise && off_half[half] < kNoise)
      found.to = kShortTypes[half];
  return found;
}

TanhFound ask_tanh(Asker& asker) {
  TanhFound found;
  constexpr int kHeads = 64;
  constexpr double kCap = 2;
  std::vector<double> x;
  for (int h = 0; h < kHeads; ++h) x.push_back(h == 0 ? 0 : 0.25 + 0.0973 * h);
  const EqualScores asked = ask_equal(asker, x, kCap);
  found.why = asked.said;
  if (asked.lse.empty()) return found;
  const double keys = std::log(static_cast<double>(asker.base.shape.Tk));
  found.floor = std::fabs(asked.lse[0] - keys) / kCap;
  for (size_t h = 1; h < asked.lse.size(); ++h) {
    const double capped = kCap * std::tanh(asked.scores[h] / kCap);
    found.error =
        std::max(found.error, std::fabs(asked.lse[h] - keys - capped) / capped);
  }
  found.told = true;
  found.why = fmt::format(
      "a cap of 2 on {} scores: what lse says of them is off by {:.2g} of "
      "itself at most, and at a score of 0 by {:.2g} of the cap",
      kHeads, found.error, found.floor);
  return found;
}

}  // namespace qkvet::cli
