// SPDX-License-Identifier: Apache-2.0
// Two lanes, each with workers of its own: `qkvet check --jobs 2` in one
// process, which ThreadSanitizer can check.
#include <gtest/gtest.h>

#include "core/door/executor.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::two_threads_test {
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

void wrong_scale(KernelCall& call, Problem& problem) {
  if (!call.scale) problem.scale = 1;
}

// The report does not depend on the number of threads.
TEST(TwoThreads, ReportWhatOneReports) {
  RunOptions options =
      options_for({"weights_sum_to_one", "agrees_with_oracle"}, 400);
  const RunResult one = run_fake(options, wrong_scale, {});
  options.jobs = 3;
  const RunResult three = run_fake(options, wrong_scale, {});
  for (size_t i = 0; i < 2; ++i) {
    const Cell& a = one.kernels[0].cells[i];
    const Cell& b = three.kernels[0].cells[i];
    EXPECT_EQ(a.verdict, b.verdict);
    EXPECT_EQ(a.checked, b.checked);
    EXPECT_EQ(a.worst_ratio, b.worst_ratio);
    ASSERT_EQ(a.failure.has_value(), b.failure.has_value());
    if (!a.failure) continue;
    EXPECT_EQ(a.failure->number, b.failure->number);
    EXPECT_EQ(a.failure->smallest, b.failure->smallest);
  }
}

}  // namespace
}  // namespace qkvet::properties::two_threads_test
