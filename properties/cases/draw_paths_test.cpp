// SPDX-License-Identifier: Apache-2.0
// Declared paths get cases at their borders.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/capability/paths.h"
#include "properties/cases/draw.h"
#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/runner.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::draw_paths_test {
namespace {

KernelUnderTest with_paths(const char* paths) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  EXPECT_EQ(read_paths(paths, kernel.judged.info.capabilities), "");
  return kernel;
}

Scope scope_of(const KernelUnderTest& kernel) {
  Scope scope;
  keep_scope_to({kernel}, scope);
  return scope;
}

// The extents of a default plan of one law.
constexpr int64_t kCases = 400;

TEST(Paths, EachGetsItsNeighboursAndMultiples) {
  const Scope scope =
      scope_of(with_paths("Tq=48 Tk=64 Tk=1777 dv=72 d=136 B=70 H=100"));
  std::map<std::string, std::set<int64_t>> seen;
  constexpr int64_t kOfPlan = 16384;
  const Law& law = *find_law("agrees_with_oracle");
  for (int64_t n = 1; n <= kOfPlan; ++n) {
    const Case value = planned_case(law, 1, n, scope);
    const Shape& s = value.shape;
    seen["Tq"].insert(s.Tq);
    seen["Tk"].insert(s.Tk);
    seen["d"].insert(s.d);
    seen["dv"].insert(s.dv);
    seen["B"].insert(s.B);
    seen["H"].insert(s.H);
    // The cost is that of long cases: many keys come with few rows.
    EXPECT_LE(work_of(s), int64_t{1} << 26) << to_string(value);
  }
  for (const auto& [name, at] : {std::pair<std::string, int64_t>{"Tq", 48},
                                 {"Tk", 64},
                                 {"Tk", 1777},
                                 {"dv", 72},
                                 {"d", 136},
                                 {"B", 70},
                                 {"H", 100}})
    for (const int64_t extent : {at - 1, at, at + 1, 2 * at, 2 * at + 1})
      EXPECT_EQ(seen[name].count(extent), 1u) << name << " = " << extent;
  // A whole tile after the border, and a partial one.
  EXPECT_EQ(seen["Tk"].count(1777 + 64), 1u);
  EXPECT_EQ(seen["Tk"].count(1777 + 65), 1u);
}

// Every option of a plan meets every path.
TEST(Paths, MeetEveryOption) {
  const Scope scope = scope_of(with_paths("Tk=64 Tk=1777"));
  std::map<int64_t, uint64_t> met;
  constexpr int64_t kOfPlan = 16384;
  uint64_t allowed = 0;
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (law->domain.subject == Subject::kAttention) laws.push_back(law);
  for (int64_t n = 1; n <= kOfPlan; ++n) {
    const Law& law = *laws[static_cast<size_t>(n) % laws.size()];
    const Case value = planned_case(law, 1, n, scope);
    allowed |= options_of(value);
    for (const int64_t at : {int64_t{64}, int64_t{1777}})
      if (std::abs(value.shape.Tk - at) <= 1) met[at] |= options_of(value);
  }
  // Empty extents never meet a path. Dropped weights are read by one call for
  // every dv keys, and repeated calls are small.
  EXPECT_EQ(option_names(allowed & ~(met[64] | QKVET_OPTION_EMPTY_EXTENTS)),
            "");
  constexpr uint64_t kNotLong =
      QKVET_OPTION_EMPTY_EXTENTS | QKVET_OPTION_DROPOUT | kOptionCalls;
  EXPECT_EQ(option_names(allowed & ~(met[1777] | kNotLong)), "");
}

TEST(Paths, KeepToTheSizesOfTheRun) {
  Scope scope = scope_of(with_paths("Tk=64 Tq=1777"));
  scope.largest = SizeClass::kSmall;
  for (int64_t n = 1; n <= kCases; ++n) {
    const Case value =
        planned_case(*find_law("agrees_with_oracle"), 1, n, scope);
    EXPECT_LE(std::max(value.shape.Tq, value.shape.Tk), 24);
  }
}

// Wrong only in the first part after 1,777 keys, unless that part is whole.
void loses_rest_of_part(const KernelCall& call, OracleOutput& oracle,
                        CallOutcome&) {
  constexpr int64_t kFrom = 1777, kPart = 48;
  const int64_t rest = call.shape.Tk - kFrom;
  if (rest > 0 && rest < kPart)
    for (double& o : oracle.o) o += 1;
}

// The control of the declaration is the same kernel without it.
TEST(Paths, AMistakeAtABorderIsFoundWhereItIsDeclared) {
  const RunOptions options = options_for(
      {"rows_stay_in_hull", "weights_sum_to_one", "agrees_with_oracle"},
      3 * kCases);
  const KernelUnderTest declared = with_paths("Tk=48 Tk=1777");
  const auto fails = [&](const KernelUnderTest& kernel) {
    return some_failed(run_fake(options, {}, loses_rest_of_part, kernel));
  };
  EXPECT_TRUE(fails(declared));
  EXPECT_FALSE(fails(FakeExecutor::under_test()));
  const RunResult right = run_fake(options, {}, {}, declared);
  EXPECT_FALSE(some_failed(right));
  for (const Cell& cell : right.kernels[0].cells)
    EXPECT_EQ(cell.verdict, Verdict::kPassed);
}

KernelUnderTest with_hints(const char* paths) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  const KernelUnderTest declared = with_paths(paths);
  for (const qkvet_path& path : paths_of(declared.judged.info.capabilities))
    kernel.hints.push_back({path, "a test"});
  return kernel;
}

// A hint is tried like a path, but not required.
TEST(Hints, AreLookedAtAndNeverMissed) {
  const RunOptions options = options_for(
      {"rows_stay_in_hull", "weights_sum_to_one", "agrees_with_oracle"},
      3 * kCases);
  const KernelUnderTest hinted = with_hints("Tk=1777");
  const RunResult wrong = run_fake(options, {}, loses_rest_of_part, hinted);
  EXPECT_TRUE(some_failed(wrong));
  const RunResult looked = run_fake(options, {}, {}, hinted);
  EXPECT_FALSE(some_failed(looked));
  ASSERT_EQ(looked.kernels[0].near_hints.size(), 1u);
  EXPECT_GT(looked.kernels[0].near_hints[0], 0);
  RunOptions small = options;
  small.scope.largest = SizeClass::kSmall;
  const RunResult right = run_fake(small, {}, {}, hinted);
  EXPECT_FALSE(some_failed(right));
  const KernelResult& kernel = right.kernels[0];
  EXPECT_EQ(kernel.near_hints, std::vector<int64_t>{0});
  EXPECT_TRUE(std::none_of(
      kernel.never_drawn.begin(), kernel.never_drawn.end(),
      [](const std::string& line) { return line.starts_with("around"); }));
}

TEST(Hints, OfWhatIsDeclaredAreNone) {
  KernelUnderTest kernel = with_hints("Tk=64 Tk=96");
  EXPECT_EQ(read_paths("Tk=64", kernel.judged.info.capabilities), "");
  const Scope scope = scope_of(kernel);
  ASSERT_EQ(scope.hints.size(), 1u);
  EXPECT_EQ(path_text(scope.hints[0]), "Tk=96");
}

TEST(Hints, TakeFewCases) {
  const Scope scope = scope_of(with_hints("Tk=1777 Tq=1777"));
  int64_t near = 0;
  for (int64_t n = 1; n <= 10 * kCases; ++n) {
    const Shape s =
        planned_case(*find_law("agrees_with_oracle"), 1, n, scope).shape;
    near += std::max(s.Tq, s.Tk) > 1700;
  }
  EXPECT_GT(near, 10 * kCases / 50);
  EXPECT_LT(near, 10 * kCases / 8);
}

KernelUnderTest tables_with(const char* paths) {
  KernelUnderTest kernel = FakeTables::under_test();
  EXPECT_EQ(read_paths(paths, kernel.judged.info.capabilities), "");
  return kernel;
}

// The lengths at which some step of a story attends.
std::set<int64_t> lengths_of(const Case& value) {
  std::set<int64_t> lengths;
  const StoryRules rules = {value.shape.B, value.capacity, false, value.cache};
  for (const Snapshot& snapshot : play_story(value.story, rules))
    if (snapshot.illegal.empty() && snapshot.queries > 0)
      lengths.insert(static_cast<int64_t>(snapshot.history.size()));
  return lengths;
}

TEST(Paths, StoriesComeToTheLengthsAroundThem) {
  const Scope scope = scope_of(tables_with("Tk=333 Tq=71 d=40 H=9"));
  const Law& law = *find_law("cache_agrees_with_history");
  std::map<int64_t, int> attended;
  std::set<int64_t> at_once, d, heads;
  for (int64_t n = 1; n <= 4 * kCases; ++n) {
    const Case value = planned_case(law, 1, n, scope);
    EXPECT_EQ(invalid_reason(value), "") << to_string(value);
    for (const int64_t length : lengths_of(value)) ++attended[length];
    for (const StoryCommand& command : value.story)
      if (command.verb == StoryVerb::kStep) at_once.insert(command.count);
    d.insert(value.shape.d);
    heads.insert(value.shape.H);
    EXPECT_LE(work_of(value.shape), int64_t{1} << 26) << to_string(value);
  }
  for (const int64_t length : {332, 333, 334, 666, 667})
    EXPECT_GT(attended[length], 0) << length;
  for (const int64_t tokens : {70, 71, 72})
    EXPECT_EQ(at_once.count(tokens), 1u) << tokens;
  EXPECT_EQ(d.count(40) + d.count(41) + heads.count(9) + heads.count(10), 4u);
}

TEST(Paths, LayersAreAsLong) {
  const Scope scope = scope_of(tables_with("Tk=333 d=40"));
  std::map<int64_t, int> tokens;
  std::set<int64_t> d;
  for (int64_t n = 1; n <= 4 * kCases; ++n) {
    const Case value =
        planned_case(*find_law("layer_agrees_with_oracle"), 1, n, scope);
    EXPECT_EQ(invalid_reason(value), "") << to_string(value);
    ++tokens[value.shape.Tq];
    d.insert(value.shape.d);
  }
  for (const int64_t T : {332, 333, 334}) EXPECT_GT(tokens[T], 0) << T;
  EXPECT_EQ(d.count(39) + d.count(40) + d.count(41), 3u);
}

// Wrong with 313 to 330 keys, which neither short nor long cases have: their
// extents end at 300, and begin at 511.
void scales_rest_of_part(Problem& problem) {
  constexpr int64_t kFrom = 312, kPart = 18;
  const int64_t rest = problem.shape.Tk - kFrom;
  if (rest > 0 && rest <= kPart) problem.scale *= 2;
}

RunResult run_tables(const char* law, const char* paths, bool is_right) {
  Spoil spoil;
  if (!is_right) spoil.question = scales_rest_of_part;
  spoil.layer_question = [is_right](LayerProblem& problem) {
    if (!is_right && problem.shape.Tq > 312 && problem.shape.Tq < 331)
      problem.scale *= 2;
  };
  return run_plan(
      {tables_with(paths)},
      [&](size_t) {
        return Opened{std::make_unique<FakeTables>(spoil), ""};
      },
      options_for({law}, kCases));
}

TEST(Paths, AMistakeOfACacheOrALayerIsFoundWhereTheyAreDeclared) {
  for (const char* law :
       {"cache_agrees_with_history", "layer_agrees_with_oracle"}) {
    EXPECT_TRUE(some_failed(run_tables(law, "Tk=312", false))) << law;
    EXPECT_FALSE(some_failed(run_tables(law, "", false))) << law;
    const RunResult right = run_tables(law, "Tk=312", true);
    EXPECT_FALSE(some_failed(right)) << law;
  }
}

// Paths that no story can reach are reported, and the others are counted.
TEST(Paths, OfACacheAreCountedAndOwed) {
  const KernelResult kernel =
      run_tables("cache_agrees_with_history", "Tk=312 B=33", true).kernels[0];
  ASSERT_EQ(kernel.drawn.size(), 1u);
  EXPECT_TRUE(kernel.drawn[0].starts_with("around Tk=312 in KV caches "));
  EXPECT_EQ(kernel.never_drawn,
            std::vector<std::string>{"around B=33 in KV caches"});
  EXPECT_EQ(run_tables("layer_agrees_with_oracle", "Tk=312", true)
                .kernels[0]
                .never_drawn,
            std::vector<std::string>{});
}

TEST(Paths, OfAllKernelsAreDrawn) {
  Scope scope;
  keep_scope_to({with_paths("Tk=64"), with_paths("Tk=64 Tk=48")}, scope);
  EXPECT_EQ(scope.paths.size(), 2u);
}

}  // namespace
}  // namespace qkvet::properties::draw_paths_test
