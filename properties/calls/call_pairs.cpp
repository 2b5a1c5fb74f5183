// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace {

double factor_of(const CallPair& pair, TensorName tensor) {
  return tensor == TensorName::kO || is_gradient(tensor) ? pair.factor : 1;
}

double offset_of(const JudgeInput& input, const CallPair& pair,
                 const Element& at) {
  return at.tensor == TensorName::kLse && pair.lse_offset
             ? pair.lse_offset(at) * lse_unit(input.kernel)
             : 0;
}

// Elements of other extents than the case's have no number.
Spot spot_of(const Element& at, const CallOutput& output, size_t n) {
  return {at.tensor, output.own_shape ? static_cast<int64_t>(n) : -1, -1};
}

// Calls `visit` for every element of the first call that has a partner in the
// second, with both indices.
template <class Visit>
void walk(const JudgeInput& input, const CallPair& pair, Outputs tensors,
          Judgement& judgement, Visit visit) {
  const Outputs all = outputs_of(input.value.subject());
  for (const TensorName tensor : tensors.size() == 0 ? all : tensors) {
    const CallOutput first = output_of(input, input.calls[pair.first], tensor);
    const CallOutput second =
        output_of(input, input.calls[pair.second], tensor);
    if (second.values.empty()) continue;
    for (size_t n = 0; n < first.values.size(); ++n) {
      const Element from = first.grid.at(n);
      const std::optional<Element> to = pair.map ? pair.map(from) : from;
      if (!to || !counts(input, from)) continue;
      auto finding = visit(first, n, second, second.grid.index(*to), from);
      if (!finding) continue;
      finding->where = first.grid.name(n);
      if (finding->looks.empty())
        finding->looks = tensor == TensorName::kLse
                             ? "lse is not the logarithm of the sum of "
                               "exponentials of all scores"
                             : pair.looks;
      add_failure(judgement, std::move(*finding));
    }
  }
}

}  // namespace

void compare_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                         Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const CallOutput& first, size_t n,
                         const CallOutput& second, size_t m,
                         const Element& at) -> std::optional<Finding> {
    const double factor = factor_of(pair, at.tensor);
    const double expected = first.values[n] * factor;
    ++judgement.compared;
    if (input.same_bits != nullptr)
      input.same_bits->push_back({at.tensor, pair.first, pair.second,
                                  static_cast<int64_t>(n),
                                  static_cast<int64_t>(m), factor});
    if (equal_numbers(expected, second.values[m]) ||
        note_if_outdone(judgement, 0))
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
  walk(input, pair, tensors, judgement, visit);
}

void compare_within_bounds(const JudgeInput& input, const CallPair& pair,
                           Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const CallOutput& first, size_t n,
                         const CallOutput& second, size_t m,
                         const Element& at) {
    const double offset = offset_of(input, pair, at);
    const double factor = factor_of(pair, at.tensor);
    const double size = std::fabs(factor);
    // The stored numbers were rounded before the offset was added, and before
    // the factor.
    const double rounding =
        unit_roundoff(first.dtype) * std::fabs(offset) +
        std::max(size - 1, 0.0) * underflow_error(first.dtype);
    return compare_two_ways(
        {second.values[m] - offset, factor * first.values[n],
         size * first.bound_at(n) + second.bound_at(m) + rounding,
         std::max(size * first.reach_at(n), second.reach_at(m)), first.dtype,
         pair.second_name, pair.first_name, spot_of(at, first, n)},
        judgement);
  };
  walk(input, pair, tensors, judgement, visit);
}

void compare_within_first_bound(const JudgeInput& input, const CallPair& pair,
                                Judgement& judgement, Outputs tensors) {
  const auto visit = [&](const CallOutput& first, size_t n,
                         const CallOutput& second, size_t m,
                         const Element& at) -> std::optional<Finding> {
    const double bound = first.bound_at(n);
    // A row that is equally wrong in both calls is not the concern of such a
    // law.
    if (equal_numbers(first.values[n], second.values[m])) {
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
    const double truth = (*first.truth.values)[n];
    const auto off = [truth](double x) {
      return std::isnan(x) ? std::numeric_limits<double>::infinity()
                           : std::fabs(x - truth);
    };
    const bool is_first = off(first.values[n]) > off(second.values[m]);
    const double worse = is_first ? first.values[n] : second.values[m];
    const double other = is_first ? second.values[m] : first.values[n];
    Spot spot = spot_of(at, first, n);
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
  walk(input, pair, tensors, judgement, visit);
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
