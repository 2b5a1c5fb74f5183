// SPDX-License-Identifier: Apache-2.0
#include "fuzz/hunt/guide.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/conventions/domain.h"
#include "properties/judging/visibility.h"

namespace qkvet::fuzz {
namespace {

// The counters, block by block.
constexpr size_t kLaws = 96;
constexpr size_t kKernels = 2;  // further ones share with the second
constexpr size_t kRatioSteps = 48;
constexpr size_t kScoreSteps = 64;
constexpr size_t kChainSteps = 64;
constexpr size_t kMagnitudeSteps = 64;
constexpr size_t kMagnitudes = 3;  // q or x, k or w_q, v or w_o
// The causal rule has the number after a case's options.
constexpr size_t kCausal = kCaseOptions.size();
constexpr size_t kOptionCount = kCausal + 1;
constexpr size_t kExtentSteps = 12;
constexpr size_t kExtents = 7;
constexpr size_t kVerbs = 8;

constexpr size_t kExecuted = 0;
constexpr size_t kRatio = kExecuted + 1;
constexpr size_t kScore = kRatio + kLaws * kKernels * kRatioSteps;
constexpr size_t kGap = kScore + kScoreSteps;
constexpr size_t kLow = kGap + kScoreSteps;
constexpr size_t kChain = kLow + kScoreSteps;
constexpr size_t kMagnitude = kChain + kChainSteps;
constexpr size_t kSmall = kMagnitude + kMagnitudes * kMagnitudeSteps;
constexpr size_t kPair = kSmall + kMagnitudes * kMagnitudeSteps;
constexpr size_t kLawOption = kPair + kOptionCount * kOptionCount;
constexpr size_t kExtent = kLawOption + kLaws * kOptionCount;
constexpr size_t kVerbPair = kExtent + kExtents * kExtentSteps;
constexpr size_t kEnd = kVerbPair + kVerbs * kVerbs + kChainSteps;
static_assert(kEnd <= kGuideCounters);

// Half octaves from 2^-20 of the bound on: what is below is no trouble yet.
constexpr double kLeastRatio = 0x1p-20;

int64_t half_octaves(double value, double least) {
  if (!(value > least)) return -1;
  if (!std::isfinite(value)) return 1 << 20;
  return static_cast<int64_t>(std::floor(2 * std::log2(value / least)));
}

// The step of the largest or the smallest number of a storage, in steps of 2^4.
int64_t magnitude_step(double value) {
  return (static_cast<int64_t>(std::ilogb(value)) + 128) / 4;
}

// The scores of one row of one head.
struct Row {
  const double* q;
  const double* k;
  int64_t b, h, i;
};
void add_row(const Row& row, const Shape& s, const Visibility& visibility,
             double scale, ScoreShape& shape) {
  double most = 0, least = 0;
  int64_t chain = 0;
  bool first = true;
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (!visibility.sees(row.b, row.h, row.i, j)) continue;
    double score = 0;
    for (int64_t c = 0; c < s.d; ++c) score += row.q[c] * row.k[j * s.d + c];
    score *= scale;
    if (std::isnan(score)) continue;
    shape.largest = std::max(shape.largest, std::fabs(score));
    if (first || score > most) {
      chain += !first;
      most = score;
    }
    least = first ? score : std::min(least, score);
    first = false;
  }
  if (first) return;
  shape.longest_chain = std::max(shape.longest_chain, chain);
  shape.largest_gap = std::max(shape.largest_gap, most - least);
  shape.lowest_maximum = std::min(shape.lowest_maximum, most);
}

}  // namespace

ScoreShape score_shape(const Case& value, const Inputs& inputs) {
  ScoreShape shape;
  const Shape& s = value.shape;
  constexpr int64_t kProducts = int64_t{1} << 15;
  const int64_t rows = s.B * s.H * s.Tq;
  const int64_t per_row = std::max<int64_t>(1, s.Tk * s.d);
  const int64_t step = std::max<int64_t>(1, rows * per_row / kProducts);
  const double scale = value.scale ? static_cast<double>(*value.scale)
                                   : default_scale(std::max<int64_t>(s.d, 1));
  const Visibility visibility(value, inputs);
  for (int64_t n = 0; n < rows; n += step) {
    const int64_t b = n / (s.H * s.Tq), h = n / s.Tq % s.H;
    const int64_t head = b * s.Hkv + h / s.group();
    add_row({inputs.q.data() + n * s.d, inputs.k.data() + head * s.Tk * s.d, b,
             h, n % s.Tq},
            s, visibility, scale, shape);
  }
  return shape;
}

Guide::Sight sight_of(const FuzzTarget& target) {
  constexpr int kMostlyValues = 60;
  return target.values_percent >= kMostlyValues ? Guide::Sight::kNumbers
                                                : Guide::Sight::kAll;
}

void Guide::reach(size_t first, size_t count, int64_t step) {
  if (step < 0) return;
  const size_t last = std::min(static_cast<size_t>(step), count - 1);
  for (size_t n = 0; n <= last; ++n) set(first + n);
}

void Guide::look_at_values(const Case& value, const Inputs& inputs) {
  const bool layer = value.is_layer();
  const std::vector<double>* tensors[] = {
      layer ? &inputs.values(TensorName::kX) : &inputs.q,
      layer ? &inputs.values(TensorName::kWq) : &inputs.k,
      layer ? &inputs.values(TensorName::kWo) : &inputs.v};
  for (size_t n = 0; n < std::size(tensors); ++n) {
    double most = 0, least = 0;
    for (const double x : *tensors[n]) {
      const double size = std::fabs(x);
      if (!std::isfinite(size) || size == 0) continue;
      most = std::max(most, size);
      least = least == 0 ? size : std::min(least, size);
    }
    if (most == 0) continue;
    reach(kMagnitude + n * kMagnitudeSteps, kMagnitudeSteps,
          magnitude_step(most));
    reach(kSmall + n * kMagnitudeSteps, kMagnitudeSteps,
          -magnitude_step(least) + 32);
  }
  if (value.subject() != Subject::kAttention) return;
  const ScoreShape shape = score_shape(value, inputs);
  reach(kScore, kScoreSteps, half_octaves(shape.largest, 0x1p-8));
  reach(kGap, kScoreSteps, half_octaves(shape.largest_gap, 0x1p-8));
  reach(kLow, kScoreSteps, half_octaves(-shape.lowest_maximum, 0x1p-8));
  reach(kChain, kChainSteps, shape.longest_chain);
}

void Guide::look_at_options(const FuzzInput& input, size_t law_number) {
  const uint64_t options = options_of(input.value);
  const auto has = [&](size_t n) {
    return n == kCausal ? input.value.causal != Causal::kNone
                        : (options & kCaseOptions[n]) != 0;
  };
  for (size_t a = 0; a < kOptionCount; ++a) {
    if (!has(a)) continue;
    set(kLawOption + law_number % kLaws * kOptionCount + a);
    for (size_t b = a; b < kOptionCount; ++b)
      if (has(b)) set(kPair + a * kOptionCount + b);
  }
  const Shape& s = input.value.shape;
  const int64_t extents[kExtents] = {s.B, s.H, s.Hkv, s.Tq, s.Tk, s.d, s.dv};
  for (size_t n = 0; n < kExtents; ++n)
    set(kExtent + n * kExtentSteps +
        std::min<size_t>(std::bit_width(static_cast<uint64_t>(extents[n])),
                         kExtentSteps - 1));
}

void Guide::look_at_story(const Story& story) {
  for (size_t n = 0; n + 1 < story.size(); ++n)
    set(kVerbPair + static_cast<size_t>(story[n].verb) * kVerbs +
        static_cast<size_t>(story[n + 1].verb));
  reach(kVerbPair + kVerbs * kVerbs, kChainSteps,
        static_cast<int64_t>(story.size()));
}

void Guide::look_at(const FuzzInput& input, size_t law_number,
                    const Inputs& inputs) {
  set(kExecuted);
  if (sight_ == Sight::kNothing) return;
  look_at_values(input.value, inputs);
  if (sight_ == Sight::kNumbers) return;
  look_at_options(input, law_number);
  if (input.value.subject() == Subject::kCache)
    look_at_story(input.value.story);
}

void Guide::answered(const std::string& said) {
  set(kExecuted);
  if (sight_ == Sight::kNothing) return;
  uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (const char c : said)
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  set(1 + (hash ^ hash >> 29) % (kGuideCounters - 1));
}

void Guide::judged(size_t law_number, size_t kernel, double ratio) {
  if (sight_ == Sight::kNothing) return;
  const size_t block =
      law_number % kLaws * kKernels + std::min(kernel, kKernels - 1);
  reach(kRatio + block * kRatioSteps, kRatioSteps,
        half_octaves(ratio, kLeastRatio));
}

}  // namespace qkvet::fuzz
