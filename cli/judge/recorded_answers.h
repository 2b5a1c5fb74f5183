// SPDX-License-Identifier: Apache-2.0
// Answers to a plan, and a kernel that returns them.
#ifndef QKVET_CLI_JUDGE_RECORDED_ANSWERS_H_
#define QKVET_CLI_JUDGE_RECORDED_ANSWERS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/reproduce/plan_folder.h"

namespace qkvet::cli {

// To one call.
struct RecordedAnswer {
  std::optional<std::string> refusal;  // the reason, perhaps ""
  std::map<TensorName, std::vector<std::byte>> outputs;
};

// Reads the answers in a folder: the plan's own, or another one. One answer for
// each call, if it is there; "" or one line that names the file.
std::string read_answers(const PlanFolder& plan, const std::string& plan_folder,
                         const std::string& folder,
                         std::vector<RecordedAnswer>* answers);

// "c0012.o.npy", for all outputs without an answer.
std::vector<std::string> missing_answers(
    const PlanFolder& plan, const std::vector<RecordedAnswer>& answers);

// Answers the calls of the plan, and no others.
class RecordedAnswers : public Executor {
 public:
  // Both must outlive this.
  RecordedAnswers(const PlanFolder& plan,
                  const std::vector<RecordedAnswer>& answers)
      : plan_(plan), answers_(answers), infos_{plan.kernel.info} {}

  const std::vector<KernelInfo>& kernels() const override { return infos_; }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override;

 private:
  CallOutcome answer(const KernelCall& call) const;

  const PlanFolder& plan_;
  const std::vector<RecordedAnswer>& answers_;
  std::vector<KernelInfo> infos_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_JUDGE_RECORDED_ANSWERS_H_
