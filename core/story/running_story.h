// SPDX-License-Identifier: Apache-2.0
// The cache of a call in a story, as an executor tracks it: the cache of the
// last create, if that was made, no command was left out since then, and the
// process that holds the cache lives.
#ifndef QKVET_CORE_STORY_RUNNING_STORY_H_
#define QKVET_CORE_STORY_RUNNING_STORY_H_

#include <string>

#include "core/call/call.h"
#include "core/door/call_plan.h"

namespace qkvet {

class RunningStory {
 public:
  // False if the call has no cache to act on: the call must not be made, and
  // *outcome contains the reason. True for calls that need none.
  bool goes_on(int kernel, const KernelCall& call, CallOutcome* outcome) const;
  // The call is about to be made; `plan` learns which cache it acts on.
  void made(int kernel, const KernelCall& call, CallPlan* plan);
  // The call is not made, for the reason in `outcome`.
  void left_out(const KernelCall& call, const CallOutcome& outcome);
  // The process has ended, and its cache with it.
  void lost();

 private:
  int kernel_ = -1;
  int64_t sequences_ = 0;
  // The status of the commands that cannot be made; kDone while they can.
  CallStatus status_ = CallStatus::kNotRun;
  std::string text_ = "there is no cache to act on";
};

}  // namespace qkvet

#endif  // QKVET_CORE_STORY_RUNNING_STORY_H_
