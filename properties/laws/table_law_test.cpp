// SPDX-License-Identifier: Apache-2.0
// Laws about caches and layers: each passes right kernels, and fails the
// mistakes that it exists for.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "properties/cases/generate.h"
#include "properties/run/shrink.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::table_law_test {
namespace {

Judgement check(const std::string& law, const std::string& text, Spoil spoil) {
  FakeTables executor(std::move(spoil));
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  TimeUse time;
  const bool stages = executor.kernels()[0].layer_options & QKVET_LAYER_STAGES;
  return check_case(*find_law(law), find_law(law)->constrain(*parsed.value),
                    FakeTables::under_test(stages).judged, 0, executor,
                    /*with_twin=*/true, time);
}

std::string found_in(const Judgement& judgement) {
  if (!judgement.finding) return judgement.reason;
  const Finding& finding = *judgement.finding;
  return finding.where + " expected " + finding.expected + " actual " +
         finding.actual;
}

// The law fails the corrupted kernel and passes the right one.
void expect_kill(const std::string& law, const std::string& text,
                 const Spoil& spoil) {
  const Judgement right = check(law, text, {});
  EXPECT_EQ(right.verdict, Verdict::kPassed) << law << found_in(right);
  EXPECT_GT(right.compared, 0) << law;
  const Judgement wrong = check(law, text, spoil);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed) << law << found_in(wrong);
}

TEST(TableLaws, PassWhatIsRightOnEveryPlannedCase) {
  KernelUnderTest kernel = FakeTables::under_test();
  kernel.judged.info.cache_options |= FakeTables::kScores;
  FakeTables right;
  Scope scope;
  keep_scope_to({kernel}, scope);
  TimeUse time;
  for (const Law* law : all_laws()) {
    // Attention, merges and gradients have tests of their own.
    if (law->domain.subject == Subject::kAttention ||
        law->domain.subject == Subject::kMerge ||
        law->domain.subject == Subject::kBackward ||
        law->domain.subject == Subject::kLayerBackward)
      continue;
    int checked = 0;
    for (int64_t n = 1; n <= 150; ++n) {
      const Case value = planned_case(*law, 77, n, scope);
      const Judgement judgement =
          check_case(*law, value, kernel.judged, 0, right, n % 4 == 0, time);
      ASSERT_EQ(judgement.verdict, Verdict::kPassed)
          << law->id << " " << to_string(value) << " " << found_in(judgement);
      checked += judgement.compared > 0;
    }
    EXPECT_GT(checked, 120) << law->id;
  }
}

TEST(TableLaws, PlannedCasesAreTheirOwnFit) {
  for (const Law* law : all_laws())
    for (int64_t n = 1; n <= 200; ++n) {
      const Case value = planned_case(*law, 5, n);
      ASSERT_EQ(invalid_reason(value), "") << to_string(value);
      ASSERT_EQ(law->constrain(value), value)
          << law->id << " " << to_string(value);
      ASSERT_EQ(value.subject(), law->domain.subject);
    }
}

const char* const kStory =
    "f32,B2,H2,Hkv1,d3,cap8,story=step.a.3+step.b.2+step.a.1+attend.a.2";

const char* const kForms =
    "f32,B2,H2,Hkv1,d3,cap8,win2,first1,rollback1,story=step.a.3+step.a.1+"
    "fork.a.b+step.b.2+reorder.ba+step.a.1";

TEST(CacheLaws, AForkThatKeepsItsFirstToken) {
  Spoil spoil;
  spoil.fork = [](const FakeTokens& from, FakeTokens& to) {
    const FakeTokens before = to;
    to = from;
    if (!to.empty() && !before.empty()) to.back() = before.back();
  };
  expect_kill("cache_forks_are_independent", kStory, spoil);
}

TEST(CacheLaws, AReorderThatOverwritesWhatItHasYetToRead) {
  Spoil spoil;
  spoil.reorders_in_place = true;
  expect_kill("cache_reorder_moves_histories", kStory, spoil);
  expect_kill("cache_agrees_with_history",
              "f32,B2,H1,d2,cap4,story=step.a.1+step.b.2+reorder.ba+step.b.1",
              spoil);
}

TEST(CacheLaws, AWindowThatIsOneTooWide) {
  Spoil spoil;
  spoil.sees = [](const CacheForm& form, int64_t i, int64_t j) {
    return j <= i && (j >= i - form.window || j < form.first_tokens);
  };
  expect_kill("cache_agrees_with_history", kForms, spoil);
  spoil.sees = [](const CacheForm& form, int64_t i, int64_t j) {
    return j <= i && j > i - form.window;  // the first tokens forgotten
  };
  expect_kill("cache_agrees_with_history", kForms, spoil);
}

TEST(CacheLaws, ScoresWithoutWhatTheCacheWasMadeFor) {
  const char* const story =
      "f32,B1,H2,Hkv1,d3,cap8,mask=random,bias=normal,softcap=2,sink=one,"
      "alibi=one,story=step.a.3+step.a.1+evict.a.1.1+step.a.1";
  void (*const questions[])(Problem&) = {
      [](Problem& p) { p.softcap = 0; },
      [](Problem& p) { p.slopes = nullptr; },
      [](Problem& p) { p.places = nullptr; },  // tokens counted, not positions
      [](Problem& p) { p.mask = nullptr; },
      [](Problem& p) {
        if (p.shape.Tq == 1) p.sink = nullptr;
      },
      [](Problem& p) {
        if (p.shape.Tq == 1) p.bias = nullptr;
      }};
  for (const auto question : questions) {
    Spoil spoil;
    spoil.question = question;
    expect_kill("cache_agrees_with_history", story, spoil);
  }
}

// Each step gets the mask and the bias of the positions that it is about.
TEST(CacheLaws, PairsOfOneSequenceHoweverItCame) {
  const char* const prompt =
      "f32,B1,H2,d3,cap8,mask=random50.hqk,bias=normal,story=step.a.6";
  const char* const story =
      "f32,B2,H2,d3,cap8,mask=random50.qk,bias=normal.h,story=step.a.4+"
      "fork.a.b+step.b.1+truncate.b.2+step.b.2+reorder.ba+step.a.1+"
      "evict.a.1.2+step.a.1+step.b.1";
  const char* const window =
      "f32,B1,H2,d3,cap8,win3,first1,mask=random50.hqk,story=step.a.6+step.a.1";
  FakeTables right;
  TimeUse time;
  JudgedKernel kernel = FakeTables::under_test().judged;
  kernel.info.cache_options |= FakeTables::kScores;
  for (const auto& [law, text] : {std::pair{"cache_agrees_with_history", story},
                                  {"cache_agrees_with_history", window},
                                  {"cache_decode_equals_prefill", prompt},
                                  {"cache_chunks_equal_whole", prompt}}) {
    const Judgement judgement = check_case(
        *find_law(law), *parse_case(text).value, kernel, 0, right, true, time);
    EXPECT_EQ(judgement.verdict, Verdict::kPassed) << found_in(judgement);
    EXPECT_GT(judgement.compared, 0);
  }
  Spoil spoil;
  spoil.question = [](Problem& p) {
    if (p.shape.Tq < p.shape.Tk) p.mask = nullptr;
  };
  for (const char* law :
       {"cache_decode_equals_prefill", "cache_chunks_equal_whole"})
    expect_kill(law, prompt, spoil);
}

// The dialect and one law decide what a row without a key holds.
TEST(CacheLaws, RowsThatSeeNoKeyFollowTheDialect) {
  const char* const prompt = "f32,B1,H1,d2,cap8,mask=emptyrow2,story=step.a.4";
  FakeTables right;
  TimeUse time;
  JudgedKernel kernel = FakeTables::under_test().judged;
  kernel.info.cache_options |= FakeTables::kScores;
  const auto verdict = [&](const char* law) {
    return check_case(*find_law(law), *parse_case(prompt).value, kernel, 0,
                      right, false, time)
        .verdict;
  };
  kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  EXPECT_EQ(verdict("cache_agrees_with_history"), Verdict::kFailed);
  EXPECT_EQ(verdict("cache_decode_equals_prefill"), Verdict::kPassed);
  kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_NAN;
  EXPECT_EQ(verdict("cache_agrees_with_history"), Verdict::kPassed);
  Spoil spoil;  // differs with the number of queries
  spoil.answer = [](const Problem& p, OracleOutput& out) {
    for (size_t n = 0; n < out.o.size(); ++n)
      if (out.visible[n / static_cast<size_t>(p.shape.dv)] == 0)
        out.o[n] = static_cast<double>(p.shape.Tq);
  };
  FakeTables odd(spoil);
  kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_UNSPECIFIED;
  for (const char* law : {"cache_decode_equals_prefill", "cache_reset_forgets"})
    EXPECT_EQ(check_case(*find_law(law), *parse_case(prompt).value, kernel, 0,
                         odd, false, time)
                  .verdict,
              Verdict::kPassed)
        << law;
}

TEST(CacheLaws, ACapAndASinkCountWhereTheDialectSays) {
  const Case value =
      *parse_case(
           "f32,B1,H2,Hkv1,d3,cap8,bias=large,softcap=2,sink=one,"
           "story=step.a.3+step.a.1")
           .value;
  JudgedKernel kernel = FakeTables::under_test().judged;
  kernel.info.cache_options |= FakeTables::kScores;
  const auto verdict = [&](bool after, bool in_lse) {
    Spoil spoil;
    spoil.question = [=](Problem& p) {
      p.softcap_after_bias = after;
      p.sink_in_lse = in_lse;
    };
    FakeTables cache(spoil);
    TimeUse time;
    return check_case(*find_law("cache_agrees_with_history"), value, kernel, 0,
                      cache, true, time)
        .verdict;
  };
  EXPECT_EQ(verdict(false, true), Verdict::kPassed);
  EXPECT_EQ(verdict(true, true), Verdict::kFailed);
  EXPECT_EQ(verdict(false, false), Verdict::kFailed);
  kernel.info.dialect.softcap_order = QKVET_SOFTCAP_AFTER_MASK;
  kernel.info.dialect.sink_in_lse = QKVET_SINK_NOT_IN_LSE;
  EXPECT_EQ(verdict(true, false), Verdict::kPassed);
  EXPECT_EQ(verdict(true, true), Verdict::kFailed);
  EXPECT_EQ(verdict(false, false), Verdict::kFailed);
}

// Caches that do not declare them are made without.
TEST(CacheLaws, ScoresAreAddedToWhereThatIsDeclared) {
  KernelUnderTest kernel = FakeTables::under_test();
  const auto count = [&kernel] {
    Scope scope;
    keep_scope_to({kernel}, scope);
    std::array<int, 5> drawn{};
    for (int64_t n = 1; n <= 200; ++n) {
      const Case value =
          planned_case(*find_law("cache_agrees_with_history"), 3, n, scope);
      drawn[0] += value.slopes.has_value();
      drawn[1] += value.sink.has_value();
      drawn[2] += value.softcap > 0;
      drawn[3] += value.mask.kind != MaskKind::kNone;
      drawn[4] += value.score_bias.has_value();
    }
    return drawn;
  };
  EXPECT_EQ(count(), (std::array<int, 5>{}));
  kernel.judged.info.cache_options |= FakeTables::kScores;
  for (const int one : count()) EXPECT_GT(one, 30);
}

TEST(CacheLaws, StorageThatIsNotTheNearestCode) {
  const char* const story =
      "f32,B1,H2,Hkv1,d5,cap8,stored=int8token,story=step.a.3+step.a.1";
  Spoil spoil;
  spoil.store = [](double* row, int64_t width) {
    for (int64_t c = 0; c < width; ++c) row[c] = std::nearbyint(row[c]);
  };
  expect_kill("cache_stores_what_it_is_given", story, spoil);
  // It still answers from the values that it reads back.
  EXPECT_EQ(check("cache_answers_from_what_it_stores", story, spoil).verdict,
            Verdict::kPassed);
  spoil = {};
  spoil.question = [](Problem& problem) { problem.scale *= 1.0001; };
  expect_kill("cache_answers_from_what_it_stores",
              "f32,B1,H1,d2,cap8,stored=int8token,q=large3,k=large3,"
              "story=step.a.3",
              spoil);
}

TEST(CacheLaws, LengthsThatDoNotAddUp) {
  Spoil spoil;
  spoil.append = [](FakeTokens& tokens, FakeTokens more) {
    tokens.push_back(more[0]);  // one token, whatever the call has
  };
  expect_kill("cache_length_grows", kStory, spoil);
  expect_kill("cache_agrees_with_history", kStory, spoil);
  // Decode alone hides it.
  EXPECT_EQ(check("cache_length_grows",
                  "f32,B1,H1,d1,cap4,story=step.a.1+step.a.1", spoil)
                .verdict,
            Verdict::kPassed);
}

TEST(CacheLaws, ANaNThatVanishes) {
  Spoil spoil;
  spoil.answer = [](const Problem&, OracleOutput& out) {
    for (double& o : out.o) o = std::isnan(o) ? 0 : o;
  };
  expect_kill("cache_nan_reaches_its_queries", kStory, spoil);
  EXPECT_EQ(check("cache_agrees_with_history", kStory, spoil).verdict,
            Verdict::kPassed);
}

TEST(CacheLaws, AResetThatKeepsAToken) {
  Spoil spoil;
  spoil.reset = [](FakeTokens& tokens) { tokens.resize(1); };
  expect_kill("cache_reset_forgets", kStory, spoil);
}

TEST(CacheLaws, ATruncationThatRemovesTheFirstTokens) {
  Spoil spoil;
  spoil.truncate = [](FakeTokens& tokens, int64_t count) {
    tokens.erase(tokens.begin(), tokens.end() - count);
  };
  expect_kill("cache_truncate_forgets", kStory, spoil);
}

TEST(CacheLaws, AnEvictionThatRemovesOtherTokens) {
  Spoil spoil;
  spoil.evict = [](FakeTokens& tokens, int64_t, int64_t count) {
    tokens.resize(tokens.size() - static_cast<size_t>(count));
  };
  expect_kill("cache_evict_forgets", kStory, spoil);
  spoil.evict = [](FakeTokens& tokens, int64_t, int64_t count) {
    tokens.erase(tokens.begin(), tokens.begin() + count);
  };
  expect_kill("cache_evict_forgets", kStory, spoil);
}

// Not observable without positions.
TEST(CacheLaws, AnEvictionThatCountsAnew) {
  Spoil spoil;
  spoil.evict = [](FakeTokens& tokens, int64_t first, int64_t count) {
    tokens.erase(tokens.begin() + first, tokens.begin() + first + count);
    int64_t position = 0;
    for (FakeToken& token : tokens) token.position = position++;
  };
  const std::string story = "story=append.a.3+evict.a.1.1+step.a.1";
  expect_kill("cache_agrees_with_history",
              "f32,B1,H1,d2,cap4,rope=half," + story, spoil);
  EXPECT_EQ(
      check("cache_agrees_with_history", "f32,B1,H1,d2,cap4," + story, spoil)
          .verdict,
      Verdict::kPassed);
}

TEST(CacheLaws, ATokenOfAnotherSequence) {
  Spoil spoil;
  spoil.sequence = [](int64_t) { return 0; };
  expect_kill("cache_sequences_are_separate", kStory, spoil);
  expect_kill("cache_length_grows", kStory, spoil);
}

TEST(CacheLaws, AMaskThatIsCountedFromTheTopLeft) {
  Spoil spoil;
  spoil.question = [](Problem& problem) { problem.causal = Causal::kTopLeft; };
  const char* prompt = "f32,B1,H1,d2,cap8,story=step.a.5";
  expect_kill("cache_decode_equals_prefill", prompt, spoil);
  expect_kill("cache_chunks_equal_whole", prompt, spoil);
}

TEST(CacheLaws, AChunkWithoutAMask) {
  Spoil spoil;
  spoil.question = [](Problem& problem) {
    // Right for prompts and for single tokens.
    if (problem.shape.Tq < problem.shape.Tk) problem.causal = Causal::kNone;
  };
  expect_kill("cache_chunks_equal_whole", "f32,B1,H1,d2,cap8,story=step.a.4",
              spoil);
  expect_kill("cache_chunks_equal_whole", "f32,B1,H1,d2,cap9,story=step.a.9",
              spoil);
}

TEST(CacheLaws, WhatIsAcceptedOrRefusedInSilence) {
  Spoil accepts;
  accepts.refuses = false;
  expect_kill("cache_refuses_illegal_calls", kStory, accepts);
  for (const Operation operation :
       {Operation::kCacheTruncate, Operation::kCacheEvict}) {
    Spoil below;
    below.takes_below = operation;
    expect_kill("cache_refuses_illegal_calls", kStory, below);
  }
  Spoil silent;
  silent.gives_reasons = false;
  expect_kill("cache_refuses_illegal_calls", kStory, silent);
}

TEST(CacheLaws, TheFailureNamesTheCommand) {
  Spoil spoil;
  spoil.question = [](Problem& problem) { problem.scale *= 1.01; };
  const Judgement wrong = check("cache_agrees_with_history", kStory, spoil);
  ASSERT_TRUE(wrong.finding);
  EXPECT_NE(wrong.finding->where.find("call 1, step.a.3: o[b=0,h="),
            std::string::npos)
      << wrong.finding->where;
  const Judgement small =
      check("cache_agrees_with_history",
            "f32,B1,H1,d1,cap4,story=append.a.2+step.a.1", spoil);
  ASSERT_FALSE(small.picture.empty());
  EXPECT_NE(small.picture[2].find("a holds a0 a1 a2"), std::string::npos)
      << small.picture[2];
}

const char* const kLayer = "f32,B2,H2,T3,D4,w=scaled1";

// Right alone; at once the last call of an operation is off in its first byte
// of `output`, or in its lengths.
class SharesScratch : public FakeTables {
 public:
  explicit SharesScratch(std::vector<std::byte> CallOutcome::*output)
      : output_(output) {}

  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes = FakeTables::run(kernel, calls);
    for (size_t n = 0; n < calls.size(); ++n) {
      if (!calls[n].at_once) continue;
      CallOutcome& outcome = outcomes[n];
      if (output_ == nullptr) {
        for (int64_t& length : outcome.lengths) ++length;
      } else if (!(outcome.*output_).empty()) {
        (outcome.*output_)[0] ^= std::byte{1};
      }
    }
    return outcomes;
  }

 private:
  std::vector<std::byte> CallOutcome::*output_;
};

TEST(CallsAtOnce, CachesAndLayersThatShareScratch) {
  const struct {
    const char* law;
    const char* text;
    std::vector<std::byte> CallOutcome::*output;
  } rows[] = {{"cache_calls_at_once_change_nothing", kStory, &CallOutcome::o},
              {"cache_calls_at_once_change_nothing", kStory, nullptr},
              {"layer_calls_at_once_change_nothing", kLayer, &CallOutcome::y}};
  for (const auto& [law, text, output] : rows) {
    EXPECT_EQ(check(law, text, {}).verdict, Verdict::kPassed) << law;
    SharesScratch shares(output);
    TimeUse time;
    const Case value = find_law(law)->constrain(*parse_case(text).value);
    JudgedKernel kernel = FakeTables::under_test().judged;
    EXPECT_EQ(check_case(*find_law(law), value, kernel, 0, shares,
                         /*with_twin=*/false, time)
                  .verdict,
              Verdict::kFailed)
        << law;
    kernel.info.capabilities.flags &= ~QKVET_FLAG_REENTRANT;
    EXPECT_EQ(check_case(*find_law(law), value, kernel, 0, shares,
                         /*with_twin=*/false, time)
                  .verdict,
              Verdict::kUnsupported)
        << law;
  }
}

TEST(LayerLaws, TwoColumnsOfQSwapped) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem&, LayerOutput& out) {
    std::swap(out.q[0], out.q[1]);
  };
  expect_kill("split_and_merge_place_every_element", kLayer, spoil);
  expect_kill("layer_agrees_with_oracle", kLayer, spoil);
}

TEST(LayerLaws, ANaNThatVanishes) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem&, LayerOutput& out) {
    for (double& y : out.y) y = std::isnan(y) ? 0 : y;
  };
  expect_kill("layer_nan_reaches_its_rows", kLayer, spoil);
  EXPECT_EQ(check("layer_agrees_with_oracle", kLayer, spoil).verdict,
            Verdict::kPassed);
}

TEST(LayerLaws, HeadsThatAreNotMerged) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem& problem, LayerOutput& out) {
    out.y = plain_linear(
        projection_stage(problem, Projection::kO, out.attended.o.data()));
  };
  expect_kill("split_and_merge_place_every_element", kLayer, spoil);
  expect_kill("layer_agrees_with_oracle", kLayer, spoil);
  // One head hides it.
  EXPECT_EQ(check("layer_agrees_with_oracle", "f32,B1,H1,T3,D4", spoil).verdict,
            Verdict::kPassed);
}

TEST(LayerLaws, AnOutputWithoutItsProjection) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem& problem, LayerOutput& out) {
    out.y = merge_heads(problem.shape, out.attended.o);
  };
  expect_kill("output_projection_is_applied", kLayer, spoil);
}

TEST(LayerLaws, ABiasThatIsDropped) {
  for (const double* LayerProblem::*bias :
       {&LayerProblem::b_q, &LayerProblem::b_k, &LayerProblem::b_v,
        &LayerProblem::b_o}) {
    Spoil spoil;
    spoil.layer_question = [bias](LayerProblem& problem) {
      problem.*bias = nullptr;
    };
    expect_kill("every_bias_counts", kLayer, spoil);
  }
}

TEST(LayerLaws, OneMatrixForTwoProjections) {
  Spoil spoil;
  spoil.layer_question = [](LayerProblem& problem) {
    problem.w_k = problem.w_q;
  };
  expect_kill("projections_are_separate", kLayer, spoil);
  expect_kill("split_and_merge_place_every_element", kLayer, spoil);
}

TEST(LayerLaws, WidthsThatDoNotFitAreAccepted) {
  Spoil accepts;
  accepts.refuses = false;
  expect_kill("mismatched_widths_are_refused", kLayer, accepts);
}

// W_Q instead of W_K, if they are one matrix.
TEST(LayerLaws, AFusedMatrixThatIsCutAtTheWrongColumns) {
  Spoil spoil;
  spoil.layer_call = [](const KernelCall& call, LayerProblem& problem) {
    if (call.fused == FusedOrder::kKqv) std::swap(problem.w_q, problem.w_k);
  };
  const std::string fused = std::string(kLayer) + ",fused=kqv";
  expect_kill("fused_equals_separate", fused, spoil);
  expect_kill("layer_agrees_with_oracle", fused, spoil);
  // Another order does not meet it.
  EXPECT_EQ(check("fused_equals_separate", kLayer, spoil).verdict,
            Verdict::kPassed);
  // Without stages y shows it.
  spoil.returns_stages = false;
  EXPECT_EQ(check("fused_equals_separate", fused, spoil).verdict,
            Verdict::kFailed);
}

TEST(LayerLaws, AMaskBufferThatHidesNothing) {
  Spoil spoil;
  spoil.layer_call = [](const KernelCall& call, LayerProblem& problem) {
    if (call.context > call.shape.Tq) problem.causal = Causal::kNone;
  };
  const std::string longer = std::string(kLayer) + ",causal,context=5";
  expect_kill("layer_agrees_with_oracle", longer, spoil);
}

TEST(LayerLaws, ATextBeyondTheMaskBufferIsAccepted) {
  Spoil spoil;
  spoil.refuses = false;
  const std::string full = std::string(kLayer) + ",causal,context=3";
  expect_kill("context_overrun_is_refused", full, spoil);
  for (const char* half : {"", "3 tokens are too many", "3 > 12"}) {
    Spoil says;
    says.overrun = [half](int64_t, int64_t) { return std::string(half); };
    expect_kill("context_overrun_is_refused", full, says);
  }
  Spoil silent;
  silent.gives_reasons = false;
  expect_kill("context_overrun_is_refused", full, silent);
}

TEST(LayerLaws, WeightsThatAreNoShares) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem&, LayerOutput& out) {
    for (double& weight : out.attended.weights) weight *= 1.001;
  };
  expect_kill("layer_weights_sum_to_one", kLayer, spoil);
  expect_kill("layer_agrees_with_oracle", kLayer, spoil);
  Spoil swapped;  // with right sums
  swapped.layer_answer = [](const LayerProblem&, LayerOutput& out) {
    std::swap(out.attended.weights[0], out.attended.weights[1]);
  };
  expect_kill("layer_agrees_with_oracle", kLayer, swapped);
}

// From end to end the bound is wider, and still sees a scale of 1/sqrt(D).
TEST(LayerLaws, WithoutStagesTheOutputIsJudgedFromEndToEnd) {
  Spoil right;
  right.returns_stages = false;
  Spoil wrong = right;
  wrong.layer_question = [](LayerProblem& problem) {
    problem.scale = default_scale(problem.shape.D);
  };
  const Judgement passed = check("layer_agrees_with_oracle", kLayer, right);
  EXPECT_EQ(passed.verdict, Verdict::kPassed) << found_in(passed);
  EXPECT_GT(passed.compared, 0);
  EXPECT_EQ(check("layer_agrees_with_oracle", kLayer, wrong).verdict,
            Verdict::kFailed);
  EXPECT_EQ(check("projections_are_separate", kLayer, right).verdict,
            Verdict::kUnsupported);
}

TEST(LayerLaws, AScaleOfTheModelWidth) {
  Spoil spoil;
  spoil.layer_question = [](LayerProblem& problem) {
    problem.scale = default_scale(problem.shape.D);
  };
  expect_kill("layer_agrees_with_oracle", kLayer, spoil);
}

}  // namespace
}  // namespace qkvet::properties::table_law_test
