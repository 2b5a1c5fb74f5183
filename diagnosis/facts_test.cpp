// SPDX-License-Identifier: Apache-2.0
// Facts about failing cases besides wrong numbers: what a cache reads back
// instead of tokens, and how calls end. Each fact has a kernel for which it
// must be reported, and one for which it must not.
#include "diagnosis/instead/facts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "diagnosis/test_faults.h"
#include "properties/cases/generate.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::diagnosis::facts_test {
namespace {

// A cache with commands that end as `ends` returns.
class EndingTables : public Executor {
 public:
  using Ends = std::function<CallStatus(const KernelCall& call)>;

  EndingTables(Spoil spoil, Ends ends)
      : tables_(std::move(spoil)), ends_(std::move(ends)) {}

  const std::vector<KernelInfo>& kernels() const override {
    return tables_.kernels();
  }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = tables_.run(kernel, calls);
    for (size_t n = 0; ends_ && n < calls.size(); ++n) {
      const CallStatus status = ends_(calls[n]);
      if (status == CallStatus::kDone) continue;
      outcomes[n] = {};
      outcomes[n].status = status;
      // The cache is gone with its process.
      for (size_t after = n + 1; after < calls.size(); ++after) {
        if (calls[after].operation == Operation::kCacheCreate) break;
        outcomes[after] = {};
        outcomes[after].status = CallStatus::kNotRun;
        n = after;
      }
    }
    return outcomes;
  }

 private:
  FakeTables tables_;
  Ends ends_;
};

// A cache that computes its answers from unwritten memory.
class TablesOfMemory : public FakeTables {
 public:
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = FakeTables::run(kernel, calls);
    for (size_t n = 0; n < calls.size(); ++n) {
      const uint8_t byte = calls[n].fresh_memory;
      const float number = byte == 0 || byte == 0xff
                               ? std::numeric_limits<float>::quiet_NaN()
                               : byte;
      for (size_t at = 0; at < outcomes[n].o.size(); at += sizeof number)
        std::memcpy(&outcomes[n].o[at], &number, sizeof number);
    }
    return outcomes;
  }
};

TEST(Facts, NaNOfMemoryIsKnownInStories) {
  const KernelUnderTest kernel = FakeTables::under_test();
  const std::vector<Failure> failures =
      failures_for_test(kernel, opening<TablesOfMemory>(),
                        {find_law("cache_agrees_with_history")}, 1000);
  ASSERT_FALSE(failures.empty());
  TimeUse time;
  TablesOfMemory executor;
  const Instead instead =
      look_what_it_is_instead(failures[0], {}, {kernel, executor, time});
  EXPECT_TRUE(instead.text().starts_with("o is made of unwritten memory"))
      << instead.text();
}

struct Looked {
  Instead instead;
  InsteadScore score;
};

// `law` finds the failure; fresh answers are those of `judged`.
Looked look(const Spoil& spoil, const EndingTables::Ends& ends = {},
            const char* law = "cache_agrees_with_history",
            const Spoil* judged = nullptr) {
  const KernelUnderTest kernel = FakeTables::under_test();
  const std::vector<Failure> failures = failures_for_test(
      kernel, opening<EndingTables>(spoil, ends), {find_law(law)}, 4000);
  Looked out;
  EXPECT_FALSE(failures.empty()) << law;
  if (failures.empty()) return out;
  TimeUse time;
  EndingTables executor(spoil, ends);
  out.instead =
      look_what_it_is_instead(failures[0], {}, {kernel, executor, time});
  EndingTables fresh(judged != nullptr ? *judged : spoil, ends);
  out.score = score_instead(out.instead, failures[0], {}, {kernel, fresh, time},
                            /*seed=*/77, /*count=*/200);
  return out;
}

// Stores each appended token with the values of the token before it.
void append_values_in_front(FakeTokens& tokens, FakeTokens more) {
  for (size_t n = more.size(); n-- > 0;)
    if (n > 0 || !tokens.empty())
      more[n].v = n > 0 ? more[n - 1].v : tokens.back().v;
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// The copy keeps its own keys, as far as it had any.
void fork_without_keys(const FakeTokens& from, FakeTokens& to) {
  const FakeTokens own = to;
  to = from;
  for (size_t n = 0; n < std::min(own.size(), to.size()); ++n)
    to[n].k = own[n].k;
}

Spoil with_append(void (*append)(FakeTokens&, FakeTokens)) {
  Spoil spoil;
  spoil.append = append;
  return spoil;
}

TEST(Facts, WhatACacheReadsBackIsSaid) {
  Spoil of_fork;
  of_fork.fork = fork_without_keys;
  Spoil of_evict;
  of_evict.evict = [](FakeTokens& tokens, int64_t, int64_t count) {
    tokens.resize(tokens.size() - static_cast<size_t>(count));
  };
  const struct {
    Spoil spoil;
    const char* text;
    Stage stage;
  } rows[] = {{with_append(append_values_in_front),
               "the wrong values that are read back are those of the token in "
               "front",
               Stage::kWritten},
              {of_fork,
               "the wrong keys that are read back are the content of their "
               "place before the last command",
               Stage::kMoved},
              {of_evict,
               "the wrong keys and values that are read back are the content "
               "of their place before the last command",
               Stage::kMoved}};
  for (const auto& row : rows) {
    const Looked looked = look(row.spoil);
    EXPECT_EQ(looked.instead.stored.text, row.text);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(row.stage))
        << row.text;
    EXPECT_NE(looked.instead.text().find(row.text), std::string::npos);
    EXPECT_GT(looked.score.all, 3) << row.text;
    EXPECT_EQ(looked.score.right, looked.score.all) << row.text;
  }
}

// A change to another sequence is seen if that sequence is read at once. The
// last fault copies wrongly, which changes no other sequence.
TEST(Facts, WhatACommandDoesToAnotherSequenceIsSaid) {
  const struct {
    const char* fault;
    const char* text;
  } rows[] = {
      {"cache_evict_writes_shared_page",
       "evicting from one sequence changes tokens of another that shares some "
       "with it"},
      {"cache_shared_page_not_copied",
       "appending to one sequence changes tokens of another that shares some "
       "with it"},
      {"cache_position_collision",
       "appending to one sequence changes tokens of another"},
      {"cache_evict_keys_only", nullptr}};
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  for (const auto& row : rows) {
    const KernelUnderTest kernel = fault_for_test(*opened.executor, row.fault);
    const std::vector<Failure> failures = failures_for_test(
        kernel, open_faults, {find_law("cache_agrees_with_history")}, 4000);
    ASSERT_FALSE(failures.empty()) << row.fault;
    TimeUse time;
    const std::string text =
        look_what_it_is_instead(failures[0], {},
                                {kernel, *opened.executor, time})
            .stored.text;
    if (row.text != nullptr)
      EXPECT_EQ(text, row.text) << row.fault;
    else
      EXPECT_EQ(text.find("one sequence"), std::string::npos) << text;
  }
}

// Two mistakes in turn have nothing in common; stored tokens are right if only
// the attention over them is wrong; and a false fact gets a bad score.
TEST(Facts, WhatNoCacheReadsBackIsNotSaid) {
  const Spoil in_turn = with_append([](FakeTokens& tokens, FakeTokens more) {
    for (FakeToken& token : more) {
      const size_t n = tokens.size();
      if (n % 2 == 1) token.v = tokens.back().v;
      if (n % 2 == 0 && n > 0)
        for (double& x : token.v) x = 2 * x + 1;
      tokens.push_back(token);
    }
  });
  Spoil attended;
  attended.question = [](Problem& p) { p.scale *= 2; };
  for (const Spoil* spoil :
       std::initializer_list<const Spoil*>{&in_turn, &attended}) {
    const Looked looked = look(*spoil);
    EXPECT_EQ(looked.instead.stored.text, "");
    EXPECT_EQ(looked.instead.end.text, "");
  }
  const Spoil other = with_append([](FakeTokens& tokens, FakeTokens more) {
    for (FakeToken& token : more)
      for (double& x : token.v) x = -x;
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  const Looked judged = look(with_append(append_values_in_front), {},
                             "cache_agrees_with_history", &other);
  EXPECT_NE(judged.instead.stored.text, "");
  EXPECT_LT(judged.score.right, judged.score.all);
}

// Keys stored instead of values were given to a token, but are no value of its
// head; some tokens also get numbers that belong to no token. The report is the
// same.
TEST(Facts, WhatIsOfAnotherKindIsOfAToken) {
  for (const bool has_others : {false, true}) {
    Spoil spoil;
    spoil.append = [has_others](FakeTokens& tokens, FakeTokens more) {
      for (FakeToken& token : more) {
        const bool is_other = has_others && tokens.size() % 2 == 1;
        if (token.k.size() == token.v.size() && !is_other) token.v = token.k;
        for (double& x : token.v) x *= is_other ? 2 : 1;
        tokens.push_back(token);
      }
    };
    EXPECT_EQ(look(spoil).instead.stored.text,
              "the wrong values that are read back are those of no token of "
              "the sequence in their kv head");
  }
}

// Commands of the law count, but not the call that creates the cache.
TEST(Facts, WhatALawPutsInHasMoved) {
  Spoil spoil;
  spoil.fork = [](const FakeTokens& from, FakeTokens& to) {
    to = from;
    for (FakeToken& token : to)
      for (double& x : token.k) x += 1;
  };
  for (const char* law :
       {"cache_forks_are_independent", "cache_agrees_with_history"}) {
    const Looked looked = look(spoil, {}, law);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(Stage::kMoved))
        << law;
    EXPECT_EQ(looked.instead.end.text, "") << law;
  }
}

TEST(Facts, TheCommandThatEndsTheProcessIsSaid) {
  const auto in_evict = [](const KernelCall& call) {
    return call.operation == Operation::kCacheEvict ? CallStatus::kCrash
                                                    : CallStatus::kDone;
  };
  // A step that appends tokens may fail because of earlier damage.
  const auto in_long_step = [](const KernelCall& call) {
    return call.operation == Operation::kCacheStep && call.shape.Tk > 1
               ? CallStatus::kCrash
               : CallStatus::kDone;
  };
  const struct {
    EndingTables::Ends ends;
    const char* text;
    Stage stage;
  } rows[] = {{in_evict, "in `evict` the process ends", Stage::kMoved},
              {in_long_step, "in `step` the process ends", Stage::kUnknown}};
  for (const auto& row : rows) {
    const Looked looked = look({}, row.ends);
    EXPECT_EQ(looked.instead.end.text, row.text);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(row.stage))
        << row.text;
    EXPECT_EQ(looked.score.right, looked.score.all) << row.text;
  }
}

// If some stories end and others give wrong numbers, memory may decide which:
// the report does not mention the end.
TEST(Facts, EndsBesideWrongNumbersAreNotSaid) {
  const auto in_step_of_two = [](const KernelCall& call) {
    return call.operation == Operation::kCacheStep && call.shape.Tk == 2
               ? CallStatus::kCrash
               : CallStatus::kDone;
  };
  for (const bool has_numbers : {true, false}) {
    Spoil spoil;
    if (has_numbers) spoil.question = [](Problem& p) { p.scale *= 2; };
    const Looked looked = look(spoil, in_step_of_two);
    EXPECT_EQ(looked.instead.end.text.empty(), has_numbers)
        << looked.instead.end.text;
    EXPECT_EQ(looked.instead.outputs.empty(), !has_numbers);
  }
}

// Stories have commands that must be refused: their refusal is no fact, but
// that of other commands is one.
TEST(Facts, ARefusalThatIsRightIsNone) {
  Spoil silent;
  silent.gives_reasons = false;
  const auto of_truncate = [](const KernelCall& call) {
    return call.operation == Operation::kCacheTruncate ? CallStatus::kRefused
                                                       : CallStatus::kDone;
  };
  const KernelUnderTest kernel = FakeTables::under_test();
  for (const bool is_right : {true, false}) {
    EndingTables executor(silent, is_right ? EndingTables::Ends()
                                           : EndingTables::Ends(of_truncate));
    TimeUse time;
    Witness witness(kernel.judged, kernel.index, executor, time, 10'000);
    const Law& law = *find_law(is_right ? "cache_refuses_illegal_calls"
                                        : "cache_truncate_forgets");
    int failed = 0;
    for (int64_t n = 1; n <= 60; ++n) {
      const auto evidence = witness.ask(law, planned_case(law, 5, n, {}));
      if (evidence == nullptr || !evidence->failed()) continue;
      ++failed;
      const Facts facts = facts_of_calls(*evidence, kernel.judged);
      EXPECT_EQ(facts.empty(), is_right);
      EXPECT_EQ(shows(facts, "in `truncate` the call is refused"), !is_right);
    }
    EXPECT_GT(failed, 3) << law.id;
  }
}

// A write inside an output is between its elements, and is no write to an
// input.
TEST(Facts, GapsOfOutputsAreNoInputs) {
  const struct {
    TensorName tensor;
    const char* text;
  } rows[] = {{TensorName::kO, "o is written between its elements"},
              {TensorName::kK, "k, which is an input, is written to"}};
  const KernelUnderTest kernel = FakeExecutor::under_test();
  for (const auto& row : rows) {
    FakeExecutor executor(nullptr, [&row](const KernelCall&, OracleOutput&,
                                          CallOutcome& outcome) {
      outcome.damage.emplace();
      outcome.damage->tensor = row.tensor;
      outcome.damage->is_write = outcome.damage->inside = true;
    });
    TimeUse time;
    Witness witness(kernel.judged, kernel.index, executor, time, 10);
    const auto value = parse_case("f32,B1,H1,Tq2,Tk2,d2");
    const auto evidence =
        witness.ask(*find_law("agrees_with_oracle"), *value.value);
    ASSERT_NE(evidence, nullptr);
    EXPECT_TRUE(shows(facts_of_calls(*evidence, kernel.judged), row.text));
    ASSERT_TRUE(evidence->judgement.finding);
    EXPECT_EQ(evidence->judgement.finding->actual.find("read-only") !=
                  std::string::npos,
              row.tensor == TensorName::kK)
        << evidence->judgement.finding->actual;
  }
}

// A kernel that dies at an unknown tensor. If only the width of queries and
// keys matters, it dies at the scores. If that of values matters even without
// any key, it dies storing rows. If it matters only with keys, or if both
// widths or neither matter, the stage is unknown.
TEST(Facts, WhoDiesByOneWidthAloneIsAtItsStage) {
  using Dies = bool (*)(const Shape& s);
  const struct {
    Dies dies;
    Stage stage;
  } rows[] = {
      {[](const Shape& s) { return s.d >= 2; }, Stage::kScores},
      {[](const Shape& s) { return s.dv >= 2; }, Stage::kOutput},
      {[](const Shape& s) { return s.dv >= 2 && s.Tk > 0; }, Stage::kUnknown},
      {[](const Shape& s) { return s.d >= 2 && s.dv >= 2; }, Stage::kUnknown},
      {[](const Shape& s) { return s.Tk >= 2; }, Stage::kUnknown}};
  const KernelUnderTest kernel = FakeExecutor::under_test();
  for (const auto& row : rows) {
    const FakeExecutor::Answer answer =
        [&row](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          if (row.dies(call.shape)) outcome.status = CallStatus::kCrash;
        };
    const auto open = opening<FakeExecutor>(nullptr, answer);
    const std::vector<Failure> failures =
        failures_for_test(kernel, open, {find_law("agrees_with_oracle")}, 1000);
    ASSERT_FALSE(failures.empty());
    TimeUse time;
    FakeExecutor executor(nullptr, answer);
    const Instead instead =
        look_what_it_is_instead(failures[0], {}, {kernel, executor, time});
    EXPECT_EQ(instead.end.text, "the process ends");
    EXPECT_STREQ(stage_name(instead.stage), stage_name(row.stage))
        << to_string(failures[0].smallest);
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::facts_test
