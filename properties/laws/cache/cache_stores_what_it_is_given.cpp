// SPDX-License-Identifier: Apache-2.0
// After every command the sequence is read back: the given values, bit for bit,
// or within half a step of their stored code.
#include <cmath>

#include "core/base/half.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::properties {
namespace of_cache_stores_what_it_is_given {

bool computes_read_back(const KernelInfo& kernel) {
  return (kernel.cache_options & QKVET_CACHE_READ_BACK_COMPUTES) != 0;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan story, plan;
  StoryEdits edits;
  edits.needs_truth = false;
  add_story(value, value.story, kernel, edits, story);
  for (PlannedCall& call : story.calls) {
    const bool command = call.operation != Operation::kCacheCreate;
    const Snapshot snapshot = *call.snapshot;
    plan.calls.push_back(std::move(call));
    // The sequence that a reorder changes last is as good as any.
    if (command && !snapshot.history.empty())
      add_read_back(snapshot, changed_sequence(snapshot.command), plan);
  }
  if (!kernel.has_read_back) plan.unsupported = "read_back is not offered";
  if (computes_read_back(kernel) && value.cache.stored != StoredAs::kAsGiven)
    plan.unsupported = "read_back() computes, and not from codes alone";
  return plan;
}

// The roundings if keys are stored rotated or times the scale, and computed
// when they are read: u_s of the stored number, which is at most the root of a
// a + b b, each way; 2 u for each rotation, with u at most u_s; and u for each
// product and quotient. Eight u_s (|a| + |b|) are more than all of that.
constexpr double kComputedRoundings = 8;

std::vector<double> errors_of_computed(const Case& value,
                                       const std::vector<double>& keys) {
  const int64_t d = value.shape.d;
  const int64_t turned = rope_channels(value);
  const bool half = value.rope.style == RopeStyle::kHalf;
  std::vector<double> errors(keys.size());
  for (size_t n = 0; n < keys.size(); ++n) {
    const auto c = static_cast<int64_t>(n) % d;
    double size = std::fabs(keys[n]);
    if (c < turned) {
      const int64_t apart = c < turned / 2 ? turned / 2 : -turned / 2;
      const int64_t partner = half ? c + apart : (c ^ 1);
      size += std::fabs(
          keys[n - static_cast<size_t>(c) + static_cast<size_t>(partner)]);
    }
    errors[n] = kComputedRoundings * (unit_roundoff(value.kv_dtype) * size +
                                      underflow_error(value.kv_dtype));
  }
  return errors;
}

struct Stored {
  TensorName tensor;
  const std::vector<std::byte>& actual;
  const std::vector<double>& given;
  const std::vector<double>& error;
  int64_t width;
};

void compare(const JudgeInput& input, const CallView& call,
             const Stored& stored, Judgement& judgement) {
  const Snapshot& snapshot = *call.planned->snapshot;
  const std::vector<double> actual = as_doubles(stored.actual, Dtype::kF32);
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  for (size_t n = 0; n < stored.given.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    if (!is_kept(input.value.cache, snapshot, at / stored.width % tokens))
      continue;
    ++judgement.compared;
    const double allowed = stored.error.empty() ? 0 : stored.error[n];
    const double given = stored.given[n];
    if (n < actual.size() && is_stored(actual[n], given, allowed)) continue;
    Finding finding;
    const int64_t heads = input.value.shape.Hkv;
    const Shape shape = {1,      heads,        heads,       tokens,
                         tokens, stored.width, stored.width};
    name_in_story(call_number(input, call), call,
                  element_name(stored.tensor, shape, at), finding);
    finding.expected = number_text(given, Dtype::kF32);
    if (allowed > 0)
      finding.allowed = "within " + number_text(allowed, Dtype::kF32);
    finding.actual =
        n < actual.size() ? number_text(actual[n], Dtype::kF32) : "nothing";
    return add_failure(judgement, std::move(finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const CallView& call : input.calls) {
    if (call.planned->operation != Operation::kCacheReadBack) continue;
    const Inputs& given = *call.inputs;
    const Shape& s = input.value.shape;
    const std::vector<double> computed =
        computes_read_back(input.kernel)
            ? errors_of_computed(input.value, given.k)
            : std::vector<double>{};
    compare(input, call,
            {TensorName::kK, call.outcome->stage_k, given.k,
             computed.empty() ? given.k_error : computed, s.d},
            judgement);
    compare(
        input, call,
        {TensorName::kV, call.outcome->stage_v, given.v, given.v_error, s.dv},
        judgement);
    if (judgement.verdict == Verdict::kFailed) break;
  }
  return judgement;
}

}  // namespace of_cache_stores_what_it_is_given

extern constinit const Law cache_stores_what_it_is_given{
    "cache_stores_what_it_is_given",
    "A cache holds the keys and values that it was given, or the nearest codes "
    "that they can be stored as.",
    "read_back(s) = history(s)",
    "a story of legal commands; the cache offers read_back()",
    "A cache moves and copies numbers and computes none.",
    "As given: no bit changes. Codes: half a step, and the roundings of scale, "
    "quotient and product. Keys that a cache declares to be computed: eight "
    "roundings.",
    "(a) it is exact; for codes (b) it is tighter than any answer",
    90,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_stores_what_it_is_given::plan,
    of_cache_stores_what_it_is_given::judge};

}  // namespace qkvet::properties
