// SPDX-License-Identifier: Apache-2.0
// Recorded stories on kernels: a correct cache passes a long one, and a fault
// late in one is found, shrunk and reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <regex>

#include "cli/base/program_run.h"
#include "cli/kernels/kernels.h"
#include "cli/serving_log/serving_log.h"
#include "properties/run/spelled_log.h"

namespace qkvet::cli::story_log_run_test {
namespace {

const std::string kHead = "qkvet-story 1\ncache f32,H2,Hkv1,d4,cap64\n";

StoryLog parsed(const std::string& text) {
  std::string error;
  auto log = parse_story_log(text, "x.story", &error);
  EXPECT_TRUE(log.has_value()) << error;
  return log.value_or(StoryLog{});
}

// A built-in kernel with a separate executor.
struct OpenKernel {
  explicit OpenKernel(const std::string& name) {
    KernelSelection selection;
    selection.kernels = {name};
    selected = select_kernels(selection);
    EXPECT_EQ(selected.error, "");
    opened = executor_factory(
        selected, /*in_process=*/false)(selected.kernels.front().library);
    EXPECT_EQ(opened.error, "");
  }
  LogKernel way() { return way(*opened.executor); }
  LogKernel way(Executor& executor) {
    const KernelUnderTest& kernel = selected.kernels.front();
    return {kernel.judged, kernel.index, executor, time};
  }

  SelectedKernels selected;
  Opened opened;
  TimeUse time;
};

StoryLog recording(int64_t commands) {
  ServingOptions options;
  options.commands = commands;
  options.refused = true;
  return parsed(serving_log(options));
}

LogChecks all_checks() {
  LogChecks checks;
  checks.with_twin = true;
  return checks;
}

TEST(StoryLogRun, CorrectCachesPass) {
  const struct {
    const char *name, *form;
  } caches[] = {{"contiguous", ""},
                {"growing", ""},
                {"paged", ""},
                {"prefix", ""},
                {"split", ""},
                {"paged", ",rope=half"},
                {"growing", ",rope=interleaved"},
                {"contiguous", ",softcap=2,sink=normal,alibi=one"},
                {"contiguous", ",mask=random50.hqk,bias=small.hk"},
                {"ring", ",win16,rollback8"},
                {"quantised", ",stored=int8token"}};
  for (const auto& [name, form] : caches) {
    ServingOptions options;
    options.form = form;
    options.forks = options.refused = true;
    const std::string text = serving_log(options);
    EXPECT_TRUE(has(text, "\nfork "));
    EXPECT_TRUE(has(text, "\nreorder "));
    const StoryLog log = parsed(text);
    OpenKernel kernel(std::string("kv_cache/") + name);
    const LogRun run =
        run_log(log.geometry, log.story, kernel.way(), all_checks());
    EXPECT_EQ(run.verdict, Verdict::kPassed)
        << name << form << run.reason
        << (run.failure ? log_command_text(log.story[run.failure->at]) +
                              run.failure->judgement.finding->actual
                        : "");
    EXPECT_EQ(run.commands, 2000u);
    EXPECT_EQ(run.checked, run.answers);
    EXPECT_GT(run.answers, 1000);
    EXPECT_GT(run.worst_ratio, 0);
    const bool grows = std::string(name) == "growing";
    EXPECT_EQ(run.illegal > 0, !grows) << name << run.illegal;
  }
}

// An oracle that is right up to 40 tokens only.
OracleOutput short_sighted(const Problem& problem) {
  OracleOutput output = plain_forward(problem);
  if (problem.shape.Tk > 40 && !output.o.empty()) output.o[0] += 1;
  return output;
}

TEST(StoryLogRun, AMistakeOfTheOracleIsSeen) {
  const StoryLog log = recording(2000);
  OpenKernel kernel("kv_cache/contiguous");
  LogChecks checks = all_checks();
  checks.oracle = short_sighted;
  const LogRun run = run_log(log.geometry, log.story, kernel.way(), checks);
  // Either the twin rejects it, or the correct kernel fails.
  EXPECT_NE(run.verdict, Verdict::kPassed);
}

struct Found {
  LogRun run;
  ShrunkLog shrunk;
  SpelledLog spelled;
};
Found found_by(const LogKernel& kernel, const StoryLog& log) {
  Found found;
  found.run = run_log(log.geometry, log.story, kernel, all_checks());
  EXPECT_EQ(found.run.verdict, Verdict::kFailed) << kernel.judged.info.name;
  if (!found.run.failure) return found;
  found.shrunk = shrink_log(log, *found.run.failure, kernel);
  found.spelled = spell_log(log.geometry, found.shrunk, kernel);
  return found;
}
Found found_by(const std::string& name, const StoryLog& log) {
  OpenKernel kernel(name);
  return found_by(kernel.way(), log);
}

// A growing cache allocates memory as tokens come, and so must its judge: keys
// of this capacity would take a terabyte.
TEST(StoryLogRun, ACapacityTakesNoMemory) {
  const StoryLog log =
      parsed("qkvet-story 1\ncache f32,H64,Hkv64,d2048,cap1000000\nstep A 2\n");
  OpenKernel kernel("kv_cache/growing");
  const LogRun run =
      run_log(log.geometry, log.story, kernel.way(), all_checks());
  EXPECT_EQ(run.verdict, Verdict::kPassed) << run.reason;
  EXPECT_EQ(run.checked, 1);
}

// Options with which a cache is made and each of its steps is called.
TEST(StoryLogRun, OptionsOfScoresReachTheCache) {
  const struct {
    const char *name, *form;
  } faults[] = {{"faulty/cache_alibi_of_the_queries", ",alibi=one"},
                {"faulty/cache_sink_in_prefill_only", ",sink=normal"}};
  for (const auto& [name, form] : faults) {
    ServingOptions options;
    options.form = form;
    OpenKernel kernel(name);
    const StoryLog log = parsed(serving_log(options));
    EXPECT_EQ(
        run_log(log.geometry, log.story, kernel.way(), all_checks()).verdict,
        Verdict::kFailed)
        << name;
  }
}

TEST(StoryLogShrink, EveryFaultComesOutShort) {
  const StoryLog log = recording(2000);
  for (const char* name :
       {"faulty/cache_append_wrong_axis", "faulty/cache_chunk_offset",
        "faulty/cache_length_not_advanced",
        "faulty/cache_refused_append_written",
        "faulty/cache_sequences_share_length",
        "faulty/cache_truncate_keeps_values", "faulty/stale_cache"}) {
    const Found found = found_by(name, log);
    ASSERT_NE(found.spelled.law, nullptr) << name;
    EXPECT_EQ(found.shrunk.repeats_failed, found.shrunk.repeats) << name;
    EXPECT_LE(found.shrunk.story.size(), 6u)
        << name << "\n"
        << story_log_text(log.geometry, found.shrunk.story);
    EXPECT_LE(found.spelled.value.story.size(), 6u)
        << name << " " << to_string(found.spelled.value);
    EXPECT_EQ(found.spelled.judgement.verdict, Verdict::kFailed);
    EXPECT_EQ(parse_case(to_string(found.spelled.value)).value,
              found.spelled.value);
  }
}

// Tokens leave the middle of long requests, over and over.
TEST(StoryLogRun, EvictionsAreFollowed) {
  const auto log_with = [](const std::string& form) {
    std::string text = "qkvet-story 1\ncache f32,H2,Hkv1,d4,cap24" + form +
                       "\nstep one 20\nstep two 7\n";
    for (int turn = 0; turn < 12; ++turn)
      text += "evict one " + std::to_string(turn % 5) + " 3\nstep one 2\n" +
              "step one 1\nstep two 1\n";
    return parsed(text + "fork one three\nevict three 0 20\nstep three 2\n" +
                  "truncate one 3\nstep one 2\nevict one 5 1\n");
  };
  for (const char* name : {"contiguous", "growing", "paged", "prefix"})
    for (const char* form : {"", ",rope=half"}) {
      const StoryLog log = log_with(form);
      OpenKernel kernel(std::string("kv_cache/") + name);
      const LogRun run =
          run_log(log.geometry, log.story, kernel.way(), all_checks());
      EXPECT_EQ(run.verdict, Verdict::kPassed) << name << form << run.reason;
      EXPECT_EQ(run.checked, 40);
      EXPECT_EQ(run.illegal, 1);
    }
  const Found lag = found_by("faulty/cache_evict_position_from_count",
                             log_with(",rope=half"));
  EXPECT_LE(lag.shrunk.story.size(), 3u);
  const Found twice =
      found_by("faulty/cache_evict_counts_positions", log_with(""));
  EXPECT_LE(twice.shrunk.story.size(), 4u);
  for (const Found* found : {&lag, &twice}) {
    ASSERT_NE(found->spelled.law, nullptr);
    EXPECT_LE(found->spelled.value.story.size(), 4u);
  }
}

// No truncations.
std::string without_truncations(int64_t commands) {
  ServingOptions options;
  options.commands = commands;
  std::string text;
  for (std::string rest = serving_log(options); !rest.empty();) {
    const size_t end = rest.find('\n') + 1;
    if (!rest.starts_with("truncate ")) text += rest.substr(0, end);
    rest.erase(0, end);
  }
  return text;
}

// A fault that only a command near the end of a recording can show.
TEST(StoryLogShrink, ALateFailureIsCutOutOfAllBeforeIt) {
  const StoryLog log =
      parsed(without_truncations(2000) +
             "step late 30\nstep other 9\ntruncate late 20\nstep late 4\n");
  const Found found = found_by("faulty/cache_truncate_keeps_values", log);
  ASSERT_TRUE(found.run.failure.has_value());
  EXPECT_EQ(found.run.failure->at, log.story.size() - 1);
  EXPECT_LE(found.shrunk.story.size(), 4u);
  ASSERT_NE(found.spelled.law, nullptr);
  EXPECT_LE(found.spelled.value.story.size(), 4u);
  EXPECT_EQ(found.spelled.value.shape.d, 1);
}

// A kernel with answers or calls that a test corrupts.
class Spoiled : public Executor {
 public:
  using Spoil = std::function<void(const KernelCall&, CallOutcome&)>;
  using Edit = std::function<void(KernelCall&)>;
  Spoiled(Executor& good, Spoil spoil, Edit edit = {})
      : good_(good), spoil_(std::move(spoil)), edit_(std::move(edit)) {}

  const std::vector<KernelInfo>& kernels() const override {
    return good_.kernels();
  }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<KernelCall> made(calls.begin(), calls.end());
    if (edit_) std::for_each(made.begin(), made.end(), edit_);
    auto outcomes = good_.run(kernel, made);
    for (size_t i = 0; spoil_ && i < calls.size(); ++i)
      spoil_(calls[i], outcomes[i]);
    return outcomes;
  }

 private:
  Executor& good_;
  Spoil spoil_;
  Edit edit_;
};

void flip_sign(CallOutcome& outcome) {
  if (!outcome.o.empty()) outcome.o[3] ^= std::byte{0x80};  // of an f32
}

// A truncation corrupts the next answer of another sequence: neither sequence
// fails without the other.
TEST(StoryLogShrink, WhatTakesTwoSequencesKeepsBoth) {
  OpenKernel kernel("kv_cache/contiguous");
  int64_t cut = -1;
  Spoiled spoiled(*kernel.opened.executor,
                  [&](const KernelCall& call, CallOutcome& outcome) {
                    if (call.operation == Operation::kCacheCreate) cut = -1;
                    if (call.operation == Operation::kCacheTruncate)
                      cut = call.sequence;
                    if (call.operation != Operation::kCacheStep || cut < 0 ||
                        cut == call.sequence || call.shape.Tq == 0)
                      return;
                    flip_sign(outcome);
                    cut = -1;
                  });
  const StoryLog log = parsed(
      without_truncations(2000) +
      "step one 30\nstep two 9\ntruncate one 20\nstep three 4\nstep two 1\n");
  const auto [run, shrunk, spelled] = found_by(kernel.way(spoiled), log);
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_EQ(shrunk.repeats_failed, shrunk.repeats);
  ASSERT_EQ(shrunk.story.size(), 2u)
      << story_log_text(log.geometry, shrunk.story);
  EXPECT_EQ(shrunk.story[0].verb, StoryVerb::kTruncate);
  EXPECT_EQ(shrunk.story[1].verb, StoryVerb::kStep);
  EXPECT_NE(spelled.law, nullptr);
}

TEST(StoryLogShrink, WhatDoesNotFailAgainIsUnsteady) {
  OpenKernel kernel("kv_cache/contiguous");
  int answers = 0;
  Spoiled spoiled(*kernel.opened.executor,
                  [&](const KernelCall&, CallOutcome& outcome) {
                    if (!outcome.o.empty() && ++answers == 150)
                      flip_sign(outcome);
                  });
  const StoryLog log = recording(400);
  const auto [run, shrunk, spelled] = found_by(kernel.way(spoiled), log);
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_LT(shrunk.repeats_failed, shrunk.repeats);
  EXPECT_EQ(spelled.law, nullptr);
  EXPECT_EQ(shrunk.story.size(), run.failure->at + 1);
}

// The length of a cache is compared before the first command, too.
TEST(StoryLogRun, ACacheIsMadeEmpty) {
  OpenKernel kernel("kv_cache/contiguous");
  Spoiled spoiled(*kernel.opened.executor,
                  [](const KernelCall& call, CallOutcome& outcome) {
                    if (call.operation == Operation::kCacheCreate)
                      outcome.lengths.at(0) = 3;
                  });
  const StoryLog log = recording(20);
  const LogRun run =
      run_log(log.geometry, log.story, kernel.way(spoiled), all_checks());
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_EQ(run.failure->part, LogPart::kLength);
  EXPECT_EQ(run.failure->at, 0u);
  EXPECT_EQ(run.commands, 0u);
}

// With more places than letters of the alphabet.
TEST(StoryLogRun, ManySequencesAreReordered) {
  std::string text = kHead;
  for (int i = 0; i < 200; ++i) text += "step r" + std::to_string(i) + " 2\n";
  const StoryLog log = parsed(text + "reorder r150=r40 r40=r199\n" +
                              "step r150 1\nstep r40 1\nstep r199 1\n");
  OpenKernel kernel("kv_cache/contiguous");
  const LogRun run =
      run_log(log.geometry, log.story, kernel.way(), all_checks());
  EXPECT_EQ(run.verdict, Verdict::kPassed) << run.reason;
  EXPECT_EQ(run.checked, 203);
}

// An eviction corrupts the next answer: the shrunk one evicts the first token.
TEST(StoryLogShrink, AnEvictionMovesToTheFront) {
  OpenKernel kernel("kv_cache/contiguous");
  bool evicted = false;
  Spoiled spoiled(*kernel.opened.executor,
                  [&](const KernelCall& call, CallOutcome& outcome) {
                    if (call.operation == Operation::kCacheCreate)
                      evicted = false;
                    evicted |= call.operation == Operation::kCacheEvict;
                    if (evicted) flip_sign(outcome);
                  });
  const StoryLog log =
      parsed(kHead + "step one 20\nevict one 7 3\nstep one 1\n");
  const auto [run, shrunk, spelled] = found_by(kernel.way(spoiled), log);
  ASSERT_TRUE(run.failure.has_value());
  const auto evict = std::find_if(
      shrunk.story.begin(), shrunk.story.end(),
      [](const StoryCommand& one) { return one.verb == StoryVerb::kEvict; });
  ASSERT_NE(evict, shrunk.story.end());
  EXPECT_EQ(evict->first, 0) << story_log_text(log.geometry, shrunk.story);
  EXPECT_EQ(evict->count, 1);
}

// A reorder that leaves each beam its own tokens.
TEST(StoryLogShrink, AReorderThatDoesNothingIsFound) {
  OpenKernel kernel("kv_cache/paged");
  Spoiled spoiled(*kernel.opened.executor, {}, [](KernelCall& call) {
    std::iota(call.parents.begin(), call.parents.end(), 0);
  });
  ServingOptions options;
  options.forks = true;
  const StoryLog log = parsed(serving_log(options));
  const auto [run, shrunk, spelled] = found_by(kernel.way(spoiled), log);
  ASSERT_TRUE(run.failure.has_value());
  EXPECT_LE(shrunk.story.size(), 4u)
      << story_log_text(log.geometry, shrunk.story);
  EXPECT_NE(spelled.law, nullptr);
  EXPECT_TRUE(has(story_text(spelled.value.story), "reorder."));
}

TEST(StoryLogShrink, TooManySequencesForACaseStayLines) {
  std::string text = kHead;
  for (int i = 0; i < 9; ++i) text += "step r" + std::to_string(i) + " 1\n";
  const StoryLog log = parsed(text);
  OpenKernel kernel("kv_cache/contiguous");
  const KernelInfo& info = kernel.way().judged.info;
  EXPECT_FALSE(case_of_log(log.geometry, log.story, 9, info));
  const Story fewer(log.story.begin(), log.story.begin() + 8);
  const auto value = case_of_log(log.geometry, fewer, 8, info);
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE(to_string(*value).ends_with("+step.h.1")) << to_string(*value);
}

TEST(StoryLogProgram, ReportsAndExitCodes) {
  const auto file = scratch() / "incident.story";
  ServingOptions options;
  options.commands = 400;
  write_text(file, serving_log(options));
  const Ran good =
      exits(0, run_qkvet("replay incident.story --kernel kv_cache/contiguous"));
  EXPECT_TRUE(std::regex_search(
      good.out, std::regex("^passed  incident.story   kv_cache/contiguous   "
                           "400 commands, [0-9]+ ids, at most [0-9]+ at once; "
                           "checked ([0-9]+) of \\1 answers, lengths after 400 "
                           "commands")))
      << good.out;
  const Ran bad = exits(
      1,
      run_qkvet("replay incident.story -k faulty/cache_truncate_keeps_values"));
  for (const char* part :
       {"FAIL  cache_agrees_with_history", "400 commands -> ", " holds a0",
        "where       command ", "of the recording (request ",
        "again       qkvet replay f32,B1,"})
    EXPECT_TRUE(has(bad.out, part)) << part;
  // The printed command fails again.
  const size_t again = bad.out.find("qkvet replay ") + 6;
  const Ran replayed = exits(
      1, run_qkvet(bad.out.substr(again, bad.out.find('\n', again) - again)));
}

TEST(StoryLogProgram, WrongUse) {
  write_text(scratch() / "bad.story", kHead + "step a 1\nstep a\n");
  expect_wrong_use(run_qkvet("replay bad.story"), "bad.story:4: step with 1");
  expect_wrong_use(run_qkvet("replay none.story"),
                   "none.story: cannot be read");
  write_text(scratch() / "good.story", kHead + "step a 1\n");
  expect_wrong_use(run_qkvet("replay good.story --law 'cache_*'"),
                   "judged as a whole");
  // The selected kernel has no cache.
  EXPECT_EQ(run_qkvet("replay good.story -k scalar/plain").exit, 3);
  // Caches of the default families, and no other kernel.
  const Ran all = exits(0, run_qkvet("replay good.story"));
  EXPECT_FALSE(has(all.out, "scalar/"));
  // An operation that a cache does not offer is no failure.
  write_text(scratch() / "cut.story", kHead + "append a 2\ntruncate a 1\n");
  const Ran cut = exits(
      3, run_qkvet("replay cut.story " QKVET_TABLES " -k tables/no_truncate"));
  EXPECT_TRUE(has(cut.out, "truncate is not offered")) << cut.error;
}

}  // namespace
}  // namespace qkvet::cli::story_log_run_test
