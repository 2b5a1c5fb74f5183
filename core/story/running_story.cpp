// SPDX-License-Identifier: Apache-2.0
#include "core/story/running_story.h"

namespace qkvet {
namespace {

bool is_command(const KernelCall& call) {
  return call.operation > Operation::kCacheCreate && !is_layer(call.operation);
}

}  // namespace

bool RunningStory::goes_on(int kernel, const KernelCall& call,
                           CallOutcome* outcome) const {
  if (!is_command(call)) return true;
  if (status_ == CallStatus::kDone && kernel == kernel_) return true;
  const bool foreign = status_ == CallStatus::kDone;
  outcome->status = foreign ? CallStatus::kNotRun : status_;
  outcome->text = foreign ? "the cache is another kernel's" : text_;
  return false;
}

void RunningStory::made(int kernel, const KernelCall& call, CallPlan* plan) {
  if (call.operation == Operation::kCacheCreate) {
    kernel_ = kernel;
    sequences_ = plan->sequences;
    status_ = CallStatus::kDone;
  } else if (is_command(call)) {
    plan->sequences = sequences_;
  }
}

void RunningStory::left_out(const KernelCall& call,
                            const CallOutcome& outcome) {
  if (call.operation == Operation::kCacheCreate) {
    status_ = outcome.status;
    text_ = outcome.text;
  } else if (is_command(call) && status_ == CallStatus::kDone) {
    status_ = CallStatus::kNotRun;
    text_ = "an earlier call to the cache was not made: " + outcome.text;
  }
}

void RunningStory::lost() {
  if (status_ != CallStatus::kDone) return;
  status_ = CallStatus::kNotRun;
  text_ = "the process that held the cache has ended";
}

}  // namespace qkvet
