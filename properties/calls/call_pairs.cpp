// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// One output of one call.
struct Output {
  std::vector<double> values;
  const std::vector<double>* truth = nullptr;
  const std::vector<double>* bound = nullptr;
  const std::vector<double>* reach = nullptr;  // only of o
  const Shape* shape = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t width = 1;

  size_t index(const Element& at) const {
    const Shape& s = *shape;
    return static_cast<size_t>(((at.b * s.H + at.h) * s.Tq + at.i) * width +
                               at.x);
  }
  double reach_at(size_t n) const { return reach != nullptr ? (*reach)[n] : 0; }
};

Output output_of(const JudgeInput& input, const CallView& call,
                 TensorName tensor) {
  Output out;
  out.shape = &shape_of(input, call);
  const CallOutcome& outcome = *call.outcome;
  const Truth* truth = call.truth;
  out.dtype = input.value.o_dtype;
  switch (tensor) {
    case TensorName::kLse:
      out.dtype = lse_dtype(input.value.o_dtype);
      out.values = as_doubles(outcome.lse, out.dtype);
      if (truth != nullptr) out.bound = &truth->bound->lse;
      if (truth != nullptr) out.truth = &truth->oracle.lse;
      break;
    case TensorName::kWeights:
      out.width = out.shape->Tk;
      out.values = as_doubles(outcome.weights, out.dtype);
      if (truth != nullptr) out.bound = &truth->bound->weights;
      if (truth != nullptr) out.truth = &truth->oracle.weights;
      break;
    default:
      out.width = out.shape->dv;
      out.values = as_doubles(outcome.o, out.dtype);
      if (truth != nullptr) out.bound = &truth->bound->o;
      if (truth != nullptr) out.truth = &truth->oracle.o;
      if (truth != nullptr) out.reach = truth->reach;
  }
  return out;
}

Element element_at(TensorName tensor, const Output& out, int64_t n) {
  const Shape& s = *out.shape;
  const int64_t row = n / out.width;
  return {tensor, row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq,
          n % out.width};
}

bool same_bits(double a, double b) {
  if (a == 0 && b == 0) return true;
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

double offset_of(const JudgeInput& input, const CallPair& pair,
                 const Element& at) {
  return at.tensor == TensorName::kLse && pair.lse_offset
             ? pair.lse_offset(at) * lse_unit(input.kernel)
             : 0;
}

// Elements of other extents than the case's have no number.
Spot spot_of(const JudgeInput& input, const Element& at, const Output& output,
             size_t n) {
  const bool own = output.shape == &input.value.shape;
  return {at.tensor, own ? static_cast<int64_t>(n) : -1, -1};
}

// Calls `visit` for every element of the first call that has a partner in the
// second, with both indices.
template <class Visit>
void walk(const JudgeInput& input, const CallPair& pair, TensorName tensor,
          Judgement& judgement, Visit visit) {
  const Output first = output_of(input, input.calls[pair.first], tensor);
  const Output second = output_of(input, input.calls[pair.second], tensor);
  if (first.values.empty() || second.values.empty()) return;
  for (size_t n = 0; n < first.values.size(); ++n) {
    const auto number = static_cast<int64_t>(n);
    const Element from = element_at(tensor, first, number);
    const std::optional<Element> to = pair.map ? pair.map(from) : from;
    if (!to || !sees_a_key(input, from)) continue;
    auto finding = visit(first, n, second, second.index(*to), from);
    if (!finding) continue;
    finding->where = element_name(tensor, *first.shape, number);
    if (finding->looks.empty())
      finding->looks = tensor == TensorName::kLse
                           ? "lse is not the logarithm of the sum of "
                             "exponentials of all scores"
                           : pair.looks;
    add_failure(judgement, std::move(*finding));
  }
}

}  // namespace

const Shape& shape_of(const JudgeInput& input, const CallView& call) {
  return call.planned->variant ? call.planned->variant->shape
                               : input.value.shape;
}

bool sees_a_key(const JudgeInput& input, const Element& element) {
  return input.visibility->keys(element.b, element.h, element.i) > 0;
}

void compare_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                         Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const Output& first, size_t n, const Output& second,
                         size_t m,
                         const Element& at) -> std::optional<Finding> {
    const double factor = at.tensor == TensorName::kO ? pair.factor : 1;
    const double expected = first.values[n] * factor;
    ++judgement.compared;
    if (input.same_bits != nullptr)
      input.same_bits->push_back({at.tensor, pair.first, pair.second,
                                  static_cast<int64_t>(n),
                                  static_cast<int64_t>(m), factor});
    if (same_bits(expected, second.values[m]) || note_if_outdone(judgement, 0))
      return std::nullopt;
    Finding finding;
    finding.expected =
        number_text(expected, first.dtype) + " (" + pair.first_name + ")";
    finding.actual = number_text(second.values[m], first.dtype) + " (" +
                     pair.second_name + ")";
    finding.allowed = "the same bits";
    // The same text for lse: it was only compared with the other call.
    finding.looks = pair.looks;
    return finding;
  };
  for (const TensorName tensor : tensors)
    walk(input, pair, tensor, judgement, visit);
}

void compare_within_bounds(const JudgeInput& input, const CallPair& pair,
                           Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const Output& first, size_t n, const Output& second,
                         size_t m, const Element& at) {
    const double offset = offset_of(input, pair, at);
    const double factor = at.tensor == TensorName::kO ? pair.factor : 1;
    const double size = std::fabs(factor);
    // The stored numbers were rounded before the offset was added, and before
    // the factor.
    const double rounding =
        unit_roundoff(first.dtype) * std::fabs(offset) +
        std::max(size - 1, 0.0) * underflow_error(first.dtype);
    return compare_two_ways(
        {second.values[m] - offset, factor * first.values[n],
         size * (*first.bound)[n] + (*second.bound)[m] + rounding,
         std::max(size * first.reach_at(n), second.reach_at(m)), first.dtype,
         pair.second_name, pair.first_name, spot_of(input, at, first, n)},
        judgement);
  };
  for (const TensorName tensor : tensors)
    walk(input, pair, tensor, judgement, visit);
}

void compare_within_first_bound(const JudgeInput& input, const CallPair& pair,
                                Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const Output& first, size_t n, const Output& second,
                         size_t m,
                         const Element& at) -> std::optional<Finding> {
    const double bound = (*first.bound)[n];
    // A row that is equally wrong in both calls is not the concern of such a
    // law.
    if (same_bits(first.values[n], second.values[m])) {
      ++judgement.compared;
      return std::nullopt;
    }
    if (std::isnan(bound)) {
      ++judgement.vacuous;
      return std::nullopt;
    }
    // Two answers for one row. The bound applies to the one that is farther
    // off: a NaN in the first call that is right in the second also depends on
    // the changed data.
    const double truth = (*first.truth)[n];
    const auto off = [truth](double x) {
      return std::isnan(x) ? std::numeric_limits<double>::infinity()
                           : std::fabs(x - truth);
    };
    const bool is_first = off(first.values[n]) > off(second.values[m]);
    const double worse = is_first ? first.values[n] : second.values[m];
    const double other = is_first ? second.values[m] : first.values[n];
    Spot spot = spot_of(input, at, first, n);
    spot.call = static_cast<int32_t>(is_first ? pair.first : pair.second);
    auto finding =
        compare_with_bound({worse, truth, bound, first.reach_at(n), first.dtype,
                            /*before_rounding=*/false, spot},
                           judgement);
    if (!finding) return std::nullopt;
    finding->expected += std::string(is_first ? "; it is " : "; it was ") +
                         number_text(other, first.dtype) + " (" +
                         (is_first ? pair.second_name : pair.first_name) + ")";
    finding->actual += std::string(" (") +
                       (is_first ? pair.first_name : pair.second_name) + ")";
    finding->looks = pair.looks;
    return finding;
  };
  for (const TensorName tensor : tensors)
    walk(input, pair, tensor, judgement, visit);
}

bool claims_same_bits(const KernelInfo& kernel, uint64_t flags) {
  return (kernel.capabilities.flags & flags) == flags &&
         nondeterministic_reason(kernel).empty();
}

std::string nondeterministic_reason(const KernelInfo& kernel) {
  return kernel.has_flag(QKVET_FLAG_NONDETERMINISTIC)
             ? "the kernel declares itself nondeterministic"
             : "";
}

}  // namespace qkvet::properties
