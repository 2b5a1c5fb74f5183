// SPDX-License-Identifier: Apache-2.0
// qkvet explain: texts of laws, faults and exit codes.
#include <gtest/gtest.h>

#include <regex>

#include "cli/base/program_run.h"
#include "properties/judging/law.h"

namespace qkvet::cli::explain_test {
namespace {

TEST(Explain, ALawWithAnExampleThatFailsAgain) {
  const Ran ran = run_qkvet("explain weights_sum_to_one");
  ASSERT_EQ(ran.exit, 0) << ran.error;
  const Law& law = *find_law("weights_sum_to_one");
  EXPECT_TRUE(
      ran.out.starts_with("weights_sum_to_one   a law about attention\n"));
  EXPECT_TRUE(has(ran, law.sentence)) << ran.out;
  EXPECT_TRUE(has(ran, law.formula));
  EXPECT_TRUE(has(ran, "mask_after_softmax"));
  // The first fault that names the law returns NaN, which is less informative.
  EXPECT_TRUE(std::regex_search(ran.out, std::regex("\n  actual +[0-9]")))
      << ran.out;
  std::smatch again;
  ASSERT_TRUE(std::regex_search(ran.out, again,
                                std::regex("again +qkvet (replay .*)")));
  const Ran replayed = run_qkvet(again[1]);
  EXPECT_EQ(replayed.exit, 1) << again[1] << replayed.error;
}

TEST(Explain, AFaultByEitherName) {
  const Ran ran = run_qkvet("explain cache_shared_page_not_copied");
  ASSERT_EQ(ran.exit, 0) << ran.error;
  for (const char* part :
       {"a known fault\n  cause  ", "\n  fix  ", "\n  shows with  commands(",
        "\n  source  ", "\n  caught by  ", "\nFAIL  ",
        "LEAK: a token of sequence"})
    EXPECT_TRUE(has(ran, part)) << part << ran.out;
  EXPECT_EQ(run_qkvet("explain faulty/no_scale").exit, 0);
}

TEST(Explain, ExitCodes) {
  for (int code = 0; code <= 4; ++code) {
    const Ran ran = exits(0, run_qkvet("explain " + std::to_string(code)));
    EXPECT_TRUE(ran.out.starts_with("exit code " + std::to_string(code)));
  }
}

TEST(Explain, AnUnknownNameGetsOneLineAndNamesThatAreNear) {
  const struct {
    const char *name, *part;
  } rows[] = {
      {"weights_sum_to_two", "perhaps weights_sum_to_one;"},
      {"reorder", "perhaps cache_reorder_moves_histories, "},
      {"7", "no exit code (0 .. 4); `qkvet explain` and"},
      {"flash_attention", "perhaps flax_attention, flash_attention_2, "},
      {"ggmll", "perhaps ggml;"},
      {"vllm_paged", "perhaps vllm, vllm_paged_attention;"},
      {"faulty/none", "\"faulty/none\" is no law, no fault"}};
  for (const auto& row : rows) {
    const Ran ran = run_qkvet(std::string("explain ") + row.name);
    EXPECT_EQ(ran.exit, 2) << row.name;
    EXPECT_EQ(ran.out, "") << row.name;
    EXPECT_TRUE(has(ran.error, row.part));
    EXPECT_EQ(ran.error.find('\n'), ran.error.size() - 1) << ran.error;
  }
}

}  // namespace
}  // namespace qkvet::cli::explain_test
