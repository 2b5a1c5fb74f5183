// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/failure_tensors.h"

#include <algorithm>
#include <functional>

namespace qkvet::cli {
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

// `open` returns the kernel's executor when the first call is to be made, or
// null.
void add_tensors_of(const KernelResult& kernel,
                    const std::function<Executor*()>& open,
                    FailureTensors& tensors) {
  // Limited by what a page can show, and by the time for a kernel that fails
  // everywhere.
  constexpr int kMostOfKernel = 32;
  TimeUse time;
  int taken = 0;
  for (const Cell& cell : kernel.cells) {
    if (!cell.failure || !repeats(*cell.failure) || ++taken > kMostOfKernel)
      continue;
    Executor* executor = open();
    if (executor == nullptr) return;
    Reproducer made;
    const std::string why =
        make_reproducer(*cell.failure->law, cell.failure->smallest,
                        kernel.kernel, *executor, time, &made);
    if (why.empty() && is_small(made.calls))
      tensors.calls[&*cell.failure] = std::move(made.calls);
  }
}

}  // namespace

FailureTensors collect_tensors(const RunResult& result,
                               const SelectedKernels& selected,
                               bool in_process) {
  FailureTensors tensors;
  for (const KernelResult& kernel : result.kernels) {
    std::unique_ptr<Executor> executor;
    const auto open = [&] {
      if (executor == nullptr)
        executor = executor_factory(selected, in_process)(kernel.kernel.library)
                       .executor;
      return executor.get();
    };
    add_tensors_of(kernel, open, tensors);
  }
  return tensors;
}

FailureTensors collect_tensors(const RunResult& result, Executor& answers) {
  FailureTensors tensors;
  for (const KernelResult& kernel : result.kernels)
    add_tensors_of(
        kernel, [&answers] { return &answers; }, tensors);
  return tensors;
}

const std::vector<WrittenCall>* tensors_of(const FailureTensors* tensors,
                                           const Failure& failure) {
  if (tensors == nullptr) return nullptr;
  const auto found = tensors->calls.find(&failure);
  return found == tensors->calls.end() ? nullptr : &found->second;
}

}  // namespace qkvet::cli
