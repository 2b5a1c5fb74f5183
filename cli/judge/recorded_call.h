// SPDX-License-Identifier: Apache-2.0
// Recorded calls, each in its own file, as a kernel that answers only these. It
// can be used like any other kernel.
#ifndef QKVET_CLI_JUDGE_RECORDED_CALL_H_
#define QKVET_CLI_JUDGE_RECORDED_CALL_H_

#include <map>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "golden/format/recording.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

// A kernel made of a recorded call: it takes exactly this call, and returns the
// recorded answer. "" or one line.
std::string recorded_kernel(const Recording& recording, const std::string& name,
                            const std::string& dialect, JudgedKernel* kernel);

class RecordedCalls : public Executor {
 public:
  // Answers the call of the law of agreement on the recording. "" or one line:
  // why that call cannot be made.
  std::string add(const Recording& recording, const JudgedKernel& kernel);

  const std::vector<KernelInfo>& kernels() const override { return infos_; }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override;

 private:
  std::vector<KernelInfo> infos_;
  std::map<std::string, CallOutcome> answers_;  // by the digest of equal calls
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_JUDGE_RECORDED_CALL_H_
