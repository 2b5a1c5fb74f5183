// SPDX-License-Identifier: Apache-2.0
// Two lanes, each with workers of its own: what `qkvet check --jobs 2` does, in
// one process that ThreadSanitizer can look at.
#include <gtest/gtest.h>

#include "core/executor.h"
#include "properties/runner.h"

namespace qkvet::two_threads_test {
namespace {

const std::vector<std::string>& libraries() {
  static const std::vector<std::string> all = {
      QKVET_FAMILIES "/qkvet_scalar.so", QKVET_FAMILIES "/qkvet_kv_cache.so",
      QKVET_FAMILIES "/qkvet_serving.so"};
  return all;
}

Opened open(size_t library) {
  SandboxOptions options;
  options.worker = QKVET_WORKER;
  return open_sandbox({libraries()[library], ""}, options);
}

std::vector<KernelUnderTest> kernels_of(size_t library) {
  std::vector<KernelUnderTest> kernels;
  const Opened opened = open(library);
  if (opened.executor == nullptr) {
    ADD_FAILURE() << opened.error;
    return kernels;
  }
  for (const KernelInfo& info : opened.executor->kernels()) {
    KernelUnderTest kernel;
    kernel.judged = {info, resolve_precision(info.precision).model};
    kernel.library = library;
    kernel.index = static_cast<int>(kernels.size());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

TEST(TwoThreads, JudgeEveryKindOfKernel) {
  std::vector<KernelUnderTest> kernels;
  for (size_t library = 0; library < libraries().size(); ++library)
    for (KernelUnderTest& kernel : kernels_of(library))
      kernels.push_back(std::move(kernel));
  RunOptions options;
  options.laws = {all_laws().begin(), all_laws().end()};
  options.cases = 320;
  options.scope.largest = SizeClass::kSmall;
  options.scope.dtypes = declared_dtypes(kernels);
  options.jobs = 2;
  const RunResult result = run_plan(kernels, open, options);
  ASSERT_EQ(result.error, "");
  EXPECT_FALSE(some_failed(result));
  ASSERT_GE(result.kernels.size(), 11u);
  for (const KernelResult& kernel : result.kernels) {
    int64_t checked = 0;
    for (const Cell& cell : kernel.cells) checked += cell.checked;
    EXPECT_GT(checked, 100) << kernel.kernel.judged.info.name;
  }
}

}  // namespace
}  // namespace qkvet::two_threads_test
