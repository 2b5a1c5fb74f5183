// SPDX-License-Identifier: Apache-2.0
// Reports of the origin of a cache's wrong answer: for the seeded faults, in
// text, JSON and JUnit, for cases and recordings; and for correct caches, which
// have nothing to report.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/base/program_run.h"
#include "cli/kernels/kernels.h"
#include "properties/cases/generate.h"
#include "properties/sequences/story_fault.h"

namespace qkvet::cli::story_fault_run_test {
namespace {

// Lines that were wrapped, as one; and one space for any number of them.
std::string unwrapped(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

bool says(const std::string& report, const std::string& text) {
  return unwrapped(report).find(text) != std::string::npos;
}

const std::string kStorage =
    "whose The attention is right: over what the cache holds its output is "
    "within the bound. The storage is wrong: ";
const std::string kAttention =
    "whose The storage is right: sequence a holds its history. The attention "
    "over it is wrong.";

struct Expected {
  const char* kernel;
  const char* value;
  std::string reach;  // "" for none
  std::string whose;  // "" for none
};

const Expected kReplays[] = {
    {"cache_shared_page_not_copied",
     "f32,B2,H1,d1,cap4,story=step.a.1+fork.a.b+append.a.1+append.b.1+"
     "attend.a.1",
     "LEAK: a token of sequence b reaches sequence a: b0 whose",
     kStorage + "token 1 of sequence a holds b0's key and value. fails"},
    {"cache_reorder_in_place",
     "f32,B2,H1,d2,cap4,story=step.a.1+step.b.1+reorder.ba+attend.b.1",
     "LEAK: a token of sequence a reaches sequence b: b0, which a holds now",
     kStorage + "token 0 of sequence b holds b0's key and value. fails"},
    {"cache_truncate_keeps_values",
     "f32,B2,H1,d1,cap4,story=append.b.1+step.a.2+truncate.a.1+step.a.1",
     "STALE: token a1, which was taken back, reaches sequence a whose",
     kStorage + "token 1 of sequence a holds a1's value. fails"},
    {"stale_cache", "f32,B1,H1,d1,cap4,story=step.a.1+reset.a+step.a.1",
     "STALE: token a0, which was reset, reaches sequence a whose",
     "whose Both are wrong. The storage: token 0 of sequence a holds a0's key "
     "and value. The attention: its output is not that over what the cache "
     "holds. fails"},
    // Others' tokens are overwritten, and not read; numbers are wrong, and no
    // data.
    {"cache_tile_padding_overwrites",
     "f32,B2,H1,d1,cap2,story=append.b.1+append.a.2+attend.b.1", "",
     kStorage + "token 0 of sequence b holds zeros. fails"},
    {"cache_sequences_share_length",
     "f32,B2,H1,d1,cap4,story=step.a.1+step.b.1", "",
     "whose The storage is wrong: sequence b holds 2 tokens and should hold 1. "
     "fails"},
    {"cache_rollback_clears_all",
     "f32,B2,H1,d1,cap4,story=append.b.1+append.a.2+truncate.a.1+step.a.1", "",
     kStorage + "token 0 of sequence a holds zeros. fails"},
    {"cache_chunk_offset",
     "f32,B2,H1,d1,cap4,story=append.b.2+append.a.1+step.a.2", "", kAttention},
    {"cache_window_one_too_wide",
     "f32,B2,H1,d1,cap4,win1,story=append.b.1+append.a.1+step.a.1", "",
     kAttention},
    {"cache_first_tokens_forgotten",
     "f32,B2,H1,d1,cap4,win1,first1,story=append.b.1+append.a.2+step.a.1", "",
     kAttention}};

TEST(StoryFaultReport, SaysWhatReachesAnAnswerAndWhoseFaultItIs) {
  for (const Expected& one : kReplays) {
    const Ran ran = run_qkvet(
        std::string("replay ") + one.value +
        " -v --law cache_agrees_with_history --kernel faulty/" + one.kernel);
    EXPECT_EQ(ran.exit, 1) << one.kernel << ran.out << ran.error;
    EXPECT_TRUE(says(ran.out, one.reach)) << one.kernel << "\n" << ran.out;
    EXPECT_TRUE(says(ran.out, one.whose)) << one.kernel << "\n" << ran.out;
    for (const std::string word : {"LEAK", "STALE"})
      EXPECT_EQ(says(ran.out, word), one.reach.starts_with(word))
          << one.kernel << "\n"
          << ran.out;
  }
}

// The line is directly below its subject, as in the README.
TEST(StoryFaultReport, ALeakStandsBelowTheActualNumber) {
  const std::string command = "replay " + std::string(kReplays[0].value) +
                              " --law cache_agrees_with_history --kernel "
                              "faulty/cache_shared_page_not_copied";
  const Ran ran = run_qkvet(command);
  EXPECT_TRUE(std::regex_search(
      ran.out,
      std::regex("\n  actual  [^\n]*\n {14}LEAK: a token of sequence b "
                 "reaches sequence a: b0\n  whose       The")))
      << ran.out;
  const std::string walks = read_text(QKVET_WALKS);
  const size_t at = walks.find("\n    $ qkvet " + command + "\n");
  ASSERT_NE(at, std::string::npos);
  std::istringstream block(walks.substr(at + 1));
  std::string line;
  std::getline(block, line);
  int shown = 0;
  while (std::getline(block, line) && line.starts_with("    ")) {
    line.erase(0, 4);
    line.erase(std::min(line.find("   case 1,"), line.size()));
    if (line.find("[...]") != std::string::npos) continue;
    EXPECT_TRUE(has(ran.out, line)) << line;
    ++shown;
  }
  EXPECT_GT(shown, 10);
}

TEST(StoryFaultReport, ChecksSayItInEveryForm) {
  const Ran ran = run_qkvet(
      "check -v --kernel faulty/cache_shared_page_not_copied --cases 200 --law "
      "cache_forks_are_independent --json out.jsonl --junit out.xml");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  const std::regex leak(
      "LEAK: a token of sequence b reaches sequence a: the NaN of call [0-9]+");
  const std::regex whose(kStorage +
                         "token 1 of sequence a holds the NaN of call");
  const std::string junit = unwrapped(read_text(scratch() / "out.xml"));
  for (const std::string& text : {unwrapped(ran.out), junit}) {
    EXPECT_TRUE(std::regex_search(text, leak)) << text;
    EXPECT_TRUE(std::regex_search(text, whose)) << text;
  }
  std::istringstream lines(read_text(scratch() / "out.jsonl"));
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("failure")) continue;
    ++found;
    const auto& failure = json["failure"];
    ASSERT_EQ(failure["reaches"].size(), 1U) << line;
    const auto& reach = failure["reaches"][0];
    EXPECT_EQ(reach["kind"], "leak");
    EXPECT_EQ(reach["of"], "b");
    EXPECT_EQ(reach["into"], "a");
    EXPECT_EQ(reach["tokens"].size(), 1U);
    EXPECT_TRUE(std::regex_search(std::string(reach["text"]), leak));
    EXPECT_TRUE(std::string(failure["whose"]).starts_with("The attention is"));
  }
  EXPECT_EQ(found, 1);
}

TEST(StoryFaultReport, RecordingsSayItOfTheirShortestStory) {
  write_text(scratch() / "forks.story",
             "qkvet-story 1\ncache f32,H2,Hkv1,d4,cap64\nstep u 5\nstep v 3\n"
             "fork u w\nstep v 2\nstep w 1\nstep u 1\nstep w 1\nstep v 1\n");
  const Ran ran = run_qkvet(
      "replay forks.story -v --kernel faulty/cache_shared_page_not_copied");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_TRUE(
      says(ran.out, "LEAK: a token of sequence a reaches sequence b: a1 whose"))
      << ran.out;
  EXPECT_TRUE(
      says(ran.out,
           kStorage + "token 1 of sequence b holds a1's key and value. where"))
      << ran.out;
}

// Every answer to the laws' stories on every correct cache.
TEST(StoryFault, NothingIsSaidOfCorrectCaches) {
  KernelSelection selection;
  selection.kernels = {"kv_cache/*", "controls/cache_*"};
  const SelectedKernels selected = select_kernels(selection);
  ASSERT_EQ(selected.error, "");
  const auto open = executor_factory(selected, /*in_process=*/false);
  TimeUse time;
  for (const KernelUnderTest& kernel : selected.kernels) {
    const Opened opened = open(kernel.library);
    ASSERT_EQ(opened.error, "");
    Scope scope;
    scope.largest = SizeClass::kSmall;
    keep_scope_to({kernel}, scope);
    int answers = 0;
    for (const Law* law : all_laws())
      for (int64_t n = 1; law->domain.subject == Subject::kCache && n <= 4;
           ++n) {
        const Case value = planned_case(*law, 17, n, scope);
        const auto plan = law->plan(value, kernel.judged.info).calls;
        for (size_t i = 0; i < plan.size(); ++i) {
          const StoryFault fault =
              fault_at(value, plan, i, kernel.judged, kernel.index,
                       *opened.executor, time);
          ASSERT_TRUE(fault.reaches.empty())
              << kernel.judged.info.name << " " << to_string(value) << " "
              << reach_text(fault.reaches[0]);
          ASSERT_EQ(fault.whose, "")
              << kernel.judged.info.name << " " << to_string(value);
          answers += plan[i].snapshot && plan[i].snapshot->queries > 0;
        }
      }
    EXPECT_GT(answers, 100) << kernel.judged.info.name;
  }
}

// If the caller gives the pages, only the kernel can be wrong.
TEST(StoryFaultRun, PagesOfTheCallerLeakToo) {
  const std::string nobody = "LEAK: the content of unowned slots ";
  const std::string others = "LEAK: a token of another member ";
  const struct {
    const char* kernel;
    const char* options;
    std::string leak;
  } rows[] = {{"serving_last_page_whole", "kvlen=3.2,page=2", nobody},
              {"serving_tail_page_read", "kvlen=2.1,page=2", others},
              {"serving_diagonal_before_append",
               "causal=br,kvlen=3.2,page=2,append=1", ""}};
  for (const auto& [kernel, options, leak] : rows) {
    const Ran ran = run_qkvet(
        "replay f32,B2,H1,Tq1,Tk3,d1," + std::string(options) +
        ",seed=3 -v --law agrees_with_oracle --kernel faulty/" + kernel);
    EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
    for (const std::string& one : {nobody, others})
      EXPECT_EQ(says(ran.out, one + "reaches member 0 whose"), one == leak)
          << ran.out;
    EXPECT_TRUE(says(ran.out,
                     "whose The kernel's: pages, block tables and lengths are "
                     "given, and right."))
        << ran.out;
  }
}

}  // namespace
}  // namespace qkvet::cli::story_fault_run_test
