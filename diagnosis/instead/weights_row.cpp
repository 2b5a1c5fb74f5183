// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/weights_row.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "core/base/half.h"

namespace qkvet::diagnosis {
namespace {

// A weight of so many bounds is clearly present.
constexpr double kClearlyThere = 64;
constexpr double kSameShare = 1e-3;

// One row of weights, compared with the right ones.
struct WeightsSeen {
  double sum = 0, right_sum = 0;
  double least = INFINITY, most = 0;  // of actual / right
  bool shows_hidden = false, lacks_seen = false, is_impossible = false;
  bool others_are_right = true, is_finite = true;
  int there = 0;  // keys with a known share
};

WeightsSeen look_at(const WrongAnswer& answer, const WrongOutput& output,
                    int64_t row) {
  const Shape& s = answer.value().shape;
  const int64_t width = output.extents[3];
  WeightsSeen seen;
  for (int64_t j = 0; j < s.Tk; ++j) {
    const auto at = static_cast<size_t>(row * width + j);
    const double actual = output.actual[at], weight = output.right[at];
    const double clear = kClearlyThere * output.bound[at];
    seen.is_finite &= std::isfinite(actual);
    seen.is_impossible |= actual < -clear || std::isinf(actual);
    seen.sum += actual;
    seen.right_sum += weight;
    const bool is_wrong =
        std::binary_search(output.wrong.begin(), output.wrong.end(), at);
    const bool is_seen =
        answer.truth->oracle.sees[static_cast<size_t>(row * s.Tk + j)] != 0;
    if (!is_seen) {
      seen.shows_hidden |= is_wrong;
    } else if (actual == 0 && weight > clear) {
      seen.lacks_seen = true;
    } else if (weight > clear) {
      seen.least = std::min(seen.least, actual / weight);
      seen.most = std::max(seen.most, actual / weight);
      seen.others_are_right &= !is_wrong;
      ++seen.there;
    }
  }
  return seen;
}

// Nullopt for a row without any weight left, for example if its only key is
// lost.
std::optional<RowOfWeights> said_of(const WrongAnswer& answer, Dtype storage,
                                    const WeightsSeen& row, bool of_output) {
  if (row.is_impossible) return RowOfWeights::kImpossible;
  if (!row.is_finite) return std::nullopt;
  if (row.there == 0 && !row.shows_hidden) return std::nullopt;
  const double same_share = kSameShare + 2 * unit_roundoff(storage);
  const bool is_one =
      std::fabs(row.sum - row.right_sum) < same_share * row.right_sum;
  const bool in_proportion =
      row.there == 0 || row.most - row.least < same_share * row.most;
  if (row.shows_hidden || row.lacks_seen) {
    if (is_one && in_proportion && !answer.value().sink)
      return RowOfWeights::kOtherKeys;
    if (of_output && !row.shows_hidden && row.others_are_right)
      return RowOfWeights::kOneMissing;
    return RowOfWeights::kNothing;
  }
  // With a sink, other scores also give another sum, which a single key does
  // not show.
  if (is_one && in_proportion) return std::nullopt;  // nearly right
  if (answer.value().sink) {
    if (row.there < 2) return std::nullopt;
    return in_proportion ? RowOfWeights::kOtherSum : RowOfWeights::kNothing;
  }
  return is_one ? RowOfWeights::kOtherScores : RowOfWeights::kOtherSum;
}

}  // namespace

RowOfWeights said_of_rows(const std::vector<const WrongAnswer*>& answers,
                          bool of_output) {
  std::optional<RowOfWeights> said;
  bool is_one_thing = true;
  for (const WrongAnswer* answer : answers) {
    const WrongOutput* output =
        answer->find(of_output ? TensorName::kO : TensorName::kWeights);
    if (output == nullptr) return RowOfWeights::kNothing;
    for (const size_t n : first_of_wrong_rows(*output)) {
      const int64_t row = static_cast<int64_t>(n) / output->extents[3];
      const auto here = said_of(*answer, output->dtype,
                                look_at(*answer, *output, row), of_output);
      // No share of a sum of exponentials is negative or infinite.
      if (here == RowOfWeights::kImpossible) return *here;
      if (!here) continue;
      is_one_thing &= !said || *said == *here;
      said = *here;
    }
  }
  return is_one_thing ? said.value_or(RowOfWeights::kNothing)
                      : RowOfWeights::kNothing;
}

RowOfWeights said_of_rows(const std::vector<WrongAnswer>& answers,
                          bool of_output) {
  std::vector<const WrongAnswer*> all;
  for (const WrongAnswer& answer : answers) all.push_back(&answer);
  return said_of_rows(all, of_output);
}

bool are_keys_of_score_zero(const std::vector<WrongAnswer>& of_ones,
                            bool lse_in_base2) {
  constexpr double kNear = 1e-3;      // of a whole number
  constexpr double kFar = 0.05;       // from one
  constexpr double kMostKeys = 1024;  // more is within rounding
  int telling = 0;
  for (const WrongAnswer& answer : of_ones) {
    const WrongOutput* o = answer.find(TensorName::kO);
    if (o == nullptr || answer.value().sink) return false;
    const int64_t width = o->extents[3];
    for (const size_t n : o->wrong) {
      if (static_cast<int64_t>(n) % width != 0) continue;
      const size_t row = n / static_cast<size_t>(width);
      const double lse = answer.truth->oracle.lse[row];
      const double sum = lse_in_base2 ? std::exp2(lse) : std::exp(lse);
      const double keys = sum / o->actual[n] - sum;
      if (!(keys > 1 - kNear && keys < kMostKeys) ||
          std::fabs(keys - std::round(keys)) > kNear * std::max(1.0, keys))
        return false;
      telling += std::fabs(sum - std::round(sum)) > kFar;
    }
  }
  constexpr int kFewest = 6;
  return telling >= kFewest;
}

namespace {

// Runs of equal factors along the keys of a row; one run: a single factor.
struct RunsOfFactors {
  int keys = 0, runs = 0;
};
// In half storage, a weight is known from a few bounds on.
constexpr double kKnown = 8;

// Nullopt: some element is not finite.
std::optional<RunsOfFactors> runs_of(const WrongAnswer& answer,
                                     const WrongOutput& o, int64_t row) {
  const Shape& s = answer.value().shape;
  RunsOfFactors out;
  double first = 0;
  int length = 0;
  for (int64_t j = 0; j < s.Tk; ++j) {
    const auto at = static_cast<size_t>(row * o.extents[3] + j);
    const double weight = o.right[at];
    if (!std::isfinite(o.actual[at])) return std::nullopt;
    if (weight <= kKnown * o.bound[at]) continue;
    const double factor = o.actual[at] / weight;
    // The bounds are those before the rounding to storage.
    const double unsure =
        4 * o.bound[at] / weight +
        (kSameShare + 2 * unit_roundoff(o.dtype)) * std::fabs(first);
    if (length == 0 || std::fabs(factor - first) > unsure) {
      length = 0;
      ++out.runs;
      first = factor;
    }
    ++length;
    ++out.keys;
  }
  return out;
}

}  // namespace

bool are_rescaled_by_tiles(const std::vector<WrongAnswer>& shown) {
  constexpr int kFewestInTile = 4;
  constexpr int kFewestRows = 6;
  // The share of informative rows; rounding breaks some tiles up.
  constexpr double kMost = 0.75;
  int rescaled = 0, telling = 0;
  for (const WrongAnswer& answer : shown) {
    const WrongOutput* o = answer.find(TensorName::kO);
    if (o == nullptr) return false;
    for (const size_t n : first_of_wrong_rows(*o)) {
      const int64_t row = static_cast<int64_t>(n) / o->extents[3];
      const auto runs = runs_of(answer, *o, row);
      if (!runs || runs->keys < 3 * kFewestInTile) continue;
      ++telling;
      // A last tile may have fewer keys than one that is whole.
      rescaled += runs->runs > 1 && runs->keys >= kFewestInTile * runs->runs;
    }
  }
  return rescaled >= kFewestRows && rescaled >= kMost * telling;
}

namespace {

using Row = std::span<const double>;

Row row_of(const std::vector<double>& output, size_t row, size_t width,
           size_t keys) {
  return {output.data() + row * width, keys};
}

double dot(Row a, Row b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Whether the row has the direction of one of the right ones.
bool is_multiple_of_any(Row seen, const std::vector<double>& right,
                        size_t width) {
  constexpr double kSquaredAngle = 1e-4;
  const double length = dot(seen, seen);
  for (size_t row = 0; row < right.size() / width; ++row) {
    const Row other = row_of(right, row, width, seen.size());
    const double both = dot(seen, other);
    if (both * both >= (1 - kSquaredAngle) * length * dot(other, other))
      return true;
  }
  return false;
}

bool has_row_of_none(const WrongAnswer& answer, const WrongOutput& o) {
  constexpr size_t kMostRows = 8;
  const auto width = static_cast<size_t>(o.extents[3]);
  const auto keys = static_cast<size_t>(answer.value().shape.Tk);
  size_t rows = 0;
  for (const size_t n : first_of_wrong_rows(o)) {
    if (rows == kMostRows) break;
    const Row seen = row_of(o.actual, n / width, width, keys);
    const double length = dot(seen, seen);
    if (!std::isfinite(length) || length <= kClearlyThere * o.bound[n])
      continue;
    ++rows;
    if (!is_multiple_of_any(seen, o.right, width)) return true;
  }
  return false;
}

}  // namespace

bool are_of_no_row(const std::vector<WrongAnswer>& shown) {
  constexpr size_t kFewest = 3;
  size_t telling = 0;
  for (const WrongAnswer& answer : shown) {
    const WrongOutput* o = answer.find(TensorName::kO);
    telling += o != nullptr && has_row_of_none(answer, *o);
  }
  return telling >= kFewest && 2 * telling >= shown.size();
}

bool are_of_keys(const std::vector<WrongAnswer>& shown,
                 const std::vector<WrongAnswer>& of_next_keys) {
  constexpr int kFewestElements = 12;
  const auto same_but_v = [&](const WrongAnswer& next) {
    return std::find_if(shown.begin(), shown.end(), [&](const auto& one) {
      Case value = next.value();
      value.v = one.value().v;
      return value == one.value();
    });
  };
  bool goes = true, stays = true;
  int elements = 0;
  for (const WrongAnswer& next : of_next_keys) {
    const auto first = same_but_v(next);
    if (first == shown.end()) continue;
    const WrongOutput* a = first->find(TensorName::kO);
    const WrongOutput* b = next.find(TensorName::kO);
    if (a == nullptr || b == nullptr) return false;
    const auto width = static_cast<size_t>(a->extents[3]);
    const auto keys = static_cast<size_t>(next.value().shape.Tk);
    const auto same = [&](size_t in_a, size_t in_b) {
      const double bound = std::max(a->bound[in_a], b->bound[in_b]);
      return is_near(b->actual[in_b], a->actual[in_a], 4 * bound, a->dtype);
    };
    for (size_t row = 0; row < a->actual.size(); row += width)
      for (size_t c = 0; c + 1 < std::min(keys, width); ++c) {
        goes &= same(row + c + 1, row + c);
        stays &= same(row + c, row + c);
        ++elements;
      }
  }
  return elements >= kFewestElements && (goes || stays);
}

}  // namespace qkvet::diagnosis
