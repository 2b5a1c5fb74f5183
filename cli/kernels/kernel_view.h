// SPDX-License-Identifier: Apache-2.0
// One call of a kernel compared with the definition: its weights, and stage by
// stage whether it agrees.
#ifndef QKVET_CLI_KERNELS_KERNEL_VIEW_H_
#define QKVET_CLI_KERNELS_KERNEL_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/checking/case_work.h"
#include "report/exit_code.h"

namespace qkvet::cli {

struct KernelStage {
  std::string name;  // "q", "k", "v", "attended", "y"; "lse", "weights", "o"
  Judgement judgement;
};

struct KernelView {
  // Set if there are no numbers to judge: refused, died, or in doubt.
  std::optional<Judgement> ended;
  // In the order in which a call computes them. Each stage of a layer is judged
  // on the kernel's own input to it.
  std::vector<KernelStage> stages;
  std::vector<double> weights;  // [H,Tq,Tk] of the member; empty: not known
  std::string weights_from;     // their origin, or why they are unknown
  std::vector<double> output;   // o [B,H,Tq,dv], or y [B,T,D]

  // The first stage at which it differs from the definition; null: none.
  const KernelStage* parts_at() const;
  ExitCode exit_code() const;
};

// Whether to make further calls for the weights of a kernel that returns none.
enum class AskForWeights : uint8_t { kNo, kYes };

// Calls the kernel as `value` has it, with these inputs of it. The weights are
// those of one member.
KernelView view_kernel(const Case& value, const Inputs& inputs,
                       const JudgedKernel& kernel, Executor& executor,
                       int index, int64_t member, AskForWeights ask);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_KERNEL_VIEW_H_
