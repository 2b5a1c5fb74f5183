// SPDX-License-Identifier: Apache-2.0
#include "cli/identify/roundings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

// Heads of one call: each has a row of queries that are 1 in channel 0 and in
// channel 1, if there is one, and keys that set() fills.
class Heads {
 public:
  Heads(Asker& asker, int64_t heads, int64_t keys) : asker_(asker) {
    value_ = asker.base;
    Shape& s = value_.shape;
    s.H = s.Hkv = heads;
    s.Tk = keys;
    if (!asker.takes_cross_lengths || value_.causal != Causal::kNone)
      s.Tq = keys;
    value_.q = value_.k = value_.v = {RecipeKind::kZero, 0};
    k_.assign(static_cast<size_t>(heads * keys), {0, 0});
    v_.assign(static_cast<size_t>(heads * keys), 0);
  }

  double scale() const { return scale_of(value_); }
  int64_t keys() const { return value_.shape.Tk; }
  double q = 1;

  // Scores are scale * q * (a + b).
  void set(int64_t h, int64_t key, double a, double b, double v) {
    const auto at = static_cast<size_t>(h * keys() + key);
    k_[at] = {a, b};
    v_[at] = v;
  }

  // o of the last row of every head; empty if there is none.
  std::vector<double> ask() {
    const Shape s = value_.shape;
    const Reply reply = asker_.ask(value_, [&](Inputs& inputs) {
      for (int64_t row = 0; row < s.H * s.Tq; ++row)
        for (int64_t c = 0; c < std::min<int64_t>(s.d, 2); ++c)
          inputs.q[static_cast<size_t>(row * s.d + c)] = q;
      for (int64_t row = 0; row < s.H * s.Tk; ++row) {
        const auto at = static_cast<size_t>(row);
        inputs.k[at * static_cast<size_t>(s.d)] = k_[at].first;
        if (s.d > 1)
          inputs.k[at * static_cast<size_t>(s.d) + 1] = k_[at].second;
        for (int64_t c = 0; c < s.dv; ++c)
          inputs.v[at * static_cast<size_t>(s.dv) + static_cast<size_t>(c)] =
              v_[at];
      }
    });
    said = reply.said;
    if (!reply.done()) return {};
    std::vector<double> o;
    for (int64_t h = 0; h < s.H; ++h)
      o.push_back(reply.o[static_cast<size_t>((h * s.Tq + s.Tq - 1) * s.dv)]);
    return o;
  }

  std::string said;

 private:
  Asker& asker_;
  Case value_;
  std::vector<std::pair<double, double>> k_;
  std::vector<double> v_;
};

constexpr std::array<Dtype, 2> kHalf = {Dtype::kBf16, Dtype::kF16};

std::string name(Dtype dtype) { return std::string(dtype_name(dtype)); }

}  // namespace

// All keys are equal: o is v after rounding for the product. 1 + 2^-9 is no
// bf16, 1 + 2^-12 no f16, and neither type has 1 + 2^-12.
RoundingFound ask_operands(Asker& asker) {
  RoundingFound found;
  if (asker.base.q_dtype != Dtype::kF32 || asker.base.kv_dtype != Dtype::kF32 ||
      asker.base.o_dtype != Dtype::kF32) {
    found.why = "asked of f32 storage alone";
    return found;
  }
  constexpr double kFine = 1 + 0x1p-12, kCoarse = 1 + 0x1p-9;
  Heads of_v(asker, 2, asker.base.shape.Tk);
  for (int64_t j = 0; j < of_v.keys(); ++j) {
    of_v.set(0, j, 0, 0, kFine);
    of_v.set(1, j, 0, 0, kCoarse);
  }
  const std::vector<double> v = of_v.ask();
  // The weight of key 0: its score is 64 * 2^-12 above the others' in f32.
  constexpr double kUp = 4096;
  Heads of_k(asker, 2, asker.base.shape.Tk);
  of_k.q = kUp;
  for (int64_t j = 0; j < of_k.keys(); ++j)
    for (const int64_t h : {0, 1})
      of_k.set(h, j, j > 0 ? 1 : h == 0 ? kFine : 1 + 0x1p-9, 0, j > 0 ? 0 : 1);
  const std::vector<double> k = of_k.ask();
  if (v.empty() || k.empty()) {
    found.why = v.empty() ? of_v.said : of_k.said;
    return found;
  }
  const auto near = [](double x, double y) {
    return std::fabs(x - y) < 0x1p-16;
  };
  const double equal = 1 / static_cast<double>(of_k.keys());
  const auto is_kept = [&](size_t h) { return !near(k[h], equal); };
  found.why = fmt::format(
      "v of 1 + 2^-12 gives o = 1 + {:.4g}, of 1 + 2^-9 1 + "
      "{:.4g}; a key that is 2^-12 larger than others {}",
      v[0] - 1, v[1] - 1, is_kept(0) ? "weighs more" : "weighs the same");
  if (near(v[0], kFine) && is_kept(0)) {
    found.told = true;
  } else if (near(v[0], 1) && !is_kept(0)) {
    const bool fine = near(v[1], kCoarse) && is_kept(1);
    const bool coarse = near(v[1], 1) && !is_kept(1);
    found.told = fine || coarse;
    if (found.told) found.to = fine ? Dtype::kF16 : Dtype::kBf16;
  }
  return found;
}

// Two scores, A and A + delta before they are scaled, a quarter apart after it:
// if A has no place for delta, their weights are the same.
RoundingFound ask_scores(Asker& asker) {
  RoundingFound found;
  const Shape& base = asker.base.shape;
  if (base.d < 2) {
    found.why = "needs two channels";
    return found;
  }
  Heads heads(asker, 2, base.Tk);
  const double delta = std::ldexp(
      1, -2 - static_cast<int>(std::lround(std::log2(heads.scale()))));
  // In bf16 delta is a quarter of the last place of the first, in f16 of the
  // second.
  const std::array<double, 2> A = {delta * 512, delta * 4096};
  heads.q = 16;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t j = 0; j < heads.keys(); ++j)
      heads.set(h, j, A[static_cast<size_t>(h)] / 16, j == 0 ? delta / 16 : 0,
                j == 0 ? 1 : 0);
  const std::vector<double> o = heads.ask();
  if (o.empty()) {
    found.why = heads.said;
    return found;
  }
  const auto others = static_cast<double>(heads.keys() - 1);
  const double equal = 1 / (1 + others);
  const double apart = 1 / (1 + others * std::exp(-heads.scale() * delta));
  const auto near = [](double x, double y) {
    return std::fabs(x - y) < 0.01 * y;
  };
  found.why = fmt::format(
      "scores {:g} and {:g}, {:g} and {:g} before the scale: weight {:.4f} and "
      "{:.4f}; {:.4f} if they are the same, {:.4f} if not",
      A[0], A[0] + delta, A[1], A[1] + delta, o[0], o[1], equal, apart);
  const bool first = near(o[0], equal), second = near(o[1], equal);
  found.told = (first || near(o[0], apart)) && (second || near(o[1], apart));
  if (found.told && first) found.to = Dtype::kBf16;
  if (found.told && !first && second) found.to = Dtype::kF16;
  return found;
}

// Key 0 weighs 1 and has v = -c, key 1 weighs p and has v = 1, and c is p as it
// can be stored: the result is the rounding error of P.
RoundingFound ask_weights_rounding(Asker& asker,
                                   std::optional<Dtype> operands) {
  RoundingFound found;
  constexpr int64_t kHeads = 96;
  Heads heads(asker, kHeads, asker.base.shape.Tk);
  const Dtype kv = asker.base.kv_dtype;
  const Dtype of_v = operands.value_or(kv);
  const double scale = heads.scale();
  std::vector<double> p, c;
  for (int64_t h = 0; h < kHeads; ++h) {
    const double key =
        stored(-(0.3 + 0.029 * static_cast<double>(h)) / scale, of_v);
    p.push_back(std::exp(scale * key));
    c.push_back(stored(p.back(), of_v));
    heads.set(h, 0, 0, 0, -c.back());
    heads.set(h, 1, key, 0, 1);
    // All others have no weight in any type.
    for (int64_t j = 2; j < heads.keys(); ++j)
      heads.set(
          h, j,
          -std::ldexp(1, 8 - static_cast<int>(std::lround(std::log2(scale)))),
          0, 0);
  }
  const std::vector<double> o = heads.ask();
  if (o.empty()) {
    found.why = heads.said;
    return found;
  }
  struct Guess {
    std::optional<Dtype> to;
    bool normalised = false;
    double off = 0;
  };
  std::vector<Guess> guesses = {{std::nullopt, false, 0}};
  for (const Dtype half : kHalf)
    for (const bool normalised : {false, true})
      guesses.push_back({half, normalised, 0});
  double size = 0;
  for (size_t h = 0; h < o.size(); ++h) {
    const double sum = 1 + p[h];
    for (Guess& guess : guesses) {
      const auto rounded = [&](double x) {
        return guess.to ? stored(x, *guess.to) : x;
      };
      const double left = guess.normalised
                              ? rounded(p[h] / sum) - c[h] * rounded(1 / sum)
                              : (rounded(p[h]) - c[h]) / sum;
      guess.off += std::fabs(o[h] - left);
    }
    size += std::fabs(stored(p[h], Dtype::kBf16) - p[h]);
  }
  std::sort(guesses.begin(), guesses.end(),
            [](const Guess& a, const Guess& b) { return a.off < b.off; });
  const auto n = static_cast<double>(o.size());
  const auto words = [](const Guess& guess) {
    return !guess.to
               ? std::string("unrounded P")
               : std::string(guess.normalised ? "divided P in " : "P in ") +
                     name(*guess.to);
  };
  found.why = fmt::format(
      "what is left of {} weights lies {:.2g} from {}, "
      "{:.2g} from {}",
      o.size(), guesses[0].off / n, words(guesses[0]), guesses[1].off / n,
      words(guesses[1]));
  // Told apart, and explained: a rounding to bf16 is `size`.
  found.told =
      guesses[0].off < 0.2 * guesses[1].off && guesses[0].off < 0.05 * size;
  if (found.told) {
    found.to = guesses[0].to;
    found.normalised = guesses[0].normalised;
  }
  return found;
}

ExpFound ask_exp(Asker& asker) {
  ExpFound found;
  if (asker.base.o_dtype != Dtype::kF32 || asker.base.q_dtype != Dtype::kF32 ||
      asker.base.kv_dtype != Dtype::kF32) {
    found.why = "asked of f32 storage alone: others hide it";
    return found;
  }
  constexpr int64_t kHeads = 512, kNear = 416;
  Heads first(asker, kHeads, asker.base.shape.Tk);
  Heads second = first;
  const double scale = first.scale();
  if (std::frexp(scale, std::array<int, 1>().data()) != 0.5) {
    found.why = fmt::format(
        "the scale {:g} is no power of two, and rounds the "
        "scores",
        scale);
    return found;
  }
  std::vector<double> x;
  for (int64_t h = 0; h < kHeads; ++h) {
    // The last ones underflow: exp(-103.97) is half of the least f32.
    x.push_back(h < kNear ? static_cast<double>(h + 1) / 64
                          : 80 + static_cast<double>(h - kNear) / 4);
    for (Heads* heads : {&first, &second})
      for (int64_t j = 0; j < first.keys(); ++j) {
        const bool is_first = heads == &first;
        heads->set(h, j,
                   j == 0   ? 0
                   : j == 1 ? -x.back() / scale
                            : -256 / scale,
                   0, (j == 0 && is_first) || (j == 1 && !is_first) ? 1 : 0);
      }
  }
  const std::vector<double> whole = first.ask(), part = second.ask();
  if (whole.empty() || part.empty()) {
    found.why = first.said;
    return found;
  }
  for (size_t h = kNear; h < x.size(); ++h)
    if (part[h] == 0) found.floor = std::max(found.floor, std::exp(-x[h]));
  for (size_t h = 0; h < kNear; ++h) {
    const double off =
        std::fabs(part[h] / whole[h] / std::exp(-x[h]) - 1) * 0x1p24;
    if (!(off <= found.units)) {
      found.units = off;
      found.at = x[h];
    }
  }
  found.told = std::isfinite(found.units);
  found.why = fmt::format(
      "ratios of {} pairs of weights are off by {:.1f} * "
      "2^-24 at most, at exp(-{:g}); two divisions included",
      kHeads, found.units, found.at);
  return found;
}

// v is near the largest number at all keys before m, and 0 from m on; the score
// of m is 100, the others are 0. If the maximum is known before the first of
// them is weighed, they weigh nothing; otherwise two of them exceed the largest
// number. From the end: the same mirrored.
TileFound ask_tile(Asker& asker, int64_t keys) {
  TileFound found;
  found.tile = 0;
  for (const bool from_the_end : {false, true}) {
    Heads heads(asker, keys, keys);
    const double scale = heads.scale();
    for (int64_t h = 2; h < keys; ++h)
      for (int64_t n = 0; n < keys; ++n)
        heads.set(h, from_the_end ? keys - 1 - n : n, n == h ? 100 / scale : 0,
                  0, n < h ? 3e38 : 0);
    const std::vector<double> o = heads.ask();
    if (o.empty()) {
      found.why = heads.said;
      return found;
    }
    int64_t least = keys;
    bool together = true;
    for (int64_t m = 2; m < keys; ++m) {
      const bool finite = std::isfinite(o[static_cast<size_t>(m)]);
      if (!finite) least = std::min(least, m);
      if (finite && least < keys) together = false;
    }
    if (least == keys) continue;
    found.told = together;
    found.tile = least;
    found.from_the_end = from_the_end;
    found.why = fmt::format(
        "{}v near the largest number at all keys {} m, of which m alone has a "
        "score of 100: o overflows from m = {} on{}",
        together ? "" : "not in one place: ",
        from_the_end ? "behind" : "in front of",
        from_the_end ? keys - 1 - least : least,
        least == 2 ? ": a tile of two keys, or of one" : "");
    return found;
  }
  found.told = true;
  found.why = fmt::format(
      "v near the largest number at all keys in front of m, of which m alone "
      "has a score of 100: o is finite for each m of {} keys",
      keys);
  return found;
}

}  // namespace qkvet::cli
