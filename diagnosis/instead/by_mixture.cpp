// SPDX-License-Identifier: Apache-2.0
// Descriptions of wrong numbers with an origin or weight that differs from case
// to case: right numbers of other elements, and rows that are means, or sums,
// of the visible values with other weights. They are tried last, because they
// show which step still works and not what went wrong before it.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/half.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/instead.h"
#include "properties/judging/compare.h"

namespace qkvet::diagnosis {
namespace {

// Rows that need not have been means, and elements that need not have been
// right numbers: with fewer of them, nothing is reported.
constexpr int kFewestTold = 12;

// --- right numbers of other elements

// NaN in outputs that are otherwise finite marks unwritten elements.
std::optional<WrongOutput> where_written(const WrongAnswer& answer,
                                         const WrongOutput& output) {
  const bool all_finite =
      std::all_of(output.wrong.begin(), output.wrong.end(),
                  [&](size_t n) { return std::isfinite(output.actual[n]); });
  if (all_finite) return output;
  if (answer.outcome().unwritten != output.name) return std::nullopt;
  return where_finite(output);
}

bool are_right_elsewhere(const WrongAnswer& answer, const WrongOutput& output) {
  const auto written = where_written(answer, output);
  return written && is_moved_around(*written);
}

// Unique numbers such as 0 are not informative, nor is a number that is as near
// to the right one as to another element's: an error of 1e-5 is no exchange of
// similar elements.
bool is_far_from_right(const WrongOutput& output, size_t n) {
  constexpr double kFar = 64;
  return std::isfinite(output.actual[n]) && output.actual[n] != 0 &&
         !is_near(output.actual[n], output.right[n],
                  kFar * (output.bound[n] + unit_roundoff(Dtype::kF32) *
                                                std::fabs(output.right[n])),
                  output.dtype);
}
int elements_told(const WrongOutput& output) {
  return static_cast<int>(
      std::count_if(output.wrong.begin(), output.wrong.end(),
                    [&](size_t n) { return is_far_from_right(output, n); }));
}

// --- means of the values that a row sees

// A row of o and the values of its keys.
struct Mixed {
  std::vector<std::vector<double>> values;  // [keys][dv]
  std::vector<double> o;                    // [dv]
  double bound = 0;                         // of all channels together
};

double length_of(const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += x * x;
  return std::sqrt(sum);
}

// A row may be off by more than its bounds, because the bound for other weights
// is not known.
constexpr double kTimesBound = 4;

// Orthonormal directions, and the components of others along them.
class Span {
 public:
  // Returns what is left of `row` outside the span; `along` gets its
  // components.
  std::vector<double> rest_of(std::vector<double> row,
                              std::vector<double>* along) const {
    along->assign(basis_.size(), 0.0);
    // Twice, because the second pass removes the rounding errors of the first.
    for (int pass = 0; pass < 2; ++pass)
      for (size_t n = 0; n < basis_.size(); ++n) {
        double part = 0;
        for (size_t c = 0; c < row.size(); ++c) part += basis_[n][c] * row[c];
        for (size_t c = 0; c < row.size(); ++c) row[c] -= part * basis_[n][c];
        (*along)[n] += part;
      }
    return row;
  }

  // False: the row is in the span already.
  bool add(const std::vector<double>& row) {
    std::vector<double> along;
    std::vector<double> rest = rest_of(row, &along);
    const double length = length_of(rest);
    constexpr double kNoDirection = 1e-9;
    if (length <= kNoDirection * length_of(row)) return false;
    for (double& x : rest) x /= length;
    basis_.push_back(std::move(rest));
    along.push_back(length);
    columns_.push_back(std::move(along));
    return true;
  }

  // The smallest part of an added row outside the span of the earlier ones. The
  // uncertainty of a mean is that much larger in its weights.
  double least_length() const {
    double least = 1;
    for (size_t n = 0; n < columns_.size(); ++n)
      least = std::min(least, columns_[n][n]);
    return least;
  }

  // The coefficients of the added rows for these components.
  std::vector<double> weights(std::vector<double> along) const {
    for (size_t n = along.size(); n-- > 0;) {
      along[n] /= columns_[n][n];
      for (size_t m = 0; m < n; ++m) along[m] -= along[n] * columns_[n][m];
    }
    return along;
  }

 private:
  std::vector<std::vector<double>> basis_, columns_;
};

// Whether o is a mean of the values with weights of at least 0 that add up to 1
// unless something else (a sink, dropout) has a share. Nullopt: any row would
// be one.
std::optional<bool> is_mixed(const Mixed& row, bool adds_up) {
  if (row.values.empty()) return std::nullopt;
  const size_t first = adds_up ? 1 : 0;
  if (row.values.size() - first >= row.o.size()) return std::nullopt;
  const auto from_first = [&](std::vector<double> value) {
    for (size_t c = 0; adds_up && c < value.size(); ++c)
      value[c] -= row.values[0][c];
    return value;
  };
  Span span;
  for (size_t j = first; j < row.values.size(); ++j)
    if (!span.add(from_first(row.values[j]))) return std::nullopt;
  std::vector<double> along;
  if (length_of(span.rest_of(from_first(row.o), &along)) > row.bound)
    return false;
  const double rounding = 1e-3 + 4 * row.bound / span.least_length();
  double sum = 0;
  for (const double weight : span.weights(along)) {
    if (weight < -rounding) return false;
    sum += weight;
  }
  return !adds_up || sum <= 1 + rounding;
}

// Whether o is a sum of these values, with any weights. Nullopt: any row would
// be one, or the row is too uncertain.
std::optional<bool> is_sum(const Mixed& row) {
  constexpr double kTooUnsure = 0.01;  // of its length
  if (row.values.empty() || row.values.size() >= row.o.size())
    return std::nullopt;
  Span span;
  double size = 0;
  for (const std::vector<double>& value : row.values) {
    if (!span.add(value)) return std::nullopt;
    size = std::max(size, length_of(value));
  }
  std::vector<double> along;
  const double rest = length_of(span.rest_of(row.o, &along));
  double weights = 0;
  for (const double weight : span.weights(along)) weights += std::fabs(weight);
  // Such weights may be large and cancel.
  const double bound = row.bound + kTimesBound * unit_roundoff(Dtype::kF32) *
                                       weights * size *
                                       static_cast<double>(row.values.size());
  if (bound > kTooUnsure * length_of(row.o)) return std::nullopt;
  return rest <= bound;
}

// The values of the visible keys, or of all keys of the head.
std::optional<Mixed> row_of(const WrongAnswer& answer, const WrongOutput& o,
                            int64_t row, bool of_seen = true) {
  const Shape& s = answer.value().shape;
  const int64_t kv = kv_head_of(s, row);
  Mixed out;
  double squares = 0, size = 0;
  for (int64_t c = 0; c < s.dv; ++c) {
    const auto n = static_cast<size_t>(row * s.dv + c);
    if (!std::isfinite(o.actual[n]) || !std::isfinite(o.bound[n]))
      return std::nullopt;
    out.o.push_back(o.actual[n]);
    squares += o.bound[n] * o.bound[n];
  }
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (of_seen &&
        answer.truth->oracle.sees[static_cast<size_t>(row * s.Tk + j)] == 0)
      continue;
    const double* v =
        answer.inputs->v.data() + static_cast<size_t>((kv * s.Tk + j) * s.dv);
    out.values.emplace_back(v, v + s.dv);
    size = std::max(size, length_of(out.values.back()));
  }
  out.bound =
      kTimesBound *
      (std::sqrt(squares) + unit_roundoff(o.dtype) * (size + length_of(out.o)));
  return out;
}

// Number of rows of o that are means, or sums, though they need not be;
// nullopt: some row is not.
using IsMixed = std::function<std::optional<bool>(const Mixed& row)>;
std::optional<int> rows_mixed(const WrongAnswer& answer, const WrongOutput& o,
                              const IsMixed& is_one, bool of_seen = true) {
  if (answer.truth == nullptr || o.name != TensorName::kO) return std::nullopt;
  const Case& value = answer.value();
  // States have no scores; a merge weighs them by their lse.
  if (value.subject() == Subject::kMerge) return std::nullopt;
  if (!std::all_of(o.wrong.begin(), o.wrong.end(),
                   [&](size_t n) { return std::isfinite(o.actual[n]); }))
    return std::nullopt;
  int told = 0;
  for (const size_t n : first_of_wrong_rows(o)) {
    const auto mixed =
        row_of(answer, o, static_cast<int64_t>(n) / value.shape.dv, of_seen);
    if (!mixed) continue;
    const auto is_mean = is_one(*mixed);
    if (is_mean == false) return std::nullopt;
    told += is_mean.has_value();
  }
  return told;
}

std::optional<int> means_told(const WrongAnswer& answer, const WrongOutput& o) {
  const bool adds_up = !answer.value().sink && !answer.value().dropout;
  return rows_mixed(answer, o, [adds_up](const Mixed& row) {
    return is_mixed(row, adds_up);
  });
}

template <class Told>
bool tell_enough(const Wrongs& wrongs, Told told) {
  int all = 0, cases = 0;
  for (const auto& [answer, output] : wrongs) {
    const int here = told(*answer, *output);
    all += here;
    cases += here > 0;
  }
  // Many rows need only two cases. In most of them all values together span any
  // row.
  constexpr int kMany = 4 * kFewestTold;
  return all >= kFewestTold &&
         cases >= (all >= kMany ? kFewestCases - 1 : kFewestCases);
}

}  // namespace

std::optional<Claim> claim_of_places(const Wrongs& wrongs) {
  const Claim claim = {
      "right values of other elements, or what stood there before",
      are_right_elsewhere};
  const auto told = [](const WrongAnswer&, const WrongOutput& output) {
    return elements_told(output);
  };
  size_t of_all = 0, far = 0;
  for (const auto& [answer, output] : wrongs) {
    of_all += output->wrong.size();
    far += static_cast<size_t>(elements_told(*output));
  }
  if (2 * far < of_all || !tell_enough(wrongs, told) ||
      !is_true_of_all(claim, wrongs))
    return std::nullopt;
  return claim;
}

// If lse is right or missing, the scores may be right and the weights not: some
// are dropped, or only one key counts.
std::optional<Claim> claim_of_means(const Wrongs& wrongs) {
  const auto has_right_lse = [](const WrongAnswer& answer) {
    return answer.has(TensorName::kLse) &&
           answer.find(TensorName::kLse) == nullptr;
  };
  const bool are_of_scores =
      std::none_of(
          wrongs.begin(), wrongs.end(),
          [&](const auto& one) { return has_right_lse(*one.first); }) &&
      std::any_of(wrongs.begin(), wrongs.end(), [](const auto& one) {
        return one.first->has(TensorName::kLse);
      });
  Claim claim = {
      are_of_scores
          ? "a mean of the values that its row sees, weighed by other scores"
          : "a mean of the values that its row sees, with other weights",
      [are_of_scores, has_right_lse](const WrongAnswer& answer,
                                     const WrongOutput& o) {
        return means_told(answer, o).has_value() &&
               !(are_of_scores && !o.wrong.empty() && has_right_lse(answer));
      }};
  claim.of_other_scores = are_of_scores;
  claim.is_cheap = true;
  const auto told = [](const WrongAnswer& answer, const WrongOutput& o) {
    return means_told(answer, o).value_or(0);
  };
  if (!tell_enough(wrongs, told) || !is_true_of_all(claim, wrongs))
    return std::nullopt;
  return claim;
}

std::optional<Claim> claim_of_sums(const Wrongs& wrongs) {
  for (const bool of_seen : {true, false}) {
    const auto sums_told = [of_seen](const WrongAnswer& answer,
                                     const WrongOutput& o) {
      return rows_mixed(answer, o, is_sum, of_seen);
    };
    Claim claim = {
        of_seen ? "a sum of the values that its row sees, with wrong weights"
                : "a sum of values of its key/value head, of hidden keys as "
                  "well, with wrong weights",
        [sums_told](const WrongAnswer& answer, const WrongOutput& o) {
          return sums_told(answer, o).has_value();
        }};
    claim.is_cheap = true;
    const auto told = [&](const WrongAnswer& answer, const WrongOutput& o) {
      return sums_told(answer, o).value_or(0);
    };
    if (tell_enough(wrongs, told) && is_true_of_all(claim, wrongs))
      return claim;
  }
  return std::nullopt;
}

}  // namespace qkvet::diagnosis
