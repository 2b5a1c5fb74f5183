// SPDX-License-Identifier: Apache-2.0
// Two lanes, each with workers of its own: what `qkvet check --jobs 2` does, in
// one process that ThreadSanitizer can look at.
#include <gtest/gtest.h>

#include "tools/commands.h"

namespace qkvet::two_threads_test {
namespace {

TEST(TwoThreads, JudgeEveryKindOfKernel) {
  CheckOptions options;
  options.selection.kernels = {"scalar/*", "kv_cache/*", "serving/*"};
  options.cases = 320;
  options.sizes = "small";
  options.jobs = 2;
  EXPECT_EQ(run_check(options), kConforms);
}

}  // namespace
}  // namespace qkvet::two_threads_test
