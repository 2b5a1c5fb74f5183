// SPDX-License-Identifier: Apache-2.0
// Stages according to probes of rows: made-up kernels, each next to a similar
// one that must not get that stage.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "diagnosis/fake_faults.h"
#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis::probed_stage_test {
namespace {

using instead_test::each_o;
using instead_test::in_room;
using instead_test::largest;
using instead_test::look;

// `left_out`: options that the kernel does not have.
const char* stage_of(const FakeExecutor::Question& question,
                     const FakeExecutor::Answer& answer,
                     uint64_t left_out = 0) {
  const auto looked =
      look({"", Stage::kUnknown, question, answer}, nullptr, 4000,
           "agrees_with_oracle", instead_test::kMaskFields | left_out);
  EXPECT_TRUE(looked.failure);
  return stage_name(looked.instead.stage);
}

// No share of a sum changes a sign; another factor may be a division or the way
// o is stored.
TEST(ProbedStage, ATurnedSignIsOfTheProductWithV) {
  EXPECT_STREQ(stage_of({}, each_o([](double o) { return -o; })), "values");
  EXPECT_STREQ(stage_of({}, each_o([](double o) { return 3 * o; })), "");
}

// The share of the sink is not rescaled when a larger score comes.
void keep_the_sink(const KernelCall& call, OracleOutput& out) {
  const Shape& s = call.shape;
  for (int64_t row = 0; s.Tk > 0 && row < s.lse_elements(); ++row) {
    double* weights = out.weights.data() + row * s.Tk;
    double sink = 1;
    for (int64_t j = 0; j < s.Tk; ++j) sink -= weights[j];
    const double most = largest(call, weights);
    if (!(most > sink)) continue;
    const double factor = 1 / (1 - sink + most);
    for (int64_t j = 0; j < s.Tk; ++j) weights[j] *= factor;
    for (int64_t c = 0; c < s.dv; ++c) out.o[row * s.dv + c] *= factor;
    out.lse[row] -= std::log(factor);
  }
}

TEST(ProbedStage, AnotherSumOfWhichLseIsMadeIsTheSoftmax) {
  EXPECT_STREQ(
      stage_of({},
               [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                 if (call.sink != nullptr) keep_the_sink(call, out);
               }),
      "softmax");
  EXPECT_STRNE(stage_of(
                   [](const KernelCall& call, Problem& p) {
                     if (call.sink != nullptr) p.scale *= 1.5;
                   },
                   {}),
               "softmax");
}

// Keys of long rows that count three times, unless all scores are 0.
FakeExecutor::Question weighed(bool (*counts)(int64_t key)) {
  return in_room([counts](KernelCall&, Problem& p, Room& room) {
    constexpr int64_t kLong = 16;
    const Shape& s = p.shape;
    if (s.Tk < kLong) return;
    std::vector<double> bias;
    for (int64_t row = 0; row < s.lse_elements(); ++row) {
      const double* q = p.q + row * s.d;
      const bool is_zero =
          std::all_of(q, q + s.d, [](double x) { return x == 0; });
      for (int64_t j = 0; j < s.Tk; ++j)
        bias.push_back((p.bias == nullptr ? 0 : p.bias[row * s.Tk + j]) +
                       (!is_zero && counts(j) ? std::log(3) : 0));
    }
    p.bias = room.keep(std::move(bias));
  });
}

TEST(ProbedStage, WhatIsRescaledTileByTileIsTheSoftmax) {
  EXPECT_STREQ(stage_of(weighed([](int64_t key) { return key < 8; }), {}),
               "softmax");
  EXPECT_STRNE(stage_of(weighed([](int64_t key) { return key % 2 == 0; }), {}),
               "softmax");
}

FakeExecutor::Answer dying(bool (*dies)(const KernelCall& call)) {
  return [dies](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
    if (dies(call)) outcome.status = CallStatus::kCrash;
  };
}

TEST(ProbedStage, WhatEndsWithOneReturnOrOptionIsOfThat) {
  EXPECT_STREQ(
      stage_of({}, dying([](const KernelCall& call) { return call.want_lse; })),
      "lse");
  EXPECT_STREQ(stage_of({}, dying([](const KernelCall& call) {
                          return call.shape.Tk > 2;
                        })),
               "");
  EXPECT_STREQ(stage_of({}, dying([](const KernelCall& call) {
                          return call.sink != nullptr;
                        })),
               "softmax");
  EXPECT_STREQ(stage_of({}, dying([](const KernelCall& call) {
                          return call.sink != nullptr || call.bias != nullptr;
                        })),
               "");
}

// A factor in unwritten memory, or between the rows of an input, is NaN, and
// NaN times q = 0 is NaN as well. The probe puts a number there. In the control
// the factor is always NaN.
TEST(ProbedStage, WhatMemoryMakesNaNOfIsAskedWithANumber) {
  using Byte = uint8_t KernelCall::*;
  const auto scaled = [](Byte hangs_on) -> FakeExecutor::Question {
    return [hangs_on](const KernelCall& call, Problem& p) {
      const bool is_number = hangs_on != nullptr && call.*hangs_on != 0;
      p.scale *= is_number ? 0.75 : std::nan("");
    };
  };
  for (const Byte byte :
       {&KernelCall::fresh_memory, &KernelCall::around_inputs})
    EXPECT_STREQ(stage_of(scaled(byte), {}), "scores");
  EXPECT_STRNE(stage_of(scaled(nullptr), {}), "scores");
}

TEST(ProbedStage, WhatEndsWithoutAnOptionReadsIt) {
  EXPECT_STREQ(stage_of({}, dying([](const KernelCall& call) {
                          return call.slopes == nullptr;
                        })),
               "bias");
  EXPECT_STREQ(stage_of({}, dying([](const KernelCall& call) {
                          return call.slopes == nullptr && call.bias == nullptr;
                        })),
               "");
}

// A product that is left out and an output that is not stored give the same 0.
TEST(ProbedStage, ZerosTellOfNoStageUnlessValuesAreMultipliedByThem) {
  EXPECT_STREQ(stage_of({}, each_o([](double) { return 0.0; })), "");
  // With right weights, 0 has another origin.
  for (const bool has_weights : {false, true})
    EXPECT_STREQ(stage_of({}, each_o([](double o) { return 0 * o; }),
                          has_weights ? 0 : uint64_t{QKVET_OPTION_WEIGHTS}),
                 has_weights ? "" : "softmax");
}

// `of`: the row of weights that row i of a head has.
FakeExecutor::Answer weighing(
    double factor,
    std::function<double(const KernelCall& call, const double* weights,
                         int64_t i, int64_t j)>
        of,
    std::shared_ptr<const double*> v) {
  return [=](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    if (s.Tk < 2) return;
    const int64_t group = s.Hkv > 0 ? s.H / s.Hkv : 1;
    for (int64_t head = 0; head < s.B * s.H; ++head)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t c = 0; c < s.dv; ++c) {
          double& o = out.o[(head * s.Tq + i) * s.dv + c];
          o = 0;
          for (int64_t j = 0; j < s.Tk; ++j)
            o += factor *
                 of(call, out.weights.data() + head * s.Tq * s.Tk, i, j) *
                 (*v)[((head / group) * s.Tk + j) * s.dv + c];
        }
  };
}

// If lse is right and the weights are those of no row, only the product with V
// is left. Weights of another row, times a factor, may just be stored there.
TEST(ProbedStage, WeightsOfNoRowAreOfTheProductWithV) {
  const auto v = std::make_shared<const double*>();
  const FakeExecutor::Question keep_v = [v](const KernelCall&, Problem& p) {
    *v = p.v;
  };
  const auto uneven = [](const KernelCall& call, const double* weights,
                         int64_t i, int64_t j) {
    return weights[i * call.shape.Tk + j] * (j % 2 == 0 ? 0.25 : 1);
  };
  const auto of_next = [](const KernelCall& call, const double* weights,
                          int64_t i, int64_t j) {
    return weights[(i + 1) % call.shape.Tq * call.shape.Tk + j];
  };
  EXPECT_STREQ(stage_of(keep_v, weighing(1.5, uneven, v)), "values");
  EXPECT_STREQ(stage_of(keep_v, weighing(1.5, of_next, v)), "");
}

// A number added to all scores of a row changes lse, and o only if there is a
// sink. A number added to lse does not change o.
TEST(ProbedStage, ALogarithmOfShiftedScoresIsOfTheScores) {
  const auto scale = std::make_shared<double>();
  EXPECT_STREQ(
      stage_of(in_room([](KernelCall&, Problem& p, Room& room) {
                 if (p.softcap > 0) return;
                 std::vector<double> bias(
                     static_cast<size_t>(p.shape.weights_elements()), p.scale);
                 for (size_t n = 0; p.bias != nullptr && n < bias.size(); ++n)
                   bias[n] += p.bias[n];
                 p.bias = room.keep(std::move(bias));
               }),
               {}),
      "scores");
  EXPECT_STREQ(
      stage_of(
          [scale](const KernelCall&, Problem& p) { *scale = p.scale; },
          [scale](const KernelCall& call, OracleOutput& out, CallOutcome&) {
            if (call.softcap > 0) return;
            for (double& lse : out.lse) lse += *scale;
          }),
      "lse");
}

// The stage in a whole diagnosis, for cases from all over the plan.
std::string stage_of_diagnosis(const FakeExecutor::Answer& answer) {
  const KernelUnderTest kernel = FakeExecutor::under_test();
  const std::vector<Failure> failures = instead_test::failures_of(
      "agrees_with_oracle", nullptr, answer, /*cases=*/400);
  if (failures.empty()) return "nothing fails";
  TimeUse time;
  FakeExecutor executor(nullptr, answer);
  const FailsWhere where =
      look_where_it_fails(failures[0], {kernel, executor, time});
  const Instead instead =
      look_what_it_is_instead(failures[0], where, {kernel, executor, time});
  return stage_name(instead.stage);
}

// With a sink, other numbers come out. The control is NaN now and then.
TEST(ProbedStage, WhatIsNoNumberWithoutAnOptionIsOfThat) {
  const auto answer = [](bool is_of_sink) {
    return
        [is_of_sink](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const bool has_sink = call.sink != nullptr;
          if (has_sink && call.shape.Tk % 5 != 0) return;
          const bool is_nan = is_of_sink ? !has_sink : call.shape.Tq % 2 == 0;
          for (std::vector<double>* output : {&out.o, &out.lse})
            for (double& x : *output) x = is_nan ? std::nan("") : 3 + x * x;
        };
  };
  EXPECT_EQ(stage_of_diagnosis(answer(true)), "softmax");
  EXPECT_EQ(stage_of_diagnosis(answer(false)), "");
}

// The first rows are NaN in every probe.
FakeExecutor::Answer with_nan_in_first_rows(bool (*is_so)(const KernelCall&),
                                            double (*of)(double right)) {
  return [=](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (!is_so(call)) return;
    const Shape& s = call.shape;
    for (int64_t n = 0; n < std::ssize(out.o); ++n)
      out.o[n] = n / s.dv % s.Tq == 0 ? std::nan("") : of(out.o[n]);
    for (double& lse : out.lse) lse = of(lse);
  };
}

// NaN hides what probes would show, but not that all is right without a bias.
TEST(ProbedStage, BehindNaNAnOptionIsTakenAwayAllTheSame) {
  const auto has_bias = [](const KernelCall& call) {
    return call.bias != nullptr;
  };
  const auto always = [](const KernelCall&) { return true; };
  const auto of = [](double x) { return 3 + x * x; };
  for (const bool is_of_bias : {true, false})
    EXPECT_STREQ(
        stage_of({},
                 with_nan_in_first_rows(is_of_bias ? +has_bias : +always, of),
                 QKVET_OPTION_WEIGHTS),
        is_of_bias ? "bias" : "");
}

// Nor does it hide that the others are means by other scores.
TEST(ProbedStage, BehindNaNMeansByOtherScoresAreOfTheScores) {
  const auto always = [](const KernelCall&) { return true; };
  const FakeExecutor::Question other_scores = [](const KernelCall&,
                                                 Problem& p) {
    p.scale *= 1.25 + 0.5 * static_cast<double>(p.shape.Tk % 4);
    p.scale_given = true;
  };
  EXPECT_STREQ(
      stage_of(other_scores, with_nan_in_first_rows(
                                 always, [](double right) { return right; })),
      "scores");
  EXPECT_STREQ(stage_of(other_scores,
                        with_nan_in_first_rows(
                            always, [](double right) { return 3 * right; })),
               "");
}

// Also where the end is a guard of the kernel's own memory.
FakeExecutor::Answer leaving_its_heap(bool (*leaves)(const KernelCall& call)) {
  return [leaves](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
    if (!leaves(call)) return;
    outcome.status = CallStatus::kFault;
    outcome.fault.emplace();
    outcome.fault->of_heap = true;
  };
}

// Scratch for all keys of a row has room for one too many once a mask hides
// one, even if some cases end far from it.
TEST(ProbedStage, ScratchThatIsTooShortIsNoMatterOfKeys) {
  for (const bool is_of_heap : {true, false}) {
    const FakeExecutor::Answer answer = [is_of_heap](const KernelCall& call,
                                                     OracleOutput&,
                                                     CallOutcome& outcome) {
      if (call.mask != nullptr) return;
      if (is_of_heap && call.shape.Tk % 2 == 0) {
        outcome.status = CallStatus::kFault;
        outcome.fault.emplace();
        outcome.fault->of_heap = true;
      } else {
        outcome.status = CallStatus::kCrash;
      }
    };
    EXPECT_STREQ(stage_of({}, answer), is_of_heap ? "" : "keys");
  }
}

// A matrix taken for its own transpose is square, or does not fit.
TEST(ProbedStage, WhatEndsUnlessRowsAreAsManyAsColumnsIsOfTheTensor) {
  const struct {
    bool (*ends)(const KernelCall& call);
    const char* stage;
  } rows[] = {
      {[](const KernelCall& c) { return c.shape.Tq != c.shape.d; }, "scores"},
      {[](const KernelCall& c) { return c.shape.Tq != c.shape.dv; }, "output"},
      {[](const KernelCall& c) { return c.shape.Tk != c.shape.dv; }, "values"},
      // The control: of two tensors.
      {[](const KernelCall& c) {
         return c.shape.Tq != c.shape.dv && c.shape.Tk != c.shape.dv;
       },
       ""}};
  for (const auto& row : rows)
    for (const auto& ending : {dying(row.ends), leaving_its_heap(row.ends)})
      EXPECT_STREQ(stage_of({}, ending), row.stage);
}

// Scratch for all keys of a row has room to spare if a mask hides some, so that
// fewer crashes with a mask are no evidence about the mask.
TEST(ProbedStage, ScratchThatIsLeftWithoutAMaskIsNoMatterOfKeys) {
  const auto no_mask = [](const KernelCall& c) { return c.mask == nullptr; };
  EXPECT_STREQ(stage_of({}, dying(no_mask)), "keys");
  EXPECT_STREQ(stage_of({}, leaving_its_heap(no_mask)), "");
}

// A kernel that ends by the width of values reads them, or writes their
// product.
TEST(ProbedStage, WhoEndsByTheWidthOfValuesReadsThemOrStoresRows) {
  const auto dying_at_values = [](std::optional<bool> writing, bool has_keys) {
    return [=](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
      if (call.shape.dv < 2 || (has_keys && call.shape.Tk == 0)) return;
      outcome.status = CallStatus::kCrash;
      outcome.died_writing = writing;
    };
  };
  EXPECT_STREQ(stage_of({}, dying_at_values(false, true)), "values");
  EXPECT_STREQ(stage_of({}, dying_at_values(true, true)), "output");
  EXPECT_STREQ(stage_of({}, dying_at_values({}, true)), "");
  EXPECT_STREQ(stage_of({}, dying_at_values({}, false)), "output");
}

// An access far outside a tensor meets no other tensor, or ends the process;
// the other failing cases show which tensor it is.
TEST(ProbedStage, ATouchOfATensorSpeaksForThoseOfNone) {
  const auto touching = [](int64_t every) {
    return
        [every](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          outcome.status = CallStatus::kFault;
          outcome.fault.emplace();
          if (call.shape.Tk % every == 0)
            outcome.fault->tensor = TensorName::kV;
        };
  };
  EXPECT_STREQ(stage_of({}, touching(1)), "values");
  // The same if they are few and there is no other evidence.
  EXPECT_STREQ(stage_of({}, touching(7)), "values");
  EXPECT_STREQ(
      stage_of({},
               [touch = touching(1)](const KernelCall& call, OracleOutput& out,
                                     CallOutcome& outcome) {
                 touch(call, out, outcome);
                 if (call.shape.Tk % 3 == 2) outcome.fault->tensor.reset();
               }),
      "values");
  // The controls: too few, and of two.
  EXPECT_STREQ(stage_of({}, touching(1000)), "");
  EXPECT_STREQ(
      stage_of({},
               [touch = touching(3)](const KernelCall& call, OracleOutput& out,
                                     CallOutcome& outcome) {
                 touch(call, out, outcome);
                 if (call.shape.Tk % 4 == 0)
                   outcome.fault->tensor = TensorName::kO;
               }),
      "");
}

}  // namespace
}  // namespace qkvet::diagnosis::probed_stage_test
