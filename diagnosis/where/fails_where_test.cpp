// SPDX-License-Identifier: Apache-2.0
// Kernels with a mistake under a known condition: the sentence must be that
// condition, to the exact number. The controls: a kernel that always fails, and
// some with conditions that no sentence can express.
#include "diagnosis/where/fails_where.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/base/philox.h"
#include "diagnosis/fake_faults.h"
#include "properties/cases/generate.h"
#include "properties/conditions/condition.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::diagnosis::fails_where_test {
namespace {

using When = bool (*)(const KernelCall& call);

FakeExecutor::Answer wrong_when(When when) {
  return [when](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (when(call))
      for (double& o : out.o) o = std::isnan(o) ? 0.5 : 1.25 * o + 0.25;
  };
}

// A kernel that is wrong if this holds, and its first failure.
struct Wrong {
  explicit Wrong(When when, const char* law = "agrees_with_oracle")
      : kernel(FakeExecutor::under_test()),
        executor(std::make_unique<FakeExecutor>(nullptr, wrong_when(when))) {
    RunOptions options;
    options.laws = {find_law(law)};
    options.cases = 4000;
    const RunResult result = run_plan(
        {kernel}, opening<FakeExecutor>(nullptr, wrong_when(when)), options);
    for (const Cell& cell : result.kernels[0].cells) failure = cell.failure;
    EXPECT_TRUE(failure) << "nothing fails";
  }

  EvidencePool pool(const Answered* answered = nullptr) {
    return {kernel, *executor, time, answered};
  }

  KernelUnderTest kernel;
  std::unique_ptr<Executor> executor;
  std::optional<Failure> failure;
  TimeUse time;
};

FailsWhere looked_for(When when) {
  Wrong wrong(when);
  return wrong.failure ? look_where_it_fails(*wrong.failure, wrong.pool())
                       : FailsWhere{};
}

struct Known {
  const char* formula;
  When when;
};

const Known kKnown[] = {
    {"", [](const KernelCall&) { return true; }},
    {"Tk > 36", [](const KernelCall& c) { return c.shape.Tk > 36; }},
    {"Tk > 6", [](const KernelCall& c) { return c.shape.Tk >= 7; }},
    {"d <= 4", [](const KernelCall& c) { return c.shape.d < 5; }},
    {"Tk % 4 != 0", [](const KernelCall& c) { return c.shape.Tk % 4 != 0; }},
    {"d % 16 != 0", [](const KernelCall& c) { return c.shape.d % 16 != 0; }},
    {"Tq % 2 == 0", [](const KernelCall& c) { return c.shape.Tq % 2 == 0; }},
    {"Tk > Tq", [](const KernelCall& c) { return c.shape.Tk > c.shape.Tq; }},
    {"mask", [](const KernelCall& c) { return c.mask != nullptr; }},
    {"!bias", [](const KernelCall& c) { return c.bias == nullptr; }},
    {"bottom_right",
     [](const KernelCall& c) { return c.causal == Causal::kBottomRight; }},
    {"(softcap && !softcap.over_one)",
     [](const KernelCall& c) { return c.softcap > 0 && c.softcap <= 1; }},
    {"H * Tq > 12",
     [](const KernelCall& c) { return c.shape.H * c.shape.Tq > 12; }},
    {"Tq == 1", [](const KernelCall& c) { return c.shape.Tq == 1; }},
    {"window && Tq > 8",
     [](const KernelCall& c) { return c.window && c.shape.Tq > 8; }},
    {"H / Hkv >= 2 && Hkv >= 2",
     [](const KernelCall& c) {
       return c.shape.Hkv > 1 && c.shape.H > c.shape.Hkv;
     }},
    {"Tk % 4 != 0 || d % 8 != 0",
     [](const KernelCall& c) {
       return c.shape.Tk % 4 != 0 || c.shape.d % 8 != 0;
     }},
    {"B * H * Tq > 16",
     [](const KernelCall& c) {
       return c.shape.B * c.shape.H * c.shape.Tq > 16;
     }},
    {"Tk > 36 && causal && H >= 2",
     [](const KernelCall& c) {
       return c.shape.Tk >= 37 && c.causal != Causal::kNone && c.shape.H > 1;
     }},
    {"H / Hkv * Tq > 12",
     [](const KernelCall& c) {
       return c.shape.H / c.shape.Hkv * c.shape.Tq > 12;
     }},
    {"Tk > 4 && (causal || B >= 2)",
     [](const KernelCall& c) {
       return c.shape.Tk > 4 && (c.causal != Causal::kNone || c.shape.B > 1);
     }},
    // One extent taken for another.
    {"(Tk < d)", [](const KernelCall& c) { return c.shape.Tk < c.shape.d; }},
    // Four predicates: leaving out any one is wrong in more than one case in
    // ten.
    {"Tk > 12 && causal && H >= 2 && B >= 2", [](const KernelCall& c) {
       return c.shape.Tk > 12 && c.causal != Causal::kNone && c.shape.H > 1 &&
              c.shape.B > 1;
     }}};

// The second call of that law, the one with a mask, is wrong; the case itself
// passes.
TEST(FailsWhere, WhatALawAsksOfACaseIsAskedByItself) {
  Wrong wrong([](const KernelCall& c) { return c.mask != nullptr; },
              "causal_equals_mask");
  ASSERT_TRUE(wrong.failure);
  const FailsWhere where = look_where_it_fails(*wrong.failure, wrong.pool());
  EXPECT_TRUE(where.is_known()) << where.text();
  EXPECT_EQ(where.hypothesis.formula(), "mask");
}

// Other laws about dropout make dozens of calls of a case.
TEST(FailsWhere, DropoutIsAskedAboutInOneCall) {
  Wrong wrong([](const KernelCall& c) { return c.dropout && c.shape.Tk > 4; },
              "dropout_zero_is_no_dropout");
  ASSERT_TRUE(wrong.failure);
  const FailsWhere where = look_where_it_fails(*wrong.failure, wrong.pool());
  ASSERT_TRUE(where.is_known()) << where.text();
  EXPECT_EQ(where.setting->law().id, "dropout_agrees_with_oracle");
  EXPECT_EQ(where.hypothesis.formula(), "Tk > 4");
}

// One case in `every` contradicts the sentence.
FailsWhere nearly_right(uint32_t every) {
  static uint32_t of = 0;
  of = every;
  return looked_for([](const KernelCall& c) {
    const Shape& x = c.shape;
    const auto extents = static_cast<uint32_t>(
        x.Tk + 31 * (x.Tq + 31 * (x.d + 31 * (x.dv + 31 * (x.H + 31 * x.B)))));
    const bool is_other = philox_u64(2, extents, 0, 0) % of == 0;
    return (c.shape.Tk > 6) != is_other;
  });
}

// A sentence that is wrong in every thirtieth case is believed, if not after
// the first two hundred; one that is wrong in every tenth is not.
TEST(FailsWhere, WhatIsNearlyBelievedIsHeldAgainstMore) {
  const FailsWhere nearly = nearly_right(32);
  EXPECT_TRUE(nearly.is_known()) << nearly.text();
  EXPECT_GT(nearly.fresh.all, 200);
  EXPECT_LT(nearly.fresh.right, nearly.fresh.all);
  const FailsWhere not_nearly = nearly_right(10);
  EXPECT_FALSE(not_nearly.is_known()) << not_nearly.text();
}

// Finds where a kernel with this behaviour fails, by its first failure of the
// law.
FailsWhere where_of(const char* law, const FakeExecutor::Question& question,
                    const FakeExecutor::Answer& answer) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const std::vector<Failure> failures =
      instead_test::failures_of(law, question, answer);
  if (failures.empty()) return {};
  FakeExecutor executor(question, answer);
  TimeUse time;
  return look_where_it_fails(failures[0], {kernel, executor, time});
}

// A kernel with an lse that is wrong by its extents, except for one case in
// eleven by its data. With q = 0 the extents alone decide: by a simple rule,
// which gives a sentence on the data of the law, or by a hash, which gives
// none.
TEST(FailsWhere, TheDataOfALawTellWhatNormalDataDoNot) {
  for (const bool is_told : {true, false}) {
    struct Seen {
      bool is_nothing = false, is_odd = false;
    };
    const auto seen = std::make_shared<Seen>();
    const auto look = [seen](KernelCall&, Problem& p) {
      const int64_t count = p.shape.q_elements();
      double sum = 0;
      for (int64_t n = 0; n < count; ++n) sum += p.q[n];
      seen->is_nothing = sum == 0;
      seen->is_odd = std::fmod(std::fabs(sum) * 1024, 11) < 1;
    };
    const auto answer = [seen, is_told](const KernelCall& call,
                                        OracleOutput& out, CallOutcome&) {
      const Shape& s = call.shape;
      const bool is_by_extents =
          is_told ? s.Tk > 4 : (s.B * 7 + s.H * 5 + s.Tq * 3 + s.Tk) % 11 < 5;
      if (seen->is_nothing ? is_by_extents : (s.Tk > 4) != seen->is_odd)
        for (double& lse : out.lse) lse += 1;
    };
    const FailsWhere where = where_of("lse_counts_equal_keys", look, answer);
    EXPECT_EQ(where.is_known(), is_told) << where.text();
    if (is_told) {
      EXPECT_NE(where.text().find("q=zero"), std::string::npos) << where.text();
    }
  }
}

// A kernel that does not subtract the largest score overflows only for large
// scores, which normal data do not have.
TEST(FailsWhere, WhatFailsForItsScoresIsSaidToDoSo) {
  for (const bool is_told : {true, false}) {
    const auto answer = [is_told](const KernelCall& call, OracleOutput& out,
                                  CallOutcome&) {
      const Shape& s = call.shape;
      double most = 0;
      for (int64_t n = 0; n < s.weights_elements(); ++n)
        if (const auto pair = static_cast<size_t>(n); out.weights[pair] > 0)
          most = std::max(most, std::log(out.weights[pair]) +
                                    out.lse[static_cast<size_t>(n / s.Tk)]);
      // In the control, failures depend on a hash of the scores.
      const auto hash = philox_u64(7, static_cast<uint32_t>(1e3 * most), 0, 0);
      if (is_told ? most < 80 : most < 8 || hash % 2 == 0) return;
      for (double& o : out.o) o = std::numeric_limits<double>::quiet_NaN();
    };
    const FailsWhere where =
        where_of("shifted_keys_change_nothing", nullptr, answer);
    EXPECT_EQ(where.is_known(), is_told) << where.text();
    if (is_told) {
      EXPECT_EQ(where.hypothesis.sentence(), "a score is 80 or more")
          << where.text();
      EXPECT_TRUE(where.is_of_scores());
    }
  }
}

// A case that did not fail each time it was run again may still fail by its
// extents; one that fails every third time does not.
TEST(FailsWhere, WhatIsUnsteadyIsAskedForASentenceAsWell) {
  for (const bool is_told : {true, false}) {
    const auto answer = [is_told, calls = std::make_shared<uint32_t>(0)](
                            const KernelCall& call, OracleOutput& out,
                            CallOutcome&) {
      const bool is_third = philox_u64(7, ++*calls, 0, 0) % 3 == 0;
      if (is_told ? call.shape.Tk > 6 : is_third)
        for (double& o : out.o) o = 1.25 * o + 0.25;
    };
    const KernelUnderTest kernel = FakeExecutor::under_test();
    std::vector<Failure> failures =
        failures_for_test(kernel, opening<FakeExecutor>(nullptr, answer),
                          {find_law("agrees_with_oracle")}, 4000);
    ASSERT_FALSE(failures.empty());
    failures[0].repeats = 10;
    failures[0].repeats_failed = 3;
    FakeExecutor executor(nullptr, answer);
    TimeUse time;
    const Diagnosis diagnosis =
        diagnose(failures[0], kernel, executor, known_faults_for_test(), time);
    EXPECT_EQ(diagnosis.where.is_known(), is_told) << diagnosis.where.text();
    EXPECT_EQ(diagnosis.instead.outputs.empty(), !is_told);
  }
}

TEST(FailsWhere, ASentenceIsBelievedByHowManyCasesSayHowMuch) {
  const auto believed = [](int right, int all, int failing = 20) {
    return FreshVerdicts{right, all, failing}.are_believable();
  };
  // A sentence that is wrong in every twentieth case has so few misses once in
  // ten times: by the tail of the binomial distribution.
  EXPECT_TRUE(believed(45, 45));
  EXPECT_FALSE(believed(44, 44));
  EXPECT_TRUE(believed(147, 150));
  EXPECT_FALSE(believed(146, 150));
  EXPECT_TRUE(believed(243, 250));
  EXPECT_FALSE(believed(242, 250));
  EXPECT_TRUE(believed(496, 514));
  EXPECT_FALSE(believed(495, 514));
  EXPECT_FALSE(believed(0, 0, 0));
  EXPECT_FALSE(believed(50, 50, 0)) << "nothing failed";
  // A few right cases count less than many that are believed.
  EXPECT_FALSE((FreshVerdicts{22, 22, 11}.are_better_than({244, 250, 120})));
  EXPECT_TRUE((FreshVerdicts{150, 150, 75}.are_better_than({244, 250, 120})));
}

std::set<std::string> parts_of(std::string text) {
  std::set<std::string> parts;
  for (const std::string between : {" && ", " || "})
    for (size_t at; (at = text.find(between)) != std::string::npos;
         text.erase(0, at + between.size()))
      parts.insert(text.substr(0, at));
  parts.insert(text);
  return parts;
}

TEST(FailsWhere, AConditionThatIsMadeIsSaidExactly) {
  for (const Known& known : kKnown) {
    const FailsWhere where = looked_for(known.when);
    EXPECT_TRUE(where.is_known()) << known.formula << ": " << where.text();
    EXPECT_EQ(parts_of(where.hypothesis.formula()), parts_of(known.formula))
        << where.text();
    EXPECT_LE(where.failing + where.passing, kMostWhereCases);
  }
}

// Conditions that no sentence can express: these must not get one.
const Known kUnsayable[] = {
    {"a third of the shapes",
     [](const KernelCall& c) {
       return philox_u64(9, static_cast<uint32_t>(c.shape.Tk),
                         static_cast<uint32_t>(c.shape.Tq * 31 + c.shape.d),
                         static_cast<uint32_t>(c.shape.H * 7 + c.shape.B)) %
                  3 ==
              0;
     }},
    {"the sign of the first number of q",
     [](const KernelCall& c) {
       return c.shape.q_elements() > 0 &&
              (std::to_integer<int>(c.q[dtype_bytes(c.q_dtype) - 1]) & 128) !=
                  0;
     }},
    {"Tq Tk is 1 mod 3",
     [](const KernelCall& c) { return c.shape.Tq * c.shape.Tk % 3 == 1; }}};

TEST(FailsWhere, WhatNoSentenceCanSayGetsNone) {
  for (const Known& known : kUnsayable) {
    const FailsWhere where = looked_for(known.when);
    EXPECT_FALSE(where.is_known()) << known.formula << ": " << where.text();
    EXPECT_GT(where.fresh.all, 20) << known.formula;
    EXPECT_TRUE(where.text().starts_with("no short sentence describes where"))
        << where.text();
  }
}

// The judge of sentences is judged as well: a sentence with a number that is
// off by one, or the opposite sentence, must not pass.
TEST(FailsWhere, ASentenceThatIsOneOffIsScoredBadly) {
  Wrong wrong([](const KernelCall& c) { return c.shape.Tk > 12; });
  ASSERT_TRUE(wrong.failure);
  const FailsWhere where = look_where_it_fails(*wrong.failure, wrong.pool());
  ASSERT_EQ(where.hypothesis.formula(), "Tk > 12");
  const auto judged = [&](const FailsWhere& one) {
    return predict_fresh(one, 77, 200, wrong.pool());
  };
  const FreshVerdicts exact = judged(where);
  EXPECT_EQ(exact.right, exact.all);
  EXPECT_GT(exact.all, 150);
  EXPECT_GT(exact.failing, 50);
  for (const int64_t off : {-1, 1}) {
    FailsWhere other = where;
    other.hypothesis.atoms[0].number += off;
    const FreshVerdicts fresh = judged(other);
    EXPECT_FALSE(fresh.are_right())
        << off << ": " << fresh.right << " of " << fresh.all;
  }
  FailsWhere opposite = where;
  opposite.hypothesis.unless = true;
  const FreshVerdicts fresh = judged(opposite);
  EXPECT_LT(4 * fresh.right, fresh.all);
}

Answered planned(int64_t count) {
  Answered answered;
  const Law& law = *find_law("agrees_with_oracle");
  for (int64_t n = 1; n <= count; ++n)
    answered.push_back({&law, planned_case(law, 8, n)});
  return answered;
}

TEST(FailsWhere, RecordedAnswersSayItWithoutBeingAskedAgain) {
  const auto looked = [](When when, int64_t count) {
    Wrong wrong(when);
    const Answered answered = planned(count);
    return look_where_answers_fail(*wrong.failure, wrong.pool(&answered));
  };
  const FailsWhere masked =
      looked([](const KernelCall& c) { return c.mask != nullptr; }, 240);
  EXPECT_TRUE(masked.is_known());
  EXPECT_TRUE(masked.text().starts_with("where a mask is given: right in "))
      << masked.text();
  EXPECT_NE(masked.text().find("recorded answers"), std::string::npos);
  // Too few cases to check a sentence, and a condition that no sentence can
  // express.
  EXPECT_EQ(
      looked([](const KernelCall& c) { return c.mask != nullptr; }, 20).text(),
      "");
  EXPECT_FALSE(looked(kUnsayable[0].when, 240).is_known());
}

TEST(FailsWhere, TheSameFailureHasTheSameSentence) {
  const When when = kKnown[14].when;
  const FailsWhere one = looked_for(when), other = looked_for(when);
  EXPECT_EQ(one.text(), other.text());
  EXPECT_EQ(one.nearest_pass, other.nearest_pass);
  EXPECT_EQ(one.calls, other.calls);
}

// A sentence is also a formula of the language of conditions, with the same
// meaning.
TEST(FailsWhere, FormulasAreConditions) {
  const Law& law = *find_law("agrees_with_oracle");
  std::vector<Sample> samples;
  std::vector<Case> cases;
  for (int n = 1; n <= 300; ++n) {
    cases.push_back(planned_case(law, 3, n));
    samples.push_back({term_values(cases.back()), false});
  }
  int formulas = 0;
  for (size_t term = 0; term < vocabulary().size(); ++term) {
    const int64_t middle = samples[17].values[term];
    for (Sample& sample : samples)
      sample.failed = sample.values[term] >= middle && middle != 0;
    for (const Hypothesis& one : simplest_hypotheses(samples, 12)) {
      if (one.is_always()) continue;
      const ParsedCondition parsed = parse_condition(one.formula());
      ASSERT_TRUE(parsed.value) << one.formula() << ": " << parsed.error;
      for (size_t n = 0; n < cases.size(); n += 7)
        EXPECT_EQ(parsed.value->holds(Situation(cases[n])),
                  one.predicts_failure(samples[n].values))
            << one.formula() << " of " << to_string(cases[n]);
      ++formulas;
    }
  }
  EXPECT_GT(formulas, 100);
}

// Flags are 0 or 1.
TEST(FailsWhere, FlagsAreZeroOrOne) {
  for (const char* id : {"agrees_with_oracle", "cache_agrees_with_history",
                         "layer_agrees_with_oracle"}) {
    const Law* law = find_law(id);
    ASSERT_NE(law, nullptr) << id;
    for (int n = 1; n <= 100; ++n) {
      const TermValues values = term_values(planned_case(*law, 5, n));
      for (size_t i = 0; i < values.size(); ++i)
        if (vocabulary()[i].kind == Term::Kind::kFlag) {
          EXPECT_TRUE(values[i] == 0 || values[i] == 1)
              << vocabulary()[i].name << " = " << values[i];
        }
    }
  }
}

// A cache that writes out of bounds when it evicts a token: that story ends its
// process, or else it and all later ones of this process are answered wrongly.
// `in_any`: of any process.
class DamagedTables : public Executor {
 public:
  explicit DamagedTables(bool in_any) : in_any_(in_any) {}

  const std::vector<KernelInfo>& kernels() const override {
    return tables_.kernels();
  }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = tables_.run(kernel, calls);
    for (size_t n = 0; n < calls.size(); ++n) {
      if (calls[n].new_process && !in_any_) is_damaged_ = false;
      if (calls[n].operation == Operation::kCacheEvict) {
        is_damaged_ = true;
        if (++evictions_ % 3 == 0) end_at(n, outcomes);
      }
      if (is_damaged_)
        for (std::byte& byte : outcomes[n].o) byte = std::byte{0x3C};
    }
    return outcomes;
  }

 private:
  void end_at(size_t n, std::vector<CallOutcome>& outcomes) {
    is_damaged_ = in_any_;
    for (size_t after = n; after < outcomes.size(); ++after) {
      outcomes[after] = {};
      outcomes[after].status =
          after == n ? CallStatus::kCrash : CallStatus::kNotRun;
    }
  }

  FakeTables tables_;
  bool in_any_, is_damaged_ = false;
  int evictions_ = 0;
};

// A kernel that hangs if there are many keys. `soon`: such calls are recognised
// at once.
class Hanging : public FakeExecutor {
 public:
  explicit Hanging(bool soon) : soon_(soon) {}

  bool expect_hangs(int) override { return soon_; }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = FakeExecutor::run(kernel, calls);
    for (size_t n = 0; n < calls.size(); ++n)
      if (calls[n].shape.Tk > 6) {
        outcomes[n] = {};
        outcomes[n].status = CallStatus::kHang;
      }
    return outcomes;
  }

 private:
  bool soon_;
};

// Calls that hang get a sentence, as wrong ones do; the control: not if each
// such call takes seconds.
TEST(FailsWhere, CallsThatDoNotEndHaveASentenceToo) {
  const auto looked = [](bool soon) {
    const auto open = opening<Hanging>(soon);
    const KernelUnderTest kernel = FakeExecutor::under_test();
    const std::vector<Failure> failures =
        failures_for_test(kernel, open, {find_law("agrees_with_oracle")}, 4000);
    EXPECT_FALSE(failures.empty());
    if (failures.empty()) return FailsWhere{};
    Hanging executor(soon);
    TimeUse time;
    return look_where_it_fails(failures[0], {kernel, executor, time});
  };
  const FailsWhere known = looked(true);
  EXPECT_TRUE(known.is_known()) << known.text();
  EXPECT_EQ(known.hypothesis.formula(), "Tk > 6");
  EXPECT_FALSE(looked(false).is_known());
}

// Damage by an earlier story must not count as a failure.
TEST(FailsWhere, StoriesAreHeardAloneWhereOthersDoDamage) {
  const auto looked = [](bool in_any) {
    const auto open = opening<DamagedTables>(in_any);
    const KernelUnderTest kernel = FakeTables::under_test();
    const std::vector<Failure> failures = failures_for_test(
        kernel, open, {find_law("cache_agrees_with_history")}, 4000);
    EXPECT_FALSE(failures.empty());
    if (failures.empty()) return FailsWhere{};
    DamagedTables executor(in_any);
    TimeUse time;
    return look_where_it_fails(failures[0], {kernel, executor, time});
  };
  const FailsWhere alone = looked(false);
  EXPECT_TRUE(alone.is_known()) << alone.text();
  EXPECT_EQ(alone.hypothesis.formula(),
            "commands(queries > 0 && after.evict > 0)");
  // The control: with damage that persists in a new process, no condition can
  // be found.
  EXPECT_NE(looked(true).hypothesis.formula(),
            "commands(queries > 0 && after.evict > 0)");
}

}  // namespace
}  // namespace qkvet::diagnosis::fails_where_test
