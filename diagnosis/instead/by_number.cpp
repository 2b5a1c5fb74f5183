// SPDX-License-Identifier: Apache-2.0
// Descriptions in terms of the right numbers alone.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "diagnosis/instead/description.h"
#include "properties/judging/compare.h"

namespace qkvet::diagnosis {
namespace {

using Place = std::array<int64_t, 4>;

// --- a factor

struct Factor {
  const char* text;
  double (*of)(const Case& value);
};
double d_of(const Case& value) { return static_cast<double>(value.shape.d); }
double group_of(const Case& value) {
  return static_cast<double>(value.shape.H / value.shape.Hkv);
}
constexpr Factor kFactors[] = {
    {"-1", [](const Case&) { return -1.0; }},
    {"2", [](const Case&) { return 2.0; }},
    {"1/2", [](const Case&) { return 0.5; }},
    {"log2(e)", [](const Case&) { return std::numbers::log2e; }},
    {"ln(2)", [](const Case&) { return std::numbers::ln2; }},
    {"d", d_of},
    {"1/d", [](const Case& c) { return 1 / d_of(c); }},
    {"sqrt(d)", [](const Case& c) { return std::sqrt(d_of(c)); }},
    {"1/sqrt(d)", [](const Case& c) { return 1 / std::sqrt(d_of(c)); }},
    {"the scale", scale_of},
    {"1 / the scale", [](const Case& c) { return 1 / scale_of(c); }},
    {"H/Hkv", group_of},
    {"Hkv/H", [](const Case& c) { return 1 / group_of(c); }},
    {"H", [](const Case& c) { return static_cast<double>(c.shape.H); }},
    {"1/H", [](const Case& c) { return 1 / static_cast<double>(c.shape.H); }},
    {"Tk", [](const Case& c) { return static_cast<double>(c.shape.Tk); }},
    {"1/Tk", [](const Case& c) { return 1 / static_cast<double>(c.shape.Tk); }},
    {"B", [](const Case& c) { return static_cast<double>(c.shape.B); }}};

Predicted times(const WrongOutput& output, double factor) {
  Predicted out{output.right, output.bound};
  for (double& value : out.values) value *= factor;
  for (double& bound : out.bounds) bound *= std::fabs(factor);
  return out;
}

void add_factors(std::vector<Description>& out) {
  for (const Factor& factor : kFactors)
    out.push_back({std::string("the right value times ") + factor.text,
                   Stage::kUnknown,
                   [of = factor.of](const WrongAnswer& answer,
                                    const WrongOutput& output) {
                     return std::optional(times(output, of(answer.value())));
                   }});
}

// --- another element of the same output

Place place_of(const WrongOutput& output, int64_t n) {
  Place place;
  for (size_t axis = 4; axis-- > 0;) {
    place[axis] = n % output.extents[axis];
    n /= output.extents[axis];
  }
  return place;
}

// The place that the number at `at` comes from; places outside the output give
// NaN.
using Comes = std::function<Place(const Place& at, const Place& extents)>;

std::optional<Predicted> moved(const WrongOutput& output, const Comes& comes) {
  Predicted out{output.right, output.bound};
  for (size_t n = 0; n < output.right.size(); ++n) {
    const Place from =
        comes(place_of(output, static_cast<int64_t>(n)), output.extents);
    int64_t at = 0;
    for (size_t axis = 0; axis < 4; ++axis) {
      const bool inside = from[axis] >= 0 && from[axis] < output.extents[axis];
      at = inside && at >= 0 ? at * output.extents[axis] + from[axis] : -1;
    }
    out.values[n] =
        at < 0 ? std::nan("") : output.right[static_cast<size_t>(at)];
    out.bounds[n] = at < 0 ? 0 : output.bound[static_cast<size_t>(at)];
  }
  return out;
}

// A number may have been read from the wrong place as well as written to it.
void add_move(std::vector<Description>& out, std::string text, Comes comes,
              Stage stage = Stage::kUnknown) {
  out.push_back({std::move(text), stage,
                 [comes = std::move(comes)](const WrongAnswer&,
                                            const WrongOutput& output) {
                   return moved(output, comes);
                 }});
}

// Whether finite numbers are wrong at two places along the axis: a mistake at
// one place may be an order, or that place alone.
bool is_wrong_in_two(const WrongAnswer& answer, TensorName name, size_t axis) {
  const WrongOutput* output = answer.find(name);
  std::optional<int64_t> first;
  for (size_t n = 0; output != nullptr && n < output->wrong.size(); ++n) {
    const size_t element = output->wrong[n];
    if (!std::isfinite(output->actual[element])) continue;
    const int64_t at = place_of(*output, static_cast<int64_t>(element))[axis];
    if (first.value_or(at) != at) return true;
    first = at;
  }
  return false;
}

void add_moves(TensorName output, const std::vector<std::string>& axes,
               std::vector<Description>& out) {
  for (size_t a = 0; a < axes.size(); ++a) {
    const std::string right = "the right value of " + axes[a];
    // Each channel is stored once, so several with one value were read that
    // way.
    add_move(
        out, right + " 0",
        [a](Place at, const Place&) {
          at[a] = 0;
          return at;
        },
        axes[a] == "channel" ? Stage::kValues : Stage::kUnknown);
    for (const int64_t step : {-1, 1})
      add_move(out,
               "the right value of the " + axes[a] +
                   (step < 0 ? " before it" : " after it"),
               [a, step](Place at, const Place&) {
                 at[a] += step;
                 return at;
               });
    add_move(out, right + "s in reverse", [a](Place at, const Place& extents) {
      at[a] = extents[a] - 1 - at[a];
      return at;
    });
    out.back().is_told_by = [output, a](const WrongAnswer& answer) {
      return is_wrong_in_two(answer, output, a);
    };
  }
}

// The output written in another order of axes.
void add_orders(const std::vector<std::string>& axes,
                const std::vector<std::string>& letters,
                std::vector<Description>& out) {
  for (size_t a = 0; a < axes.size(); ++a)
    for (size_t b = a + 1; b < axes.size(); ++b) {
      std::string order;
      for (size_t n = 0; n < axes.size(); ++n)
        order += (n == 0 ? "" : ",") + letters[n == a ? b : n == b ? a : n];
      add_move(
          out,
          "right, but stored in the order [" + order + "] of " + axes[a] +
              " and " + axes[b],
          [a, b](const Place& at, const Place& extents) {
            Place swapped = extents;
            std::swap(swapped[a], swapped[b]);
            int64_t n = 0;
            for (size_t axis = 0; axis < 4; ++axis)
              n = n * extents[axis] + at[axis];
            Place from;
            for (size_t axis = 4; axis-- > 0;) {
              from[axis] = n % swapped[axis];
              n /= swapped[axis];
            }
            std::swap(from[a], from[b]);
            return from;
          },
          Stage::kOutput);
    }
}

// --- terms of the sum over keys

// The first and the last key that a row sees; -1: none.
std::pair<int64_t, int64_t> ends_of_row(const WrongAnswer& answer,
                                        int64_t row) {
  const int64_t keys = answer.value().shape.Tk;
  std::pair<int64_t, int64_t> ends(-1, -1);
  for (int64_t j = 0; j < keys; ++j) {
    if (answer.truth->oracle.sees[static_cast<size_t>(row * keys + j)] == 0)
      continue;
    if (ends.first < 0) ends.first = j;
    ends.second = j;
  }
  return ends;
}

// o by the contribution of one key, its weight, and the row's largest share.
struct Terms {
  double o, term, weight, largest;
};
using OfTerms = double (*)(const Terms& terms);

std::optional<Predicted> of_terms(const WrongAnswer& answer,
                                  const WrongOutput& output, bool is_last,
                                  OfTerms of) {
  if (answer.truth == nullptr) return std::nullopt;
  const Shape& s = answer.value().shape;
  const Inputs& inputs = *answer.inputs;
  const std::vector<double>& weights = answer.truth->oracle.weights;
  Predicted out{output.right, output.bound};
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    const auto [first, last] = ends_of_row(answer, row);
    if (first < 0) continue;
    const int64_t key = is_last ? last : first;
    const double weight = weights[static_cast<size_t>(row * s.Tk + key)];
    const double largest = largest_share(answer, row);
    const int64_t kv = kv_head_of(s, row);
    for (int64_t c = 0; c < s.dv; ++c) {
      const auto n = static_cast<size_t>(row * s.dv + c);
      const double v =
          inputs.v[static_cast<size_t>((kv * s.Tk + key) * s.dv + c)];
      out.values[n] = of({output.right[n], weight * v, weight, largest});
      // The bound of the right number, scaled with the size of the number.
      const double grown = std::fabs(out.values[n] / output.right[n]);
      if (std::isfinite(grown)) out.bounds[n] *= std::max(1.0, grown);
    }
  }
  return out;
}

// If only the product with V is wrong, everything before it is right.
void keep_the_weights(const WrongAnswer& answer, Predicted& predicted) {
  predicted.lse = answer.truth->oracle.lse;
  predicted.lse_bounds = answer.truth->bound->lse;
  predicted.weights = answer.truth->oracle.weights;
  predicted.weights_bounds = answer.truth->bound->weights;
}

void add_term(std::vector<Description>& out, const char* text, Stage stage,
              bool is_last, OfTerms of) {
  out.push_back({text, stage,
                 [stage, is_last, of](const WrongAnswer& answer,
                                      const WrongOutput& output) {
                   auto predicted = of_terms(answer, output, is_last, of);
                   if (predicted && stage == Stage::kValues)
                     keep_the_weights(answer, *predicted);
                   return predicted;
                 }});
}

void add_terms(std::vector<Description>& out) {
  constexpr auto kLast = true;
  const OfTerms without = [](const Terms& t) { return t.o - t.term; };
  const OfTerms twice = [](const Terms& t) { return t.o + t.term; };
  const OfTerms alone = [](const Terms& t) { return t.term; };
  const OfTerms less = [](const Terms& t) { return t.o / (1 - t.weight); };
  const OfTerms more = [](const Terms& t) { return t.o / (1 + t.weight); };
  add_term(out, "the right value without the last key's weight times its value",
           Stage::kValues, kLast, without);
  add_term(out,
           "the right value without the first key's weight times its value",
           Stage::kValues, !kLast, without);
  add_term(out, "the right value with the last key's weight times value twice",
           Stage::kValues, kLast, twice);
  add_term(out, "the right value with the first key's weight times value twice",
           Stage::kValues, !kLast, twice);
  add_term(out, "the last key's weight times its value, all others missing",
           Stage::kValues, kLast, alone);
  add_term(out, "the first key's weight times its value, all others missing",
           Stage::kValues, !kLast, alone);
  add_term(out, "divided by a sum that lacks the last key", Stage::kSoftmax,
           kLast, less);
  add_term(out, "divided by a sum that lacks the first key", Stage::kSoftmax,
           !kLast, less);
  add_term(out, "divided by a sum that has the last key twice", Stage::kSoftmax,
           kLast, more);
  add_term(out, "divided by a sum that has the first key twice",
           Stage::kSoftmax, !kLast, more);
  const OfTerms undivided = [](const Terms& t) {
    return t.o + t.term * (1 / t.largest - 1);
  };
  add_term(out,
           "the right value with the last key's weight not divided by the sum",
           Stage::kSoftmax, kLast, undivided);
  add_term(out,
           "the right value with the first key's weight not divided by the sum",
           Stage::kSoftmax, !kLast, undivided);
  add_term(out,
           "never divided by the row's sum of exponentials (of scores below "
           "their maximum)",
           Stage::kSoftmax, kLast,
           [](const Terms& t) { return t.o / t.largest; });
  add_term(out, "the right value times the row's sum of exponentials, squared",
           Stage::kSoftmax, kLast,
           [](const Terms& t) { return t.o / t.largest / t.largest; });
  add_term(out, "divided twice by the row's sum of exponentials",
           Stage::kSoftmax, kLast,
           [](const Terms& t) { return t.o * t.largest; });
}

// --- the sum of another row

void add_sums_of_rows(std::vector<Description>& out) {
  using Other = int64_t (*)(int64_t i);
  const auto add = [&out](const char* whose, Other other) {
    out.push_back(
        {std::string("divided by the sum of ") + whose, Stage::kSoftmax,
         [other](const WrongAnswer& answer,
                 const WrongOutput& output) -> std::optional<Predicted> {
           if (answer.truth == nullptr) return std::nullopt;
           const Shape& s = answer.value().shape;
           Predicted divided{output.right, output.bound};
           for (int64_t row = 0; row < s.lse_elements(); ++row) {
             const int64_t i = row % s.Tq, from = row - i + other(i);
             const bool is_there =
                 other(i) >= 0 && other(i) < s.Tq &&
                 answer.truth->oracle.visible[static_cast<size_t>(from)] > 0;
             const double times = is_there ? largest_share(answer, from) /
                                                 largest_share(answer, row)
                                           : std::nan("");
             for (int64_t c = 0; c < s.dv; ++c) {
               const auto n = static_cast<size_t>(row * s.dv + c);
               divided.values[n] *= times;
               divided.bounds[n] *=
                   std::max(1.0, std::isnan(times) ? 1 : times);
             }
           }
           return divided;
         },
         /*leaves_open=*/true});
  };
  add("the row after it", [](int64_t i) { return i + 1; });
  add("the row before it", [](int64_t i) { return i - 1; });
  add("row 0", [](int64_t) { return int64_t{0}; });
}

// --- the sum without the keys

// The share of the sink in the row's sum of exponentials, from an lse to base
// e; 0: there is no sink.
double share_of_sink(const WrongAnswer& answer, int64_t row) {
  const Shape& s = answer.value().shape;
  const std::vector<double>& sinks = answer.inputs->sink;
  if (sinks.empty()) return 0;
  return std::exp(sinks[static_cast<size_t>(row / s.Tq % s.H)] -
                  answer.truth->oracle.lse[static_cast<size_t>(row)]);
}

// Keys that never join the sum. Without a sink they are divided by 0.
void add_sum_of_sink(TensorName output, std::vector<Description>& out) {
  const bool is_o = output == TensorName::kO;
  out.push_back({is_o ? "divided by what the sink alone adds to the sum"
                      : "the logarithm of what the sink alone adds to the sum",
                 Stage::kSoftmax,
                 [is_o](const WrongAnswer& answer,
                        const WrongOutput& wrong) -> std::optional<Predicted> {
                   if (answer.truth == nullptr) return std::nullopt;
                   const auto width =
                       is_o ? static_cast<size_t>(answer.value().shape.dv) : 1;
                   Predicted predicted{wrong.right, wrong.bound};
                   for (size_t n = 0; n < wrong.right.size(); ++n) {
                     const double share =
                         share_of_sink(answer, static_cast<int64_t>(n / width));
                     if (is_o)
                       predicted.values[n] /= share;
                     else
                       predicted.values[n] += std::log(share);
                     if (is_o && share > 0) predicted.bounds[n] /= share;
                   }
                   return predicted;
                 }});
}

// --- parts of lse = maximum + ln(sum)

void add_parts_of_lse(std::vector<Description>& out) {
  using Of = double (*)(double lse, double max, int64_t seen);
  struct Row {
    const char* text;
    Of of;
  };
  static constexpr Row kRows[] = {
      {"the largest score alone, without the logarithm of the sum",
       [](double, double max, int64_t) { return max; }},
      {"the logarithm of the sum alone, without the largest score",
       [](double lse, double max, int64_t) { return lse - max; }},
      {"the largest score plus the sum itself, not its logarithm",
       [](double lse, double max, int64_t) {
         return max + std::exp(lse - max);
       }},
      {"the largest score minus the logarithm of the sum",
       [](double lse, double max, int64_t) { return 2 * max - lse; }},
      {"the logarithm of the sum minus the largest score",
       [](double lse, double max, int64_t) { return lse - 2 * max; }},
      {"the sum of exponentials plus the logarithm of the largest score",
       [](double lse, double max, int64_t) {
         return std::exp(lse - max) + std::log(max);
       }},
      {"the right value minus ln(number of keys)",
       [](double lse, double, int64_t seen) {
         return lse - std::log(static_cast<double>(seen));
       }},
      {"the exponential of the right value",
       [](double lse, double, int64_t) { return std::exp(lse); }}};
  for (const Row& row : kRows)
    out.push_back(
        {row.text, Stage::kLse,
         [of = row.of](const WrongAnswer& answer,
                       const WrongOutput& output) -> std::optional<Predicted> {
           if (answer.truth == nullptr) return std::nullopt;
           const OracleOutput& oracle = answer.truth->oracle;
           Predicted predicted{output.right, output.bound};
           for (size_t n = 0; n < output.right.size(); ++n) {
             if (oracle.visible[n] <= 0) continue;
             const double largest =
                 largest_share(answer, static_cast<int64_t>(n));
             const double lse = output.right[n];
             const double max = lse + std::log(largest);
             const int64_t seen = oracle.visible[n];
             predicted.values[n] = of(lse, max, seen);
             // A logarithm of a small number, and a sum of exponentials,
             // amplify a bound.
             const double bound = output.bound[n];
             for (const double side : {-bound, bound})
               for (const double apart : {side, 0.0}) {
                 const double here = std::fabs(
                     of(lse + side, max + apart, seen) - predicted.values[n]);
                 // Only itself is near to a logarithm of 0.
                 if (std::isfinite(here))
                   predicted.bounds[n] =
                       std::max(predicted.bounds[n], bound + here);
               }
           }
           return predicted;
         }});
}

}  // namespace

std::vector<Description> descriptions_by_number(TensorName output) {
  std::vector<Description> out;
  add_factors(out);
  switch (output) {
    case TensorName::kO:
      add_terms(out);
      add_scores_as_weights(output, out);
      add_sums_of_rows(out);
      add_sum_of_sink(output, out);
      add_moves(output, {"member", "head", "row", "channel"}, out);
      add_orders({"member", "head", "row", "channel"}, {"B", "H", "Tq", "dv"},
                 out);
      break;
    case TensorName::kLse:
      add_parts_of_lse(out);
      add_scores_as_weights(output, out);
      add_sum_of_sink(output, out);
      add_moves(output, {"member", "head", "row"}, out);
      add_orders({"member", "head", "row"}, {"B", "H", "Tq"}, out);
      break;
    case TensorName::kWeights:
      add_moves(output, {"member", "head", "row", "key"}, out);
      add_orders({"member", "head", "row", "key"}, {"B", "H", "Tq", "Tk"}, out);
      break;
    case TensorName::kDQ:
      add_moves(output, {"member", "head", "row", "channel"}, out);
      break;
    case TensorName::kDK:
    case TensorName::kDV:
      add_moves(output, {"member", "kv head", "key", "channel"}, out);
      break;
    default:
      break;
  }
  return out;
}

}  // namespace qkvet::diagnosis
