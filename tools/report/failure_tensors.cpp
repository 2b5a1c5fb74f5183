// SPDX-License-Identifier: Apache-2.0
#include "tools/report/failure_tensors.h"

#include <algorithm>

namespace qkvet::tools {
namespace {

bool is_small(const std::vector<WrittenCall>& calls) {
  return std::all_of(calls.begin(), calls.end(), [](const WrittenCall& call) {
    return std::all_of(call.outputs.begin(), call.outputs.end(),
                       [](const WrittenOutput& output) {
                         return output.spec.elements() <= kMostElements;
                       });
  });
}

bool repeats(const Failure& failure) {
  return failure.judgement.kind == FailureKind::kLaw &&
         failure.repeats_failed == failure.repeats;
}

}  // namespace

FailureTensors collect_tensors(const RunResult& result,
                               const SelectedKernels& selected,
                               bool in_process) {
  // What a page can show, and what a kernel that fails everywhere may cost.
  constexpr int kMostOfKernel = 32;
  FailureTensors tensors;
  TimeUse time;
  for (const KernelResult& kernel : result.kernels) {
    std::unique_ptr<Executor> executor;
    int taken = 0;
    for (const Cell& cell : kernel.cells) {
      if (!cell.failure || !repeats(*cell.failure) || ++taken > kMostOfKernel)
        continue;
      if (executor == nullptr)
        executor = executor_factory(selected, in_process)(kernel.kernel.library)
                       .executor;
      if (executor == nullptr) break;
      Reproducer made;
      const std::string why =
          make_reproducer(*cell.failure->law, cell.failure->smallest,
                          kernel.kernel, *executor, time, &made);
      if (why.empty() && is_small(made.calls))
        tensors.calls[&*cell.failure] = std::move(made.calls);
    }
  }
  return tensors;
}

const std::vector<WrittenCall>* tensors_of(const FailureTensors* tensors,
                                           const Failure& failure) {
  if (tensors == nullptr) return nullptr;
  const auto found = tensors->calls.find(&failure);
  return found == tensors->calls.end() ? nullptr : &found->second;
}

}  // namespace qkvet::tools
