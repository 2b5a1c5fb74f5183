// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/compare.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/judging/empty_row.h"

namespace qkvet::properties {
namespace {

std::string interval_text(double low, double high, Dtype dtype) {
  return number_text(low, dtype) + " .. " + number_text(high, dtype);
}

// With a sink the formula also has a value: o is 0 and lse the sink. A kernel
// that begins its softmax with the sink returns it without a special case for
// such rows, so it is right under every dialect.
bool is_sink_alone(const JudgeInput& input, TensorName tensor, double actual,
                   double truth, double bound) {
  if (!input.value.sink) return false;
  return tensor == TensorName::kLse
             ? actual == truth || std::fabs(actual - truth) <= bound
             : actual == 0 && truth == 0;
}

struct Number {
  double actual = 0, truth = 0, bound = 0;
  Dtype dtype = Dtype::kF32;
};

void compare_empty_row(const JudgeInput& input, const CallView& call,
                       TensorName tensor, int64_t n, const Number& number,
                       Judgement& judgement) {
  const Case& value = call.planned != nullptr && call.planned->variant
                          ? *call.planned->variant
                          : input.value;
  const std::optional<double> expected =
      declared_number(empty_row_of(input.kernel.dialect, value), tensor);
  if (!expected) return;  // not declared: not judged
  ++judgement.compared;
  const double actual = number.actual;
  if (equal_numbers(actual, *expected) ||
      is_sink_alone(input, tensor, actual, number.truth, number.bound))
    return;
  constexpr double kRatio = std::numeric_limits<double>::infinity();
  if (note_if_outdone(judgement, kRatio)) return;
  const Dtype dtype = number.dtype;
  Finding finding;
  finding.planned = number_of_call(input, call);
  finding.where = element_name(tensor, input.value.shape, n);
  finding.expected =
      number_text(*expected, dtype) + " (declared for a row that sees no key)";
  if (input.value.sink)
    finding.expected +=
        tensor == TensorName::kO
            ? ", or 0"
            : ", or " + number_text(number.truth, dtype) + ", its sink";
  finding.actual = number_text(actual, dtype);
  finding.ratio = kRatio;
  add_failure(judgement, std::move(finding));
}

// The largest distance between y and the number that was rounded to it.
// 2^ilogb(y) is y with all mantissa bits cleared. Every judged number passes
// through here, so it has to be fast.
double rounding_of(double y, Dtype dtype) {
  if (y == 0 || !std::isfinite(y)) return underflow_error(dtype);
  constexpr uint64_t kExponent = uint64_t{0x7FF} << 52;
  const auto power =
      std::bit_cast<double>(std::bit_cast<uint64_t>(y) & kExponent);
  return std::max(unit_roundoff(dtype) * power, underflow_error(dtype));
}

void note_nearest(Judgement& judgement, double ratio, const Nearest& number) {
  const bool first = !judgement.nearest && ratio == judgement.worst_ratio;
  if (!first && !(ratio > judgement.worst_ratio)) return;
  judgement.worst_ratio = ratio;
  judgement.nearest = number;
}

// One is infinite, and the other is so near to the largest number of its type
// that both may be roundings of one finite number.
bool may_be_overflow(const TwoWays& pair, double allowed) {
  const bool first = std::isinf(pair.first);
  if (first == std::isinf(pair.second)) return false;
  const double infinite = first ? pair.first : pair.second;
  const double finite = first ? pair.second : pair.first;
  const double furthest = finite + std::copysign(allowed, infinite);
  return round_to(pair.dtype, furthest) == infinite;
}

}  // namespace

std::string number_text(double value, Dtype dtype) {
  if (std::isnan(value)) return "nan";  // no sign: it has no meaning
  char buffer[64];
  const auto result = dtype == Dtype::kF64
                          ? std::to_chars(buffer, buffer + sizeof buffer, value)
                          : std::to_chars(buffer, buffer + sizeof buffer,
                                          static_cast<float>(value));
  return {buffer, result.ptr};
}

int32_t number_of_call(const JudgeInput& input, const CallView& call) {
  for (size_t i = 0; i < input.calls.size(); ++i)
    if (input.calls[i].planned == call.planned) return static_cast<int32_t>(i);
  return -1;
}

void keep_ratio(Judgement& judgement, double ratio) {
  if (!(ratio > judgement.worst_ratio)) return;
  judgement.worst_ratio = ratio;
  judgement.nearest.reset();
}

void add_counts(Judgement& judgement, const Judgement& part) {
  judgement.compared += part.compared;
  judgement.vacuous += part.vacuous;
  if (part.worst_ratio < judgement.worst_ratio) return;
  if (part.worst_ratio > judgement.worst_ratio || !judgement.nearest)
    judgement.nearest = part.nearest;
  judgement.worst_ratio = part.worst_ratio;
}

void add_judgement(const Judgement& part, Judgement& judgement) {
  add_counts(judgement, part);
  if (part.verdict == Verdict::kFailed) {
    judgement.verdict = part.verdict;
    judgement.finding = part.finding;
  } else if (judgement.verdict == Verdict::kPassed) {
    judgement.verdict = part.verdict;
    judgement.reason = part.reason;
  }
}

void add_failure(Judgement& judgement, Finding finding) {
  if (note_if_outdone(judgement, finding.ratio)) return;
  judgement.verdict = Verdict::kFailed;
  judgement.worst_ratio = std::max(judgement.worst_ratio, finding.ratio);
  judgement.finding = std::move(finding);
}

bool note_if_outdone(Judgement& judgement, double ratio) {
  if (!judgement.finding || judgement.finding->ratio < ratio) return false;
  judgement.verdict = Verdict::kFailed;
  judgement.worst_ratio = std::max(judgement.worst_ratio, ratio);
  return true;
}

bool equal_numbers(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::optional<Finding> compare_with_bound(const Bounded& number,
                                          Judgement& judgement) {
  const auto& [actual, truth, bound, reach, dtype, before_rounding, at] =
      number;
  if (bound == std::numeric_limits<double>::infinity()) {
    ++judgement.vacuous;  // intermediate overflow is legitimate here
    return std::nullopt;
  }
  const double low = round_to(dtype, truth - bound);
  const double high = round_to(dtype, truth + bound);
  const bool inside = low <= actual && actual <= high;
  if (reach > 0 && bound >= reach / 2)
    ++judgement.vacuous;
  else
    ++judgement.compared;
  // In half formats the bound is for the number before rounding; f32's own last
  // rounding is part of the bound of forward().
  const bool is_half = dtype == Dtype::kF16 || dtype == Dtype::kBf16;
  const double rounding =
      is_half || before_rounding ? rounding_of(actual, dtype) : 0;
  const double error = std::max(std::fabs(actual - truth) - rounding, 0.0);
  if (inside) {
    const double ratio = error == 0 ? 0 : std::min(error / bound, 1.0);
    note_nearest(judgement, ratio,
                 {actual, truth, low, high, /*two_ways=*/false, dtype, at});
    return std::nullopt;
  }
  const double ratio = error > 0
                           ? error / bound
                           : std::numeric_limits<double>::infinity();  // NaN
  if (note_if_outdone(judgement, ratio)) return std::nullopt;
  Finding finding;
  finding.planned = at.call;
  finding.expected = number_text(truth, dtype);
  finding.actual = number_text(actual, dtype);
  finding.allowed = interval_text(low, high, dtype);
  finding.ratio = ratio;
  return finding;
}

std::optional<Finding> compare_exactly(double actual, double expected,
                                       Dtype dtype, Judgement& judgement) {
  ++judgement.compared;
  if (actual == expected || note_if_outdone(judgement, 0)) return std::nullopt;
  Finding finding;
  finding.expected = number_text(expected, dtype) + ", exactly";
  finding.actual = number_text(actual, dtype);
  return finding;
}

double allowed_difference(double first, double second, double bounds,
                          Dtype dtype) {
  const auto size = [](double x) {
    return std::isfinite(x) ? std::fabs(x) : 0;
  };
  return bounds + unit_roundoff(dtype) * (size(first) + size(second)) +
         2 * underflow_error(dtype);
}

std::optional<Finding> compare_two_ways(const TwoWays& pair,
                                        Judgement& judgement) {
  const bool both_nan = std::isnan(pair.first) && std::isnan(pair.second);
  if (both_nan || !(pair.bounds < std::numeric_limits<double>::infinity())) {
    ++judgement.vacuous;
    judgement.both_nan += both_nan ? 1 : 0;
    return std::nullopt;
  }
  const double allowed =
      allowed_difference(pair.first, pair.second, pair.bounds, pair.dtype);
  const double error = std::fabs(pair.first - pair.second);
  if (pair.reach > 0 && pair.bounds >= pair.reach)
    ++judgement.vacuous;
  else
    ++judgement.compared;
  if (pair.first == pair.second || error <= allowed ||
      may_be_overflow(pair, allowed)) {
    if (std::isfinite(error))
      note_nearest(judgement, error > 0 ? error / allowed : 0,
                   {pair.first, pair.second, 0, allowed, /*two_ways=*/true,
                    pair.dtype, pair.at});
    return std::nullopt;
  }
  const double ratio = error > 0
                           ? error / allowed
                           : std::numeric_limits<double>::infinity();  // NaN
  if (note_if_outdone(judgement, ratio)) return std::nullopt;
  const std::string first =
      number_text(pair.first, pair.dtype) + " (" + pair.first_name + ")";
  const std::string second =
      number_text(pair.second, pair.dtype) + " (" + pair.second_name + ")";
  Finding finding;
  finding.planned = pair.at.call;
  // Neither is known to be right, but NaN is wrong where the other is a number.
  const bool is_second = std::isnan(pair.second);
  finding.expected = is_second ? first : second;
  finding.actual = is_second ? second : first;
  finding.allowed = "a difference of " + number_text(allowed, Dtype::kF32);
  finding.ratio = ratio;
  return finding;
}

std::optional<Finding> compare_two_ways(const CallOutput& first, size_t n,
                                        const char* first_name,
                                        const CallOutput& second, size_t m,
                                        const char* second_name, Spot at,
                                        Judgement& judgement) {
  return compare_two_ways({first.values[n], second.values[m],
                           first.bound_at(n) + second.bound_at(m),
                           std::max(first.reach_at(n), second.reach_at(m)),
                           first.dtype, first_name, second_name, at},
                          judgement);
}

void compare_exactly(const JudgeInput& input, const CallView& call,
                     TensorName tensor, const Expected& expected,
                     Judgement& judgement, const char* looks) {
  const std::vector<double> actual = read_output(input, call, tensor);
  const Grid grid(input.value.shape, tensor);
  for (size_t n = 0; n < actual.size(); ++n) {
    const std::optional<double> right = expected(grid.at(n));
    if (!right) continue;
    auto finding = compare_exactly(actual[n], *right,
                                   output_dtype(input, tensor), judgement);
    if (!finding) continue;
    finding->where = grid.name(n);
    finding->looks = looks;
    add_failure(judgement, std::move(*finding));
  }
}

void compare_with_zero(const JudgeInput& input, const CallView& call,
                       Outputs tensors,
                       const std::function<bool(const Element& at)>& is_zero,
                       const char* looks, Judgement& judgement) {
  const Expected zero = [&](const Element& at) {
    return is_zero(at) ? std::optional<double>(0) : std::nullopt;
  };
  for (const TensorName tensor : tensors)
    compare_exactly(input, call, tensor, zero, judgement, looks);
}

void compare_with_known(const JudgeInput& input, const CallView& call,
                        std::vector<double> known, Judgement& judgement) {
  TensorTruth truth = truth_of_output(call.truth, TensorName::kO);
  truth.values = &known;
  compare_with_truth(input, call, TensorName::kO, truth, judgement);
}

void compare_lse_with_known(const JudgeInput& input, const CallView& call,
                            std::vector<double> known, Judgement& judgement) {
  for (double& lse : known) lse *= lse_unit(input.kernel);
  TensorTruth truth = truth_of_output(call.truth, TensorName::kLse);
  truth.values = &known;
  compare_with_truth(input, call, TensorName::kLse, truth, judgement);
}

void compare_with_truth(const JudgeInput& input, const CallView& call,
                        TensorName tensor, Judgement& judgement) {
  compare_with_truth(input, call, tensor, truth_of_output(call.truth, tensor),
                     judgement);
}

void compare_with_truth(const JudgeInput& input, const CallView& call,
                        Judgement& judgement) {
  for (const TensorName tensor : outputs_of(input.value.subject())) {
    if (judgement.verdict != Verdict::kPassed &&
        !(judgement.verdict == Verdict::kFailed && is_gradient(tensor)))
      return;
    compare_with_truth(input, call, tensor, judgement);
  }
}

void compare_with_truth(const JudgeInput& input, const CallView& call,
                        TensorName tensor, const TensorTruth& truth,
                        Judgement& judgement) {
  const std::vector<double> actual = read_output(input, call, tensor);
  const Grid grid(input.value.shape, tensor);
  const Dtype dtype = output_dtype(input, tensor);
  const bool gradient = is_gradient(tensor);
  // Only attention has rows without a key.
  const std::vector<int64_t>* const visible =
      gradient || call.truth == nullptr ? nullptr : &call.truth->oracle.visible;
  const int32_t number = number_of_call(input, call);
  for (size_t n = 0; n < actual.size(); ++n) {
    const int64_t keys =
        visible == nullptr ? 1
                           : (*visible)[n / static_cast<size_t>(grid.width())];
    if (keys == kRowNotCounted) continue;
    if (is_attention_gradient(tensor) &&
        !gradient_counts(input.value, grid.at(n)))
      continue;
    if (keys == 0) {
      compare_empty_row(
          input, call, tensor, static_cast<int64_t>(n),
          {actual[n], (*truth.values)[n], (*truth.bound)[n], dtype}, judgement);
      continue;
    }
    if (std::isnan((*truth.bound)[n])) {
      judgement.verdict = Verdict::kGaveUp;
      judgement.reason = "the bound is NaN: a defect of QKVet, please report";
      return;
    }
    auto finding =
        compare_with_bound({actual[n],
                            (*truth.values)[n],
                            (*truth.bound)[n],
                            truth.reach != nullptr ? (*truth.reach)[n] : 0,
                            dtype,
                            /*before_rounding=*/gradient,
                            {tensor, static_cast<int64_t>(n), number}},
                           judgement);
    if (!finding) continue;
    finding->where = grid.name(n);
    add_failure(judgement, std::move(*finding));
  }
}

}  // namespace qkvet::properties
