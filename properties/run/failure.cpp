// SPDX-License-Identifier: Apache-2.0
#include "properties/run/failure.h"

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/fault_of.h"
#include "properties/run/other_dialect.h"
#include "properties/run/shrink.h"

namespace qkvet::properties {
namespace {

// How often a failing case must fail again to be steady.
constexpr int kRepeats = 10;

}  // namespace

Traits traits_of(const Case& value, const Judgement& judgement) {
  Traits traits;
  const std::string actual = judgement.finding ? judgement.finding->actual : "";
  if (judgement.kind == FailureKind::kCrash) traits.outcome = "crash";
  if (judgement.kind == FailureKind::kHang) traits.outcome = "hang";
  if (judgement.kind == FailureKind::kMemory) traits.outcome = "memory";
  const auto begins = [&actual](std::string_view word) {
    return actual.starts_with(word) ||
           (actual.starts_with("-") && actual.substr(1).starts_with(word));
  };
  if (begins("nan")) traits.outcome = "NaN";
  if (begins("inf")) traits.outcome = "infinity";
  traits.needs = options_of(value);
  uint64_t bit = uint64_t{1} << 40;  // beyond all QKVET_OPTION_*
  const auto add = [&](bool needed) {
    if (needed) traits.needs |= bit;
    bit <<= 1;
  };
  for (const Dtype dtype : {value.q_dtype, value.kv_dtype, value.o_dtype})
    add(dtype_bytes(dtype) < 4);
  add(value.causal != Causal::kNone);
  add(value.scale && *value.scale < 0);
  add(value.scale.has_value());
  add(value.shape.H > value.shape.Hkv);
  return traits;
}

namespace {

// Whether a failing case with these traits may fail for the cause of another
// one that fails.
bool may_share_cause(const Traits& found, const Traits& needed) {
  return found.outcome == needed.outcome &&
         (found.needs & needed.needs) == needed.needs;
}

// With few smaller shapes, which are quickly tried.
bool is_tiny(const Shape& shape) {
  constexpr int64_t kExtents = 16;
  return sum_of_extents(shape) <= kExtents;
}

bool is_no_larger(const Shape& a, const Shape& b) {
  return a.B <= b.B && a.H <= b.H && a.Hkv <= b.Hkv && a.Tq <= b.Tq &&
         a.Tk <= b.Tk && a.d <= b.d && a.dv <= b.dv && a.D <= b.D;
}

// The smallest failing case of another law, constrained to this one: a step
// down from the found case, if it is no larger.
std::optional<Case> step_to(const Case& like, const Law& law,
                            const Candidate& candidate, const Scope& scope) {
  if (like.subject() != candidate.value.subject()) return std::nullopt;
  Case near = constrained(law, like);
  if (!invalid_reason(near).empty() || !keeps_pins(scope, near) ||
      !is_no_larger(near.shape, candidate.value.shape))
    return std::nullopt;
  return near;
}

}  // namespace

Failure shrunk_failure(const Candidate& candidate,
                       const KernelUnderTest& kernel, Executor& executor,
                       TimeUse& time, const Scope& scope, bool same_outcome,
                       const std::vector<Case>& like) {
  const auto check = [&](const Law& law, const Case& value) {
    return check_case(law, value, kernel.judged, kernel.index, executor,
                      /*with_twin=*/false, time);
  };
  Failure failure;
  failure.law = candidate.planned;
  failure.number = candidate.number;
  failure.found = candidate.value;
  failure.seconds = candidate.seconds;
  failure.smallest = candidate.value;
  failure.judgement = candidate.judgement;
  // A hang costs seconds, so it is not repeated.
  failure.repeats =
      candidate.judgement.kind == FailureKind::kHang ? 0 : kRepeats;
  const Law* law = candidate.planned;
  // If another law has already led to a small case, this law's version of that
  // case is run ten times and shrunk.
  Case from = candidate.value;
  Judgement judged = candidate.judgement;
  const bool hangs = candidate.judgement.kind == FailureKind::kHang;
  bool is_small = false;
  for (const Case& other : like)
    if (const auto near = step_to(other, *law, candidate, scope);
        near && !hangs && !is_small) {
      Judgement there = check(*law, *near);
      is_small =
          there.verdict == Verdict::kFailed &&
          there.kind == candidate.judgement.kind &&
          may_share_cause(traits_of(candidate.value, candidate.judgement),
                          traits_of(*near, there));
      if (is_small) {
        from = *near;
        judged = std::move(there);
      }
    }
  for (int i = 0; i < failure.repeats; ++i) {
    const Judgement again = check(*law, from);
    failure.repeats_failed += again.verdict == Verdict::kFailed;
  }
  if (failure.repeats_failed == failure.repeats &&
      !(hangs && candidate.hangs_once)) {
    // A failure that another law found is shrunk under the law that owns it.
    if (!candidate.keeps_law)
      law = &replayed_law(*law, from, judged, kernel.judged, kernel.index,
                          executor, time);
    Shrunk smallest =
        shrink(*law, from, judged, kernel.judged, kernel.index, executor, time,
               scope, same_outcome, !is_small || is_tiny(from.shape));
    failure.smallest = std::move(smallest.value);
    failure.judgement = std::move(smallest.judgement);
    failure.shrink_steps = smallest.steps + (is_small ? 1 : 0);
    failure.shrink_tries = smallest.tries;
    failure.law = law;
    failure.story = fault_of(*law, failure.smallest, failure.judgement,
                             kernel.judged, kernel.index, executor, time);
  }
  // A death, an unsteady failure or one of plans has nothing to do with
  // conventions.
  if (failure.judgement.kind == FailureKind::kLaw &&
      failure.repeats_failed == failure.repeats && !law->domain.plans)
    failure.dialect = other_dialect(candidate.value, kernel.judged,
                                    kernel.index, executor, time);
  failure.digest = input_digest(make_inputs(failure.smallest));
  return failure;
}

std::vector<Failure> shrunk_failures(const std::vector<Candidate>& failing,
                                     const KernelUnderTest& kernel,
                                     Executor& executor, TimeUse& time,
                                     const Scope& scope,
                                     const std::vector<Case>& like) {
  std::vector<Failure> failures;
  for (const Candidate& candidate : failing) {
    const Traits traits = traits_of(candidate.value, candidate.judgement);
    const auto same = std::find_if(
        failures.begin(), failures.end(), [&](const Failure& failure) {
          return may_share_cause(
              traits, traits_of(failure.smallest, failure.judgement));
        });
    if (same != failures.end()) {
      ++same->alike;
      continue;
    }
    if (failures.size() > kMostOthers) continue;
    Failure failure =
        shrunk_failure(candidate, kernel, executor, time, scope,
                       /*same_outcome=*/!failures.empty(),
                       failures.empty() ? like : std::vector<Case>{});
    // Unsteady failures are not shrunk, and one of them is enough.
    if (!failures.empty() && failure.repeats_failed < failure.repeats) continue;
    failure.alike = 1;
    failures.push_back(std::move(failure));
  }
  return failures;
}

}  // namespace qkvet::properties
