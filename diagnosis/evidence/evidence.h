// SPDX-License-Identifier: Apache-2.0
// The answers of the kernel under test to a case of a law: the evidence for and
// against hypotheses about its fault.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_EVIDENCE_H_
#define QKVET_DIAGNOSIS_EVIDENCE_EVIDENCE_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "core/door/executor.h"
#include "properties/checking/case_work.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {

struct Evidence {
  const Law* law = nullptr;
  std::unique_ptr<CaseWork> work;
  std::vector<KernelCall> calls;
  std::vector<CallOutcome> outcomes;  // one per call
  Judgement judgement;

  bool failed() const { return judgement.verdict == Verdict::kFailed; }
  // A case without anything to compare, such as one without a query.
  bool is_empty_handed() const { return !failed() && judgement.compared == 0; }
  const Case& value() const { return work->value(); }
};

// The law that judges the answer of a case in one call. Agreement does not
// judge dropout.
const Law& law_of_answers(const Case& value);

// Seconds of calls after which a part of a diagnosis stops: for kernels that
// hang, or are compiled for each extent. It is CPU time, so that other load on
// the machine does not change the result.
inline constexpr double kMostSecondsOfPart = 2.5;
// The same for the diagnosis itself: oracles, bounds, and facts about cases
// that are never run. Most parts take a twentieth of it, the most expensive
// search of the tests half: CPU time differs by that much between a shared core
// and a free one.
inline constexpr double kMostOwnSecondsOfPart = 16;
// The same on the clock, for kernels that sleep or wait for a device, with room
// for a machine that runs ten other jobs.
inline constexpr double kMostClockOfPart = 30;

// Changes of calls. The first removes the effects of earlier calls. The second
// fills unwritten memory with finite numbers instead of NaN: NaN stays NaN
// whatever a probe changes.
void begin_new_process(std::vector<KernelCall>& calls);
void use_finite_memory(std::vector<KernelCall>& calls);

// A case with a recorded answer, and its law.
struct AnsweredCase {
  const Law* law = nullptr;
  Case value;
};
// For a kernel that cannot be run: all its recorded cases, in the order in
// which they are used.
using Answered = std::vector<AnsweredCase>;

// The kernel under test and the source of all evidence about it: the executor,
// the clock of its calls, and its recorded answers if it cannot be called. All
// must outlive what is made of it.
struct EvidencePool {
  const KernelUnderTest& kernel;
  Executor& executor;
  TimeUse& time;
  const Answered* answered = nullptr;
};

// Runs the kernel under test, for a limited number of calls and a limited time.
class Witness {
 public:
  explicit Witness(const EvidencePool& pool, int most_calls, double parts = 1)
      : Witness(pool.kernel.judged, pool.kernel.index, pool.executor, pool.time,
                most_calls, parts) {}
  // All arguments must outlive this. `parts`: its time in units of a usual
  // part's.
  Witness(const JudgedKernel& kernel, int index, Executor& executor,
          TimeUse& time, int most_calls, double parts = 1)
      : kernel_(&kernel),
        index_(index),
        executor_(&executor),
        time_(&time),
        left_(most_calls),
        parts_(parts),
        began_(time.kernel),
        own_began_(own_seconds()) {}

  const JudgedKernel& kernel() const { return *kernel_; }
  TimeUse& time() const { return *time_; }
  int calls_left() const { return left_; }
  int calls_made() const { return made_; }
  // The share of the time limit that is used; from 1 on no further case is run.
  double share_of_time() const {
    return std::max({cpu_seconds_ / kMostSecondsOfPart,
                     (own_seconds() - own_began_) / kMostOwnSecondsOfPart,
                     (time_->kernel - began_) / kMostClockOfPart}) /
           parts_;
  }
  bool is_too_slow() const { return share_of_time() > 1; }
  // A call hung; others may too, each for seconds.
  bool has_hung_long() const { return has_hung_long_; }

  // Prepares the case without running it; null if the law does not apply to it
  // or needs more calls than are left.
  std::unique_ptr<Evidence> prepare(const Law& law, const Case& value);
  // Runs the prepared case; null if the kernel does not take it.
  std::unique_ptr<Evidence> ask(std::unique_ptr<Evidence> prepared);
  std::unique_ptr<Evidence> ask(const Law& law, const Case& value) {
    return ask(prepare(law, value));
  }
  // Runs the case in a new process, after one call of each of `before`. All
  // calls use the same memory, so that addresses decide nothing. Also null if
  // one of the earlier calls ends the process.
  std::unique_ptr<Evidence> ask_after(const std::vector<Case>& before,
                                      const Law& law, const Case& value);
  // The same with changed calls; also null for an invalid case.
  using Change = std::function<void(std::vector<KernelCall>& calls)>;
  std::unique_ptr<Evidence> ask(const Law& law, const Case& value,
                                const Change& change);

 private:
  static double own_seconds();  // CPU time of this thread
  // Calls and their time are counted.
  std::vector<CallOutcome> outcomes_of(const std::vector<KernelCall>& calls);
  std::unique_ptr<Evidence> judged(std::unique_ptr<Evidence> asked);

  const JudgedKernel* kernel_;
  int index_;
  Executor* executor_;
  TimeUse* time_;
  int left_;
  int made_ = 0;
  double parts_;
  double began_;  // on the clock of all calls
  double own_began_;
  double cpu_seconds_ = 0;  // of its own
  bool expects_hangs_ = false, has_hung_long_ = false;
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_EVIDENCE_H_
