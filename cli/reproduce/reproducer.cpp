// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/reproducer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/reproduce/reproducer_outputs.h"
#include "properties/calls/layer_calls.h"
#include "properties/run/shrink.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::cli {
namespace {

bool shows_failure(const WrittenCall& call) {
  for (const WrittenOutput& output : call.outputs)
    for (size_t n = 0; n < output.numbers.size(); ++n)
      if (is_wrong(output.wanted_here()[n], output.numbers[n])) return true;
  return !call.wrong_end.empty() || call.lengths != call.found_lengths;
}

bool differs(const Reproducer& from, const SameBits& pair) {
  const auto number = [&](size_t call, int64_t n) {
    return from.calls[call].output(pair.tensor)->numbers[n];
  };
  return differ(number(pair.first_call, pair.first), pair.factor,
                number(pair.second_call, pair.second));
}

// A layer or a cache may refuse a call, and must if the call is illegal.
bool is_written(const KernelCall& call, const CallOutcome& outcome) {
  const bool may_refuse = call.operation != Operation::kForward &&
                          call.operation != Operation::kBackward;
  if (outcome.status == CallStatus::kDone)
    return may_refuse || call.mistake == Mistake::kNone;
  return may_refuse && (outcome.status == CallStatus::kRefused ||
                        outcome.status == CallStatus::kUnsupported);
}

// "" or why the calls' results cannot become a reproducer.
std::string unfit_reason(const Judgement& judgement, const KernelInfo& kernel,
                         const std::vector<KernelCall>& calls,
                         const std::vector<CallOutcome>& outcomes) {
  if (judgement.verdict != Verdict::kFailed)
    return "the second time the verdict was: " +
           std::string(verdict_name(judgement.verdict));
  if (judgement.kind != FailureKind::kLaw)
    return "the failure is no number but what the kernel did to memory or to "
           "its process; allowed: wrong numbers (debug it with --in-process)";
  if (std::any_of(calls.begin(), calls.end(), [](const KernelCall& call) {
        return call.dropout.has_value();
      }))
    return "what is right depends on which weights the kernel drops; allowed: "
           "calls without dropout";
  if (std::any_of(calls.begin(), calls.end(), [](const KernelCall& call) {
        return call.layout == Layout::kFar;
      }))
    return "the parts of tensors lie far apart (layout=far), in memory that a "
           "program would have to reserve; allowed: other layouts";
  if ((kernel.capabilities.layouts & QKVET_LAYOUT_PACKED_QKV) != 0 &&
      std::any_of(calls.begin(), calls.end(), [](const KernelCall& call) {
        return call.layout == Layout::kPacked;
      }))
    return "the kernel is given q, k and v in one block (layout=packed); "
           "allowed: layouts of tensors of their own";
  if (std::any_of(calls.begin(), calls.end(), [](const KernelCall& call) {
        return call.fused != FusedOrder::kNone || call.mask_buffer != nullptr;
      }))
    return "the layer is given a fused matrix or a mask buffer (fused=, "
           "context=); allowed: cases without them";
  for (size_t i = 0; i < calls.size(); ++i)
    if (!is_written(calls[i], outcomes[i]))
      return "a call of the law is refused, or has to be; allowed: laws about "
             "the numbers of forward() and backward()";
  return "";
}

void add_end(const PlannedCall& planned, const CallOutcome& outcome,
             WrittenCall& written) {
  written.refused = outcome.status != CallStatus::kDone;
  written.said = written.refused ? outcome.text : "";
  if (planned.expects_refusal) {
    written.refusal = "refused with a reason";
    if (planned.snapshot && !planned.snapshot->illegal.empty())
      written.refusal += ": " + planned.snapshot->illegal;
    if (!written.refused)
      written.wrong_end = "accepted";
    else if (!outcome.gave_reason)
      written.wrong_end = "refused without a reason";
  } else if (written.refused) {
    written.wrong_end = "refused";
  }
  if (planned.snapshot && planned.operation != Operation::kCacheReadBack) {
    written.lengths = planned.snapshot->lengths;
    written.found_lengths = outcome.lengths;
  }
}

std::string place_of(const PlannedCall& planned, size_t number) {
  if (!planned.snapshot) return layer_mistake_text(planned.mistake);
  CallView view;
  view.planned = &planned;
  return fmt::format("call {}, {}", number, command_place(view));
}

}  // namespace

const WrittenOutput* WrittenCall::output(TensorName name) const {
  for (const WrittenOutput& one : outputs)
    if (one.tensor == name) return &one;
  return nullptr;
}

bool is_wrong(const Wanted& wanted, double actual) {
  if (std::isinf(wanted.bound)) return false;
  if (std::isnan(wanted.value)) return !std::isnan(actual);
  return !(wanted.low <= actual && actual <= wanted.high);
}

bool differ(double first, double factor, double second) {
  const double expected = first * factor;
  if (expected == second) return false;
  return !(std::isnan(expected) && std::isnan(second));
}

std::string make_reproducer(const Law& law, const Case& value,
                            const KernelUnderTest& kernel, Executor& executor,
                            TimeUse& time, Reproducer* out) {
  CaseWork work(law, value, /*with_twin=*/true, time);
  if (work.settled(kernel.judged)) return "the law is not about this case";
  const std::vector<KernelCall> calls = work.calls_for(kernel.judged);
  const std::vector<CallOutcome> outcomes = executor.run(kernel.index, calls);
  const Judgement judgement =
      work.judge(kernel.judged, outcomes, &out->same_bits);
  std::string why =
      unfit_reason(judgement, kernel.judged.info, calls, outcomes);
  if (!why.empty()) return why;
  out->law = &law;
  out->text = to_string(value);
  out->digest = input_digest(make_inputs(value));
  out->kernel = kernel.judged.info.name;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto whole = work.whole_call(kernel.judged, i);
    if (!whole.twin_disagrees.empty()) return whole.twin_disagrees;
    WrittenCall written;
    written.value = whole.value;
    if (!plan_call(calls[i], kernel.judged.info, &written.plan, &why))
      return why;
    written.place = place_of(whole.planned, i);
    written.inputs = call_inputs(calls[i], written.plan);
    add_outputs(value, whole, outcomes[i], kernel.judged, written);
    add_end(whole.planned, outcomes[i], written);
    out->calls.push_back(std::move(written));
  }
  out->shows_failure =
      std::any_of(out->calls.begin(), out->calls.end(), shows_failure);
  if (out->shows_failure) {
    out->same_bits.clear();
    return "";
  }
  out->shows_failure =
      std::any_of(out->same_bits.begin(), out->same_bits.end(),
                  [&](const SameBits& pair) { return differs(*out, pair); });
  if (!out->shows_failure) out->same_bits.clear();
  return "";
}

const char* index_letters(Operation operation, TensorName tensor) {
  if (tensor == TensorName::kY) return "btc";
  if (tensor == TensorName::kWeights) return "bhij";
  if (tensor == TensorName::kKCache)
    return "bhicx";  // x: in groups of channels
  const bool read_back = operation == Operation::kCacheReadBack;
  if (read_back || tensor == TensorName::kDK || tensor == TensorName::kDV)
    return "bhjc";
  if (tensor == TensorName::kDBias) return "bhij";
  if (tensor == TensorName::kDSink) return "h";
  return operation == Operation::kLayer ? "bhtc" : "bhic";
}

}  // namespace qkvet::cli
