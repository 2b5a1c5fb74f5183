// SPDX-License-Identifier: Apache-2.0
// Laws and faults have an example that `qkvet explain` finds: all at night, one
// in six by day.
#include <gtest/gtest.h>

#include <regex>

#include "cli/base/program_run.h"
#include "cli/kernels/kernels.h"
#include "core/base/at_night.h"
#include "properties/judging/law.h"

namespace qkvet::cli::explain_examples_test {
namespace {

class ExplainAll : public testing::TestWithParam<std::string> {};

// The example is a failure of this very law, or of the memory law that it met
// first.
TEST_P(ExplainAll, HasAnExample) {
  const Ran ran = run_qkvet("explain " + GetParam());
  ASSERT_EQ(ran.exit, 0) << ran.error;
  const bool is_law = find_law(GetParam()) != nullptr;
  const std::string law = is_law ? "(" + GetParam() + "|" + kMemoryLaw + "|" +
                                       kBackwardMemoryLaw + ")"
                                 : "[a-z0-9_]+";
  const std::string fault = is_law ? "[a-z0-9_]+" : GetParam();
  const std::regex failure("\n(FAIL |CRASH) +" + law + " +faulty/" + fault +
                           " ");
  EXPECT_TRUE(std::regex_search(ran.out, failure)) << ran.out;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Law* law : all_laws()) all.push_back(law->id);
  KernelSelection selection;
  selection.kernels = {"faulty/*"};
  selection.calls = false;
  for (const KernelUnderTest& fault : select_kernels(selection).kernels)
    all.push_back(fault.judged.info.name.substr(7));
  // By name: with an index, one more law would change the choice of all later
  // ones.
  std::erase_if(all, [](const std::string& name) {
    return !is_sampled(std::hash<std::string>{}(name), 15);
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Slow, ExplainAll, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace qkvet::cli::explain_examples_test
