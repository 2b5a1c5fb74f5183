// SPDX-License-Identifier: Apache-2.0
#include "fuzz/hunt/hunter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "properties/testing/fake_executor.h"

namespace qkvet::fuzz::hunter_test {
namespace {

struct Told {
  std::string law, text;
  int64_t execution = 0;
  int64_t counted = 0;  // lines that a watcher knew of before this one
  bool operator==(const Told&) const = default;
};

// A hunt in the laws of a target, on functions.
class Hunt {
 public:
  explicit Hunt(const char* target, FakeExecutor::Question question = {},
                FakeExecutor::Answer answer = {})
      : executor_(std::move(question), std::move(answer)) {
    rules_.laws = laws_of(*find_fuzz_target(target));
    kernels_ = {FakeExecutor::under_test()};
    progress_.kernel = -1;
    hunter_ = std::make_unique<Hunter>(
        *find_fuzz_target(target), rules_, kernels_,
        std::vector<Executor*>{&executor_},
        Guide(counters_, Guide::Sight::kAll), progress_,
        [this](const Found& found) {
          told_.push_back({found.input.law->id, to_string(found.input.value),
                           found.execution, progress_.found});
        });
  }

  void run(const std::string& text) {
    hunter_->run(
        std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
  const std::vector<Told>& told() const { return told_; }
  const HuntProgress& progress() const { return progress_; }
  const Hunter& hunter() const { return *hunter_; }

 private:
  FakeExecutor executor_;
  InputRules rules_;
  std::vector<KernelUnderTest> kernels_;
  std::vector<uint8_t> counters_ = std::vector<uint8_t>(kGuideCounters);
  HuntProgress progress_{};
  std::vector<Told> told_;
  std::unique_ptr<Hunter> hunter_;
};

void no_scale(KernelCall& call, Problem& problem) {
  if (!call.scale) problem.scale = 1;
}

TEST(Hunter, AGoodKernelIsCheckedAndNeverTold) {
  Hunt hunt("shapes");
  for (int n = 0; n < 60; ++n) hunt.run("anything " + std::to_string(n));
  EXPECT_TRUE(hunt.told().empty());
  EXPECT_EQ(hunt.progress().executions, 60);
  EXPECT_GT(hunt.progress().checked, 30);
  EXPECT_EQ(hunt.progress().kernel, -1);
}

TEST(Hunter, RemembersWhatWasNearestToItsBound) {
  double factor = 1;
  Hunt hunt("stability", {},
            [&factor](const KernelCall&, OracleOutput& output, CallOutcome&) {
              for (double& o : output.o) o *= factor;
            });
  hunt.run("agrees_with_oracle f32,B1,H1,Tq1,Tk3,d4,v=one");
  factor = 1 + 0x1p-23;
  hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4,v=one");
  factor = 1;
  hunt.run("agrees_with_oracle f32,B1,H1,Tq3,Tk3,d4,v=one");
  EXPECT_TRUE(hunt.told().empty());
  EXPECT_GT(hunt.hunter().closest().ratio, 0.01);
  EXPECT_LE(hunt.hunter().closest().ratio, 1);
  EXPECT_EQ(hunt.hunter().closest().input.value.shape.Tq, 2);
}

TEST(Hunter, FailuresAreToldTheFirstSecondFourthAndEighthTime) {
  Hunt hunt("shapes", no_scale);
  for (int n = 1; n <= 9; ++n)
    hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4,seed=" +
             std::to_string(n));
  ASSERT_EQ(hunt.told().size(), 4u);
  EXPECT_EQ(hunt.told()[0],
            (Told{"agrees_with_oracle", "f32,B1,H1,Tq2,Tk3,d4", 1}));
  EXPECT_EQ(hunt.told()[1].execution, 2);
  EXPECT_EQ(hunt.told()[2].execution, 4);
  EXPECT_EQ(hunt.told()[3].execution, 8);
  EXPECT_EQ(hunt.progress().found, 4);
  // With d = 1 there is nothing to scale.
  hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d1");
  EXPECT_EQ(hunt.told().size(), 4u);
}

// A watching process ends a hunt at the first failure that is counted: if a
// failure is counted before its line is written, the line may never be written.
TEST(Hunter, AFailureIsCountedWhenItsLineIsWritten) {
  Hunt hunt("shapes", no_scale);
  for (int n = 1; n <= 4; ++n)
    hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4,seed=" +
             std::to_string(n));
  ASSERT_EQ(hunt.told().size(), 3u);
  for (size_t n = 0; n < 3; ++n)
    EXPECT_EQ(hunt.told()[n].counted, static_cast<int64_t>(n));
  EXPECT_EQ(hunt.progress().found, 3);
}

TEST(Hunter, TwoKernelsApartAreASignalBeforeOneIsWrong) {
  const auto counters_with = [](double factor) {
    FakeExecutor exact, other({}, [factor](const KernelCall&,
                                           OracleOutput&output, CallOutcome&) {
      for (double& o : output.o) o *= factor;
    });
    InputRules rules;
    rules.laws = laws_of(*find_fuzz_target("differential"));
    std::vector<KernelUnderTest> kernels(2, FakeExecutor::under_test());
    kernels[1].library = 1;
    std::vector<uint8_t> counters(kGuideCounters);
    HuntProgress progress{};
    int told = 0;
    Hunter hunter(*find_fuzz_target("differential"), rules, kernels,
                  {&exact, &other}, Guide(counters, Guide::Sight::kAll),
                  progress, [&told](const Found&) { ++told; });
    const std::string text = "agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4,v=one";
    hunter.run(
        std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
    EXPECT_EQ(told, 0);
    return std::count(counters.begin(), counters.end(), uint8_t{1});
  };
  const auto together = counters_with(1);
  const auto apart = counters_with(1 + 0x1p-22);
  const auto further = counters_with(1 + 0x1p-21);
  EXPECT_GT(apart, together);
  EXPECT_GT(further, apart);
}

TEST(Hunter, AKernelThatHangsAgainIsLeftAlone) {
  int calls = 0;
  Hunt hunt("stability", {},
            [&calls](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
              ++calls;
              outcome.status = CallStatus::kHang;
            });
  for (int n = 0; n < 5; ++n)
    hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4");
  EXPECT_TRUE(hunt.hunter().exhausted());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(hunt.told().size(), 2u);
}

TEST(Hunter, TheInputAtWorkCanBeSeenFromOutside) {
  const HuntProgress* seen = nullptr;
  std::string input;
  int32_t kernel = -1;
  Hunt hunt("stability", {},
            [&](const KernelCall&, OracleOutput&, CallOutcome&) {
              input.assign(seen->input.data(), seen->input_size);
              kernel = seen->kernel;
            });
  seen = &hunt.progress();
  hunt.run("agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4");
  EXPECT_EQ(input, "agrees_with_oracle f32,B1,H1,Tq2,Tk3,d4");
  EXPECT_EQ(kernel, 0);
}

}  // namespace
}  // namespace qkvet::fuzz::hunter_test
