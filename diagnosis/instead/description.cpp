// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/description.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "properties/judging/compare.h"

namespace qkvet::diagnosis {

double largest_share(const WrongAnswer& answer, int64_t row) {
  const int64_t keys = answer.value().shape.Tk;
  const auto begin = answer.truth->oracle.weights.begin() + row * keys;
  const double largest = *std::max_element(begin, begin + keys);
  if (!answer.value().sink) return largest;
  return std::max(largest, 1 - std::accumulate(begin, begin + keys, 0.0));
}

namespace {

// NaN is between the rows of a tensor and, if a description leaves elements
// open, at those.
bool fits_number(const Description& description, double actual, double value,
                 double bound, Dtype dtype) {
  if (std::isnan(value)) return description.leaves_open || std::isnan(actual);
  return is_near(actual, value, bound, dtype);
}

// Rows of lse and weights that belong to wrong rows of o.
bool fits_rest(const Description& description, const Predicted& predicted,
               const WrongAnswer& answer, const WrongOutput& o) {
  const Shape& s = answer.value().shape;
  const auto fits_at = [&](const std::vector<double>& actual, size_t n,
                           const std::vector<double>& values,
                           const std::vector<double>& bounds, Dtype dtype) {
    return actual.empty() || values.size() != actual.size() ||
           bounds.size() != actual.size() ||
           fits_number(description, actual[n], values[n], bounds[n], dtype);
  };
  for (const size_t n : first_of_wrong_rows(o)) {
    const int64_t row = static_cast<int64_t>(n) / s.dv;
    if (!fits_at(answer.lse, static_cast<size_t>(row), predicted.lse,
                 predicted.lse_bounds, lse_dtype(o.dtype)))
      return false;
    for (int64_t j = 0; j < s.Tk; ++j)
      if (!fits_at(answer.weights, static_cast<size_t>(row * s.Tk + j),
                   predicted.weights, predicted.weights_bounds, o.dtype))
        return false;
  }
  return true;
}

}  // namespace

bool fits(const Description& description, const WrongAnswer& answer,
          const WrongOutput& output, LeftOpen* left_open) {
  const auto predicted = description.predict(answer, output);
  if (!predicted || predicted->values.size() != output.actual.size() ||
      predicted->bounds.size() != output.actual.size())
    return false;
  LeftOpen open;
  const bool fits_output =
      std::all_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
        const double actual = output.actual[n], value = predicted->values[n];
        open.known += !std::isnan(value);
        open.open += std::isnan(value) && !std::isnan(actual);
        return fits_number(description, actual, value, predicted->bounds[n],
                           output.dtype);
      });
  if (left_open != nullptr) *left_open = open;
  return fits_output && (output.name != TensorName::kO ||
                         fits_rest(description, *predicted, answer, output));
}

namespace {

// In the order of Stage.
struct StageWords {
  const char *name, *text;
};
constexpr StageWords kStages[] = {
    {"", ""},
    {"scores",
     "the scores (q k^T, its scale, and all up to their exponentials)"},
    {"bias", "what is added to the scores"},
    {"keys", "which keys a row sees"},
    {"softmax", "the softmax (maximum, exponentials, their sum)"},
    {"values", "the product of weights and V"},
    {"output", "the output (what is stored, and where)"},
    {"lse", "lse alone"},
    {"empty_rows",
     "rows that see no key, which are a case of their own (all others are "
     "right)"},
    {"written",
     "the cache: the place of a token, as it is appended or looked up (read "
     "back, it is another)"},
    {"moved",
     "the cache: tokens that a later command moves or takes away (read back, "
     "they were right before it)"},
    {"read",
     "the cache: which tokens a query attends over (what is stored is right, "
     "and so is the answer to one prompt)"},
    {"attended", "the attention over the cache (what is stored is right)"},
    {"q", "the projection of q"},
    {"k", "the projection of k"},
    {"v", "the projection of v"},
    {"attention",
     "the attention between the projections (q, k and v are right)"},
    {"y", "the projection of the output (the heads are right)"},
    {"merge_weights",
     "the weights of the states (right where all states are alike)"},
    {"merge_maximum",
     "the maximum of the states' lse (right where none of them is large)"},
    {"recomputed_weights", "the weights, recomputed from q, k and lse"},
    {"d_weights", "dP = dO V^T"},
    {"delta", "delta, the sum of dO o over a row"},
    {"d_scores", "dS = P (dP - delta), its scale, and the slope of the cap"},
    {"dq", "dq = scale dS K (dS is right)"},
    {"dk", "dk = scale dS^T Q (dS is right)"},
    {"dv", "dv = P^T dO (P is right)"},
    {"sum_of_heads",
     "which query heads dk and dv are added up over (right where each has keys "
     "of its own, or where there is one)"},
    {"dbias", "the gradient of the bias, which is dS (dq and dk are right)"},
    {"dsink",
     "the gradient of the sink, -delta times its weight (all others are "
     "right)"}};

}  // namespace

const char* stage_name(Stage stage) {
  return kStages[static_cast<size_t>(stage)].name;
}
const char* stage_text(Stage stage) {
  return kStages[static_cast<size_t>(stage)].text;
}

}  // namespace qkvet::diagnosis
