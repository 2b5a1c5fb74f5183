// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/plan_calls.h"

#include <algorithm>
#include <utility>

#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// Starts of members become those of the same members in reverse order.
void turn_starts(std::vector<int64_t>& starts) {
  if (starts.empty()) return;
  std::vector<int64_t> sizes;
  for (size_t n = starts.size() - 1; n > 0; --n)
    sizes.push_back(starts[n] - starts[n - 1]);
  for (size_t n = 0; n < sizes.size(); ++n)
    starts[n + 1] = starts[n] + sizes[n];
}

void fill_starts(int64_t extent, std::vector<int64_t>& starts) {
  if (!starts.empty()) starts.back() = extent;
}

void inputs_of_batch(const Case& value, int64_t batch, Inputs& inputs) {
  inputs = make_inputs(batch_of(value, static_cast<Batch>(batch)));
}

}  // namespace

Case batch_of(Case value, Batch batch) {
  const Shape& s = value.shape;
  if (batch == Batch::kFull) {
    std::ranges::fill(value.q_len, s.Tq);
    std::ranges::fill(value.kv_len, s.Tk);
    fill_starts(s.Tq, value.cu_q);
    fill_starts(s.Tk, value.cu_k);
  }
  if (batch == Batch::kTurned) {
    std::ranges::reverse(value.q_len);
    std::ranges::reverse(value.kv_len);
    turn_starts(value.cu_q);
    turn_starts(value.cu_k);
  }
  return value;
}

Case with_a_smaller_batch(Case value) {
  Shape& s = value.shape;
  if (batch_of(value, Batch::kFull) != value) return value;
  s.Tk = std::max<int64_t>(s.Tk, 1);
  s.B = std::min<int64_t>(s.B, static_cast<int64_t>(kMaxMembers));
  if (value.cu_k.empty())
    value.kv_len.assign(static_cast<size_t>(s.B), s.Tk - 1);
  for (int64_t& start : value.cu_k) start = std::min(start, s.Tk - 1);
  return value;
}

PlannedCall call_with_plan(const Case& value, const KernelInfo& kernel,
                           Batch batch, PlanUse use, int slot) {
  PlannedCall call;
  if (batch != Batch::kCase) {
    call.variant = batch_of(value, batch);
    call.edit = inputs_of_batch;
    call.argument = static_cast<int64_t>(batch);
  }
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  call.plan_use = use;
  call.plan_slot = slot;
  return call;
}

Judgement judge_of_call(const JudgeInput& input, size_t n) {
  const CallView& call = input.calls[n];
  Judgement judgement;
  if (call.planned->variant) {
    const Case& variant = *call.planned->variant;
    const Visibility pairs(variant, *call.inputs,
                           ranges_in_window(input.kernel.dialect));
    compare_with_truth({variant, input.kernel, input.model, input.calls, &pairs,
                        input.same_bits},
                       call, judgement);
  } else {
    compare_with_truth(input, call, judgement);
  }
  if (judgement.finding) judgement.finding->planned = static_cast<int32_t>(n);
  return judgement;
}

bool must_be_right(const JudgeInput& input, size_t n, const char* looks,
                   Judgement& judgement) {
  Judgement own = judge_of_call(input, n);
  if (own.finding) own.finding->looks = looks;
  add_judgement(own, judgement);
  return own.verdict != Verdict::kFailed;
}

bool is_right_by_itself(const JudgeInput& input, size_t n,
                        Judgement& judgement) {
  const Judgement own = judge_of_call(input, n);
  add_counts(judgement, own);
  if (own.verdict != Verdict::kFailed) return true;
  judgement.verdict = Verdict::kGaveUp;
  judgement.reason = "the run of a new plan is wrong by itself";
  judgement.about = About::kOtherCall;
  return false;
}

}  // namespace qkvet::properties
