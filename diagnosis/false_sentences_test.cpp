// SPDX-License-Identifier: Apache-2.0
// Kernels of public reports for which QKVet once reported something false. Each
// sentence now holds for all failing cases, or is not reported.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>

#include "core/base/philox.h"
#include "diagnosis/evidence/tiles.h"
#include "diagnosis/fake_faults.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/test_faults.h"
#include "properties/judging/subject.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::false_sentences_test {
namespace {

using Answer = FakeExecutor::Answer;
using Question = FakeExecutor::Question;
using instead_test::in_room;

constexpr uint64_t kFew = QKVET_OPTION_CAUSAL_TOP_LEFT |
                          QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
                          QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_SCALE |
                          QKVET_OPTION_CROSS_LENGTHS;

KernelUnderTest with_options(uint64_t options) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &= options;
  return kernel;
}

Reported report_on(const KernelUnderTest& kernel, const Question& question,
                   const Answer& answer, const std::vector<const char*>& laws,
                   const Catalogue& catalogue = known_faults_for_test()) {
  Reported out =
      diagnosis::report_on(kernel, opening<FakeExecutor>(question, answer),
                           laws, /*cases=*/1200, catalogue);
  EXPECT_FALSE(out.failures.empty());
  return out;
}

// If `when` holds, only keys j with j mod `step` < `seen` are visible.
Question sees_of_each(int64_t step, int64_t seen,
                      bool (*when)(const KernelCall& call)) {
  return in_room([step, seen, when](KernelCall& call, Problem& p, Room& room) {
    if (!when(call)) return;
    const Shape& s = call.shape;
    std::vector<uint8_t> mask;
    for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row)
      for (int64_t j = 0; j < s.Tk; ++j)
        mask.push_back(j % step < seen ? 1 : 0);
    p.mask = room.keep(std::move(mask));
  });
}

// The step over keys is 32, and the loop covers 16 scores. Up to 32 keys, only
// the first 16 are visible, as in a kernel that loses the tail of tiles of 32.
TEST(FalseSentences, TheFirstTileIsNotTheWholeRow) {
  const Catalogue catalogue(
      [](const std::string& config) {
        return open_for_test(QKVET_FAULTY, config);
      },
      {{"tile=32", {"tail_tile_lost"}}});
  const Reported reported = report_on(
      with_options(kFew),
      sees_of_each(32, 16,
                   [](const KernelCall& call) { return call.shape.Tq > 1; }),
      {}, {"every_key_counts_once", "agrees_with_oracle"}, catalogue);
  for (const CauseOfFailures& cause : reported.causes) {
    const Diagnosis& diagnosis = cause.diagnosis;
    EXPECT_NE(diagnosis.name(), "tail_tile_lost");
    EXPECT_EQ(diagnosis.instead.text().find("the first 16 keys alone"),
              std::string::npos)
        << diagnosis.instead.text();
    EXPECT_TRUE(diagnosis.where.is_known()) << diagnosis.where.text();
    EXPECT_NE(diagnosis.where.text().find("Tq >= 2"), std::string::npos)
        << diagnosis.where.text();
  }
}

// Keys and values padded with zeros to 256 are attended: right where 256
// divides their number.
TEST(FalseSentences, EveryInputIsAskedAtFullTiles) {
  const Answer padded = [](const KernelCall& call, OracleOutput& out,
                           CallOutcome&) {
    const auto padding = static_cast<double>((256 - call.shape.Tk % 256) % 256);
    for (size_t n = 0; n < out.o.size(); ++n) {
      const double lse = out.lse[n / static_cast<size_t>(call.shape.dv)];
      out.o[n] /= 1 + padding * std::exp(-lse);
    }
  };
  for (const bool is_hinted : {true, false}) {
    KernelUnderTest kernel =
        with_options(kFew & ~(QKVET_OPTION_CAUSAL_TOP_LEFT |
                              QKVET_OPTION_CAUSAL_BOTTOM_RIGHT));
    if (is_hinted)
      kernel.hints.push_back({{QKVET_AXIS_TK, 255}, "the source, line 1"});
    const Reported reported =
        report_on(kernel, {}, padded, {"weights_sum_to_one"});
    for (const CauseOfFailures& cause : reported.causes) {
      const FailsWhere& where = cause.diagnosis.where;
      EXPECT_EQ(where.text().find("every input"), std::string::npos)
          << where.text();
      EXPECT_EQ(where.hypothesis.formula(), "Tk % 256 != 0") << where.text();
      EXPECT_TRUE(where.is_known()) << where.text();
    }
  }
}

// An option that the law adds to each of its cases is part of the sentence.
TEST(FalseSentences, WhatTheLawSetsIsSaid) {
  const Law& law = *find_law("sink_joins_the_denominator");
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const auto like = parse_case("f32,B1,H1,Tq1,Tk1,d1,sink=one,q=zero,v=one");
  ASSERT_TRUE(like.value) << like.error;
  const auto text = [&](const Law& of) {
    return Setting(of, Setting::Data::kOfCase, *like.value, kernel).data_text();
  };
  EXPECT_NE(text(law).find(" with a sink, which the law sets"),
            std::string::npos)
      << text(law);
  EXPECT_EQ(text(agreement_about(Subject::kAttention)).find("which the law"),
            std::string::npos);
}

// Kernels that have little else in common lose NaN in a query in the same way.
TEST(FalseSentences, NaNAloneMakesNothingSure) {
  const Reported reported =
      report_on(with_options(kFew), {},
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (double& o : out.o)
                    if (std::isnan(o)) o = 0;
                },
                {"nan_reaches_its_row"});
  for (const CauseOfFailures& cause : reported.causes) {
    EXPECT_NE(cause.diagnosis.certainty, Certainty::kSure)
        << cause.diagnosis.name();
    EXPECT_NE(cause.diagnosis.name(), "threads_race_for_sums");
  }
}

const OutputInstead* said_of_o(const Question& question, const Answer& answer) {
  static instead_test::Looked looked;
  looked = instead_test::look({"", Stage::kUnknown, question, answer});
  return looked.find(TensorName::kO);
}

// Among many elements some other one has nearly the same value.
TEST(FalseSentences, AnErrorOf1e5IsNoExchange) {
  const OutputInstead* o =
      said_of_o({}, [](const KernelCall&, OracleOutput& out, CallOutcome&) {
        for (size_t n = 0; n < out.o.size(); ++n)
          out.o[n] *=
              1 + 1e-5 * static_cast<double>(1 + philox_u64(n, 0, 0, 0) % 7);
      });
  ASSERT_NE(o, nullptr);
  EXPECT_EQ(o->text.find("other elements"), std::string::npos) << o->text;
}

// In calls with one member its stride is that of no axis.
TEST(FalseSentences, AnExchangeWithAnExtentOfOneIsNotTold) {
  const KernelUnderTest kernel = with_options(kFew);
  const Question first_key =
      in_room([](KernelCall& call, Problem& p, Room& room) {
        const Shape& s = call.shape;
        if (call.causal == Causal::kNone || s.B > 1) return;
        std::vector<uint8_t> mask;
        for (int64_t bh = 0; bh < s.B * s.H; ++bh)
          for (int64_t i = 0; i < s.Tq; ++i)
            for (int64_t j = 0; j < s.Tk; ++j)
              mask.push_back(j < (s.Tk - s.Tq) * i + 1 ? 1 : 0);
        p.mask = room.keep(std::move(mask));
      });
  const Reported reported =
      report_on(kernel, first_key, {}, {"agrees_with_oracle"});
  for (const CauseOfFailures& cause : reported.causes)
    EXPECT_EQ(cause.diagnosis.instead.text().find("member and"),
              std::string::npos)
        << cause.diagnosis.instead.text();
}

// A mask shared by heads is applied to head 0 only. In the smallest case it
// hides whole rows, so that only rows without a key are wrong.
TEST(FalseSentences, OtherMasksAreAskedBeforeEmptyRowsAreACaseOfTheirOwn) {
  const Question head_0 = in_room([](KernelCall& call, Problem& p, Room& room) {
    const Shape& s = call.shape;
    if (p.mask == nullptr || s.H < 2) return;
    const auto of_head = static_cast<size_t>(s.Tq * s.Tk);
    std::vector<uint8_t> mask(p.mask, p.mask + s.B * s.H * s.Tq * s.Tk);
    for (size_t n = 0; n < mask.size(); ++n)
      if (n / of_head % static_cast<size_t>(s.H) > 0) mask[n] = 1;
    p.mask = room.keep(std::move(mask));
  });
  const KernelUnderTest kernel = with_options(kFew | QKVET_OPTION_MASK);
  Failure failure;
  failure.law = find_law("weights_sum_to_one");
  const auto value =
      parse_case("f32,B1,H2,Tq2,Tk2,d3,mask=emptyrow.bqk,q=zero,k=zero,v=one");
  ASSERT_TRUE(value.value) << value.error;
  failure.smallest = failure.found = *value.value;
  FakeExecutor executor(head_0, {});
  TimeUse time;
  const Instead instead =
      look_what_it_is_instead(failure, FailsWhere(), {kernel, executor, time});
  EXPECT_NE(instead.stage, Stage::kEmptyRows) << instead.text();
  EXPECT_GE(instead.cases, 3);
}

// A failure determined by a hash of the call.
TEST(FalseSentences, NoiseIsNoSentence) {
  const Reported reported = report_on(
      with_options(kFew), {},
      [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
        const Shape& s = call.shape;
        const uint64_t hash = philox_u64(
            static_cast<uint64_t>(s.Tk * 131 + s.Tq * 17 + s.d),
            static_cast<uint32_t>(s.H), static_cast<uint32_t>(s.B), 7);
        if (hash % 5 < 3)
          for (double& o : out.o) o = 1.25 * o + 0.25;
      },
      {"agrees_with_oracle"});
  for (const CauseOfFailures& cause : reported.causes)
    EXPECT_EQ(cause.diagnosis.where.text().find("where B"), std::string::npos)
        << cause.diagnosis.where.text();
}

// A number is added to every output. If it changes from call to call, probes of
// the stage compare answers that have nothing in common.
TEST(FalseSentences, NumbersThatChangeFromCallToCallHaveNoStage) {
  for (const bool do_change : {true, false}) {
    const auto calls = std::make_shared<int>(0);
    const Reported report =
        report_on(with_options(kFew), {},
                  [=](const KernelCall&, OracleOutput& out, CallOutcome&) {
                    constexpr int kNumbers = 7;
                    const double more = do_change ? 1 + ++*calls % kNumbers : 1;
                    for (double& o : out.o) o += more;
                  },
                  {"agrees_with_oracle"});
    ASSERT_EQ(report.causes.size(), 1u);
    const Instead& instead = report.causes[0].diagnosis.instead;
    EXPECT_EQ(instead.depends_on_calls, do_change) << instead.text();
    EXPECT_EQ(instead.stage == Stage::kUnknown, do_change)
        << instead.stage_sentence();
  }
}

// A sentence is not nearly right if no fresh case fails.
TEST(FalseSentences, ANearestSentenceHasCasesOnBothSides) {
  const auto like = parse_case("f32,B1,H1,Tq1,Tk1,d1");
  ASSERT_TRUE(like.value);
  FailsWhere where;
  where.setting.emplace(agreement_about(Subject::kAttention),
                        Setting::Data::kNormal, *like.value,
                        FakeExecutor::under_test());
  where.fresh = {244, 244, 0};
  EXPECT_EQ(where.text(), "no short sentence describes where.");
  where.fresh = {235, 244, 120};
  EXPECT_NE(where.text().find("The nearest: "), std::string::npos);
  where.fresh = {150, 244, 120};
  EXPECT_EQ(where.text(), "no short sentence describes where.");
}

TEST(Tiles, AreReadOffTexts) {
  EXPECT_EQ(numbers_in("the first 16 keys, f16, 0.5 and tile=32 of 1 or 16"),
            (std::vector<int64_t>{16, 32}));
  EXPECT_TRUE(numbers_in("no number").empty());
}

TEST(Tiles, AreAskedOnceTwiceAndThreeTimes) {
  const Law& law = agreement_about(Subject::kAttention);
  const auto value = parse_case("f32,B1,H1,Tq2,Tk17,d8");
  std::vector<int64_t> keys;
  for (const Case& one : at_tiles(law, *value.value, {16}))
    if (one.shape.Tq == 2) keys.push_back(one.shape.Tk);
  EXPECT_EQ(keys, (std::vector<int64_t>{48, 49, 32, 33, 16, 17}));
  const auto paged = parse_case("f32,B1,H1,Tq1,Tk2,d1,kvlen=1,page=1");
  ASSERT_TRUE(paged.value) << paged.error;
  EXPECT_TRUE(at_tiles(law, *paged.value, {16}).empty());
  const auto near = tiles_near({{{QKVET_AXIS_TK, 255}, ""}}, *value.value);
  EXPECT_EQ(near, (std::vector<int64_t>{255, 256, 16, 17, 2}));
}

}  // namespace
}  // namespace qkvet::diagnosis::false_sentences_test
