// SPDX-License-Identifier: Apache-2.0
// Calls to a kernel with unknown conventions, one at a time. The answer is
// numbers, or is compared with the definition.
#ifndef QKVET_CLI_IDENTIFY_ASKING_H_
#define QKVET_CLI_IDENTIFY_ASKING_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "diagnosis/instead/reading.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

using InputEdit = std::function<void(Inputs&)>;

// The answer to a call compared with the definition.
enum class Answered : uint8_t { kAgrees, kRefused, kDied, kWrong };

struct Reply {
  Answered answered = Answered::kRefused;
  std::string said;         // why it was refused, how it died, the error
  CallOutcome outcome;      // if it was done
  std::vector<double> o;    // the same in numbers
  std::vector<double> lse;  // if requested
  Inputs inputs;            // as the kernel got them
  // judged(): the largest error in bounds of an undeclared kernel.
  double off = 0;
  int64_t compared = 0;  // numbers that this is the largest error of

  bool done() const {
    return answered == Answered::kAgrees || answered == Answered::kWrong;
  }
  bool agrees() const { return answered == Answered::kAgrees; }
  // No other hypothesis about the call has to be tried.
  bool is_sure() const { return agrees() && off <= 1; }
};

class Asker {
 public:
  // `executor` is undeclared (core/sandbox/undeclared.h).
  Asker(Executor& executor, int kernel);

  // The call, not judged: `answered` is kWrong if it was done.
  Reply ask(const Case& value, const InputEdit& edit = {},
            bool want_lse = false);

  // The call, and whether the answer agrees with the definition: under the
  // arithmetic of an undeclared kernel, or else under one of the coarsest that
  // can be declared, which tolerate some mistakes. `outputs` are of
  // QKVET_OPTION_LSE and _WEIGHTS.
  Reply judged(const Case& value, uint64_t outputs = 0);
  // Distance of o of that answer from the expected o of another call with these
  // extents, or of one that is computed in another way. Units as in Reply::off;
  // infinite if it is no nearer than kNearer times, or if the coarsest
  // arithmetic does not explain it.
  double off_from(
      const Reply& reply, const Case& other,
      const diagnosis::Edit& edit = [](auto&, auto&) {});
  // The computation that explains the answer to this case best, of those that
  // diagnoses know: "the result without the causal rule"; "" if there is none.
  std::string computed_instead(const Reply& reply, const Case& value);

  // The dialect found so far, by which answers are judged.
  qkvet_dialect dialect{};

  Executor& executor() { return *executor_; }
  int kernel() const { return kernel_; }
  const KernelInfo& info() const;
  int64_t calls() const { return calls_; }

  // The base of all calls: storage, scale, causal rule and extents with which
  // the kernel answers correctly.
  Case base;
  // Whether it takes more queries than keys, or fewer.
  bool takes_cross_lengths = false;

 private:
  properties::JudgedKernel judge_with(
      uint64_t outputs, const reference::PrecisionModel& model) const;
  // Under one of the coarsest arithmetics.
  bool is_explained(properties::CaseWork& work, uint64_t outputs,
                    std::span<const CallOutcome> outcomes) const;

  Executor* executor_;
  int kernel_;
  int64_t calls_ = 0;
  properties::TimeUse time_;
};

// An explanation is preferred to another if it is nearer by this factor.
inline constexpr double kNearer = 8;

// A value of a recipe's tensor as numbers of the storage type.
double stored(double value, Dtype dtype);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_ASKING_H_
