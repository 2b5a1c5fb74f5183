// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/half.h"
#include "core/door/call_plan.h"
#include "properties/calls/call_pairs.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace {

bool same_bits(double a, double b) {
  if (a == 0 && b == 0) return true;
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Calls `visit` for every element of one gradient of the first call that has a
// partner in the second, with both indices.
template <class Visit>
void walk(const JudgeInput& input, const GradientPair& pair, TensorName tensor,
          Judgement& judgement, Visit visit) {
  const Shape& s = input.value.shape;
  const auto first = read_gradient(input, input.calls[pair.first], tensor);
  const auto second = read_gradient(input, input.calls[pair.second], tensor);
  for (size_t n = 0; n < first.size() && !second.empty(); ++n) {
    const auto from = gradient_element(s, tensor, static_cast<int64_t>(n));
    const std::optional<GradientElement> to =
        pair.map ? pair.map(from) : std::optional(from);
    if (!to || !gradient_counts(input.value, from)) continue;
    const auto m = static_cast<size_t>(gradient_index(s, *to));
    std::optional<Finding> finding = visit(n, first[n], m, second[m]);
    if (!finding) continue;
    finding->where = gradient_name(s, tensor, static_cast<int64_t>(n));
    finding->looks = pair.looks;
    add_failure(judgement, std::move(*finding));
  }
}

}  // namespace

std::array<int64_t, 4> gradient_extents(const Shape& s, TensorName tensor) {
  return tensor == TensorName::kDSink ? std::array<int64_t, 4>{1, s.H, 1, 1}
                                      : tensor_extents(s, tensor);
}

GradientElement gradient_element(const Shape& s, TensorName tensor, int64_t n) {
  const auto [B, heads, rows, width] = gradient_extents(s, tensor);
  return {tensor, n / width / rows / heads, n / width / rows % heads,
          n / width % rows, n % width};
}

int64_t gradient_index(const Shape& s, const GradientElement& at) {
  const auto [B, heads, rows, width] = gradient_extents(s, at.tensor);
  return ((at.b * heads + at.h) * rows + at.t) * width + at.x;
}

std::string gradient_name(const Shape& s, TensorName tensor, int64_t n) {
  const GradientElement at = gradient_element(s, tensor, n);
  std::string text = tensor_name(tensor);
  const std::string head = "h=" + std::to_string(at.h);
  if (tensor == TensorName::kDSink) return text + "[" + head + "]";
  const bool of_keys = tensor == TensorName::kDK || tensor == TensorName::kDV;
  text += "[b=" + std::to_string(at.b) + "," + head;
  text += (of_keys ? ",j=" : ",i=") + std::to_string(at.t);
  text += (tensor == TensorName::kDBias ? ",j=" : ",c=") + std::to_string(at.x);
  return text + "]";
}

bool gradient_counts(const Case& value, const GradientElement& at) {
  switch (at.tensor) {
    case TensorName::kDQ:
      return at.t < counted_queries(value, at.b);
    case TensorName::kDBias:
      return at.t < counted_queries(value, at.b) &&
             at.x < counted_keys(value, at.b);
    case TensorName::kDSink:
      return true;
    default:
      return at.t < counted_keys(value, at.b);
  }
}

const std::vector<double>& gradient_of(const GradientOutput& output,
                                       TensorName tensor) {
  switch (tensor) {
    case TensorName::kDQ:
      return output.q;
    case TensorName::kDK:
      return output.k;
    case TensorName::kDV:
      return output.v;
    case TensorName::kDBias:
      return output.bias;
    default:
      return output.sink;
  }
}

const std::vector<double>& bound_of(const GradientBound& bound,
                                    TensorName tensor) {
  switch (tensor) {
    case TensorName::kDQ:
      return bound.q;
    case TensorName::kDK:
      return bound.k;
    case TensorName::kDV:
      return bound.v;
    case TensorName::kDBias:
      return bound.bias;
    default:
      return bound.sink;
  }
}

std::vector<double> read_gradient(const JudgeInput& input, const CallView& call,
                                  TensorName tensor) {
  return as_doubles(call.outcome->*output_member(tensor),
                    storage_type(input.value, tensor));
}

PlannedCall backward_call(bool truth, InputEdit edit) {
  PlannedCall call;
  call.operation = Operation::kBackward;
  call.needs_truth = truth;
  call.edit = edit;
  return call;
}

void compare_gradients_with_truth(const JudgeInput& input, const CallView& call,
                                  Judgement& judgement) {
  const GradientTruth& known = *call.truth->gradient;
  const Shape& s = input.value.shape;
  const int32_t number = number_of_call(input, call);
  for (const TensorName tensor : kGradients) {
    const std::vector<double> actual = read_gradient(input, call, tensor);
    const std::vector<double>& truth = gradient_of(known.values, tensor);
    const std::vector<double>& bound = bound_of(known.bound, tensor);
    const std::vector<double>& reach = gradient_of(known.bound.reach, tensor);
    const Dtype dtype = storage_type(input.value, tensor);
    for (size_t n = 0; n < actual.size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      if (!gradient_counts(input.value, gradient_element(s, tensor, at)))
        continue;
      if (std::isnan(bound[n])) {
        judgement.verdict = Verdict::kGaveUp;
        judgement.reason = "the bound is NaN: a defect of QKVet, please report";
        return;
      }
      auto finding = compare_with_bound({actual[n],
                                         truth[n],
                                         bound[n],
                                         reach[n],
                                         dtype,
                                         /*before_rounding=*/true,
                                         {tensor, at, number}},
                                        judgement);
      if (!finding) continue;
      finding->where = gradient_name(s, tensor, at);
      add_failure(judgement, std::move(*finding));
    }
  }
}

void compare_gradient_with_zero(const JudgeInput& input,
                                const GradientElement& element, double actual,
                                Judgement& judgement) {
  auto finding = compare_exactly(
      actual, 0, storage_type(input.value, element.tensor), judgement);
  if (!finding) return;
  const Shape& s = input.value.shape;
  finding->where = gradient_name(s, element.tensor, gradient_index(s, element));
  add_failure(judgement, std::move(*finding));
}

void compare_gradients_bit_for_bit(const JudgeInput& input,
                                   const GradientPair& pair,
                                   Judgement& judgement) {
  for (const TensorName tensor : kGradients) {
    const Dtype dtype = storage_type(input.value, tensor);
    walk(input, pair, tensor, judgement,
         [&](size_t n, double a, size_t m, double b) -> std::optional<Finding> {
           ++judgement.compared;
           const double expected = a * pair.factor;
           if (input.same_bits != nullptr)
             input.same_bits->push_back({tensor, pair.first, pair.second,
                                         static_cast<int64_t>(n),
                                         static_cast<int64_t>(m), pair.factor});
           if (same_bits(expected, b) || note_if_outdone(judgement, 0))
             return std::nullopt;
           Finding finding;
           finding.expected =
               number_text(expected, dtype) + " (" + pair.first_name + ")";
           finding.actual =
               number_text(b, dtype) + " (" + pair.second_name + ")";
           finding.allowed = "the same bits";
           return finding;
         });
  }
}

void compare_gradients_within_bounds(const JudgeInput& input,
                                     const GradientPair& pair,
                                     Judgement& judgement) {
  for (const TensorName tensor : kGradients) {
    const auto part = [&](size_t call) -> const GradientBound& {
      return input.calls[call].truth->gradient->bound;
    };
    const std::vector<double>& first = bound_of(part(pair.first), tensor);
    const std::vector<double>& second = bound_of(part(pair.second), tensor);
    const std::vector<double>& reach =
        gradient_of(part(pair.first).reach, tensor);
    const Dtype dtype = storage_type(input.value, tensor);
    walk(input, pair, tensor, judgement,
         [&](size_t n, double a, size_t m, double b) {
           const double size = std::fabs(pair.factor);
           const double floors =
               std::max(size - 1, 0.0) * underflow_error(dtype);
           return compare_two_ways({b,
                                    a * pair.factor,
                                    size * first[n] + second[m] + floors,
                                    size * reach[n],
                                    dtype,
                                    pair.second_name,
                                    pair.first_name,
                                    {tensor, static_cast<int64_t>(n), -1}},
                                   judgement);
         });
  }
}

Case with_moderate_data(Case value) {
  const auto moderate = [](Recipe& recipe) {
    switch (recipe.kind) {
      case RecipeKind::kAscendingN:
      case RecipeKind::kDescendingN:
      case RecipeKind::kDominantN:
      case RecipeKind::kLargeN:
      case RecipeKind::kOffsetN:
      case RecipeKind::kHeavy:
      case RecipeKind::kFile:
        recipe = make_recipe(RecipeKind::kNormal);
        break;
      default:
        break;
    }
  };
  for (Recipe* recipe : {&value.q, &value.k, &value.v, &value.d_o})
    moderate(*recipe);
  for (auto* recipe : {&value.score_bias, &value.sink, &value.slopes})
    if (*recipe) moderate(**recipe);
  value.set.clear();
  return value;
}

}  // namespace qkvet::properties
