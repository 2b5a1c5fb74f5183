// SPDX-License-Identifier: Apache-2.0
// The plan of a kernel by itself, whichever kernels are run with it: it follows
// from its declaration.
#ifndef QKVET_PROPERTIES_RUN_OWN_PLAN_H_
#define QKVET_PROPERTIES_RUN_OWN_PLAN_H_

#include <string>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::properties {

// The scope of a run with this kernel alone.
Scope own_scope(const KernelUnderTest& kernel, const Scope& of_run);

// Kernels with one declaration and the same hints: equal numbers, counted from
// 0 in the order of the kernels.
std::vector<size_t> declarations_of(
    const std::vector<KernelUnderTest>& kernels);

// One declaration of a run.
struct OwnPlan {
  Scope scope;
  // One entry for each law of the run: "", or its need that is not declared.
  // Such a law is not checked.
  std::vector<std::string> needs;
};
OwnPlan own_plan(const KernelUnderTest& kernel, const RunOptions& options);

// Whether the kernel declares all calls that the law makes of the case.
bool can_be_asked(const Law& law, const Case& value,
                  const KernelUnderTest& kernel, TimeUse& time);
// Whether the kernel declares some case of the law that is drawn for it alone.
// For a law with refusals only.
bool can_be_asked(const Law& law, const KernelUnderTest& kernel,
                  const Scope& own, uint64_t seed, TimeUse& time);

// Executors that the parts of a run use in turn: each library is opened once
// for each thread, and not once for each part.
class SharedExecutors {
 public:
  explicit SharedExecutors(const ExecutorFactory& open) : open_(open) {}
  // For one part, which has to end before this.
  ExecutorFactory for_part();

 private:
  const ExecutorFactory& open_;
  std::map<size_t, std::vector<std::unique_ptr<Executor>>> opened_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_OWN_PLAN_H_
