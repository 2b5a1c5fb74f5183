// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/match.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/half.h"
#include "core/call/tensor_table.h"
#include "core/door/call_plan.h"
#include "properties/judging/compare.h"
#include "properties/judging/outputs.h"

namespace qkvet::diagnosis {
namespace {

constexpr double kWider = 4;
// A wrong sum may contain numbers that the right one does not, such as keys
// that should be masked. Its rounding is then that of these numbers, in units
// of f32, the finer arithmetic that both have.
constexpr double kUnitsOfWrongNumbers = 256;

bool same_number(double a, double b, double bounds, Dtype dtype) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  // NaN: the right value is unknown, for example because a NaN is visible.
  if (std::isnan(bounds)) return true;
  const double wrong = kUnitsOfWrongNumbers * unit_roundoff(Dtype::kF32) *
                       std::max(std::fabs(a), std::fabs(b));
  return std::fabs(a - b) <= allowed_difference(a, b, bounds + wrong, dtype);
}

// An output that one of the two does not return is no evidence, nor is one of
// an illegal call.
bool same_numbers(const std::vector<std::byte>& a,
                  const std::vector<std::byte>& b, Dtype dtype,
                  const std::vector<double>& one,
                  const std::vector<double>& other) {
  if (a.empty() || b.empty()) return true;
  const std::vector<double> x = as_doubles(a, dtype), y = as_doubles(b, dtype);
  if (x.size() != y.size()) return false;
  if (one.size() != x.size() || other.size() != x.size()) return true;
  for (size_t n = 0; n < x.size(); ++n)
    if (!same_number(x[n], y[n], kWider * (one[n] + other[n]), dtype))
      return false;
  return true;
}

// Compares stored data bit by bit.
bool same_stored(const std::vector<std::byte>& a,
                 const std::vector<std::byte>& b, Dtype dtype) {
  if (a.empty() || b.empty()) return true;
  const std::vector<double> x = as_doubles(a, dtype), y = as_doubles(b, dtype);
  return std::equal(
      x.begin(), x.end(), y.begin(), y.end(), [](double one, double other) {
        return one == other || (std::isnan(one) && std::isnan(other));
      });
}

// How a call ended. A malformed call may be refused by supports() or by the
// call itself.
CallStatus end_of(const KernelCall& call, const CallOutcome& outcome) {
  const bool malformed = call.mistake != Mistake::kNone && outcome.asked_kernel;
  return malformed && outcome.status == CallStatus::kUnsupported
             ? CallStatus::kRefused
             : outcome.status;
}

bool same_traces(const KernelCall& call, const CallOutcome& a,
                 const CallOutcome& b) {
  const auto place = [](const std::optional<MemoryFault>& fault) {
    return fault ? std::optional(std::tuple(fault->tensor, fault->of_reason,
                                            fault->of_heap))
                 : std::nullopt;
  };
  return end_of(call, a) == end_of(call, b) && a.unwritten == b.unwritten &&
         place(a.fault) == place(b.fault) &&
         place(a.damage) == place(b.damage) && a.lengths == b.lengths;
}

bool same_outputs(const KernelCall& call, const CallOutcome& a,
                  const CallOutcome& b, const CallBounds& actual,
                  const CallBounds& predicted) {
  for (const Outputs outputs :
       {kForwardOutputs, kY, kGradients, kLayerGradients})
    for (const TensorName output : outputs) {
      const auto member = output_member(output);
      if (!same_numbers(a.*member, b.*member,
                        stored_type(call, tensor_row(output).type),
                        actual.of(output), predicted.of(output)))
        return false;
    }
  return same_stored(a.k_cache, b.k_cache, call.kv_dtype) &&
         same_stored(a.v_cache, b.v_cache, call.kv_dtype);
}

}  // namespace

bool says_nothing(const KernelCall& call, const CallOutcome& outcome) {
  const CallStatus end = end_of(call, outcome);
  return end == CallStatus::kUnsupported || end == CallStatus::kUnavailable ||
         end == CallStatus::kNotRun;
}

Word compare_answers(Evidence& evidence, const JudgedKernel& kernel,
                     const JudgedKernel& fault,
                     std::span<const CallOutcome> predicted) {
  for (size_t n = 0; n < predicted.size(); ++n) {
    const CallOutcome& actual = evidence.outcomes[n];
    if (!same_traces(evidence.calls[n], actual, predicted[n]))
      return Word::kContradicts;
    if (actual.status != CallStatus::kDone) continue;
    const CallBounds own = evidence.work->bounds(kernel, n, kernel.model);
    const CallBounds other = evidence.work->bounds(kernel, n, fault.model);
    if (!same_outputs(evidence.calls[n], actual, predicted[n], own, other))
      return Word::kContradicts;
  }
  return Word::kPredicted;
}

}  // namespace qkvet::diagnosis
