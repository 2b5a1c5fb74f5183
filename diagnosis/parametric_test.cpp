// SPDX-License-Identifier: Apache-2.0
// Hypotheses with a number: each is recognised by its effect, and not by a
// similar one.
#include <gtest/gtest.h>

#include <cmath>

#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::parametric_test {
namespace {

using Question = FakeExecutor::Question;

KernelUnderTest plain_fake() {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &=
      QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_SCALE |
      QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_GROUPED_HEADS |
      QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS;
  return kernel;
}

// The first cause of the kernel's failure of agreement.
Diagnosis diagnosis_of(const KernelUnderTest& kernel, const Question& question,
                       const FakeExecutor::Answer& answer = nullptr,
                       const char* law = "agrees_with_oracle") {
  const auto open = opening<FakeExecutor>(question, answer);
  const std::vector<Failure> failures =
      failures_for_test(kernel, open, {find_law(law)}, 300);
  EXPECT_EQ(failures.size(), 1u);
  if (failures.empty()) return {};
  TimeUse time;
  const Opened executor = open(0);
  return diagnose(failures[0], kernel, *executor.executor,
                  known_faults_for_test(), time);
}

Question scaled(double (*scale)(double d, double right)) {
  return [scale](KernelCall&, Problem& p) {
    const auto d = static_cast<double>(p.shape.d);
    p.scale = scale(d, p.scale_given ? p.scale : 1 / std::sqrt(d));
    p.scale_given = true;
  };
}

// The mask of a fake call must outlive it.
Question shown(bool (*sees)(const Problem& p, int64_t i, int64_t j)) {
  auto masks = std::make_shared<std::vector<std::vector<uint8_t>>>();
  return [masks, sees](KernelCall&, Problem& p) {
    const Shape& s = p.shape;
    std::vector<uint8_t> mask;
    for (int64_t row = 0; row < s.lse_elements(); ++row)
      for (int64_t j = 0; j < s.Tk; ++j) mask.push_back(sees(p, row % s.Tq, j));
    masks->push_back(std::move(mask));
    p.mask = masks->back().data();
    p.causal = Causal::kNone;
  };
}

int64_t end_of_row(const Problem& p, int64_t i) {
  const int64_t end = i + p.shape.Tk - p.shape.Tq + 1;
  return p.causal == Causal::kNone ? p.shape.Tk : std::min(end, p.shape.Tk);
}

TEST(Parametric, AScaleIsMeasured) {
  const Diagnosis diagnosis = diagnosis_of(
      plain_fake(), scaled([](double, double right) { return 1.25 * right; }));
  ASSERT_EQ(diagnosis.name(), "other_scale");
  EXPECT_EQ(diagnosis.certainty, Certainty::kSure);
  EXPECT_NE(diagnosis.causes[0].cause.find("1.25 times it"), std::string::npos)
      << diagnosis.causes[0].cause;
}

TEST(Parametric, AScaleIsNamedByItsFormula) {
  const Diagnosis diagnosis =
      diagnosis_of(plain_fake(), [](KernelCall&, Problem& p) {
        if (!p.scale_given)
          p.scale = 1 / std::sqrt(2 * static_cast<double>(p.shape.d));
        p.scale_given = true;
      });
  ASSERT_EQ(diagnosis.name(), "other_scale");
  EXPECT_NE(diagnosis.causes[0].cause.find("1/sqrt(2 d)"), std::string::npos)
      << diagnosis.causes[0].cause;
}

TEST(Parametric, AnotherPowerOfTheWidthIsNamed) {
  const Diagnosis diagnosis =
      diagnosis_of(plain_fake(), [](KernelCall&, Problem& p) {
        if (!p.scale_given)
          p.scale = std::pow(static_cast<double>(p.shape.d), -0.49);
        p.scale_given = true;
      });
  ASSERT_EQ(diagnosis.name(), "other_scale");
  EXPECT_NE(diagnosis.causes[0].cause.find("this is 1/d^0.49."),
            std::string::npos)
      << diagnosis.causes[0].cause;
}

TEST(Parametric, AScaleWithoutAFormulaIsUnknown) {
  EXPECT_EQ(diagnosis_of(plain_fake(), scaled([](double d, double right) {
                           return right * (1 + 0.5 / d);
                         }))
                .name(),
            "unknown");
}

TEST(Parametric, AShiftedDiagonalIsCounted) {
  const Diagnosis diagnosis = diagnosis_of(
      plain_fake(), shown([](const Problem& p, int64_t i, int64_t j) {
        const int64_t end =
            p.causal == Causal::kNone ? p.shape.Tk : end_of_row(p, i) + 3;
        return j < end;
      }));
  EXPECT_EQ(diagnosis.name(), "diagonal_too_far_by_3");
}

TEST(Parametric, LostKeysAreCounted) {
  const Diagnosis diagnosis = diagnosis_of(
      plain_fake(), shown([](const Problem& p, int64_t i, int64_t j) {
        return j + 2 < end_of_row(p, i);
      }));
  EXPECT_EQ(diagnosis.name(), "last_keys_lost_2");
}

// The last key that a row sees, whatever hides the others: not the last key of
// the tensor.
TEST(Parametric, LostKeysAreThoseThatTheRowSees) {
  KernelUnderTest kernel = plain_fake();
  kernel.judged.info.capabilities.options |=
      QKVET_OPTION_SEGMENTS | QKVET_OPTION_WINDOW | QKVET_OPTION_CHUNK;
  auto masks = std::make_shared<std::vector<std::vector<uint8_t>>>();
  const FakeExecutor::Question loses = [masks](KernelCall&, Problem& p) {
    Problem equal = p;
    const std::vector<double> zeros(
        static_cast<size_t>(p.shape.q_elements() + p.shape.k_elements()));
    equal.q = equal.k = zeros.data();
    equal.bias = nullptr;
    std::vector<uint8_t> mask;
    const auto Tk = static_cast<size_t>(p.shape.Tk);
    for (const double weight : plain_forward(equal).weights)
      mask.push_back(weight > 0);
    for (size_t row = 0; row < mask.size(); row += Tk)
      for (size_t j = Tk; j-- > 0;)
        if (mask[row + j] != 0) {
          mask[row + j] = 0;
          break;
        }
    masks->push_back(std::move(mask));
    p.mask = masks->back().data();
  };
  for (const char* like : {"segments=3", "chunk=4"}) {
    RunOptions options;
    options.laws = {find_law("agrees_with_oracle")};
    options.cases = 32;
    options.planned = [like](int64_t number) {
      return *parse_case(std::string("f32,B1,H2,Tq7,Tk13,d5,") + like +
                         ",seed=" + std::to_string(number))
                  .value;
    };
    const auto open = opening<FakeExecutor>(loses);
    const RunResult result = run_plan({kernel}, open, options);
    ASSERT_TRUE(result.kernels[0].cells[0].failure) << like;
    TimeUse time;
    const Opened executor = open(0);
    EXPECT_EQ(diagnose(*result.kernels[0].cells[0].failure, kernel,
                       *executor.executor, known_faults_for_test(), time)
                  .name(),
              "last_keys_lost_1")
        << like;
  }
}

// Below two tiles this is everything but the rest of the last tile, so that
// both are named.
TEST(Parametric, KeysBehindATileAreCounted) {
  const Diagnosis diagnosis = diagnosis_of(
      plain_fake(), shown([](const Problem& p, int64_t i, int64_t j) {
        return j < std::min<int64_t>(end_of_row(p, i), 16);
      }));
  ASSERT_EQ(diagnosis.causes.size(), 2u);
  EXPECT_EQ(diagnosis.certainty, Certainty::kLikely);
  EXPECT_EQ(diagnosis.causes[0].name, "rest_of_tile_lost_16");
  EXPECT_EQ(diagnosis.causes[1].name, "keys_after_first_tile_lost_16");
}

// Every other weight is off by `units` of f32.
FakeExecutor::Answer uneven_weights(double units) {
  return [units](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
    for (int64_t row = 0; row < s.lse_elements(); ++row) {
      const int64_t head = kv_head_of(s, row);
      for (int64_t c = 0; c < s.dv; ++c) {
        const bool empty = out.visible[static_cast<size_t>(row)] == 0;
        double o = empty ? std::nan("") : 0;
        for (int64_t j = 0; j < s.Tk; ++j)
          o += out.weights[static_cast<size_t>(row * s.Tk + j)] *
               (1 + (j % 2 == 0 ? 0 : units * 0x1p-24)) *
               v[static_cast<size_t>((head * s.Tk + j) * s.dv + c)];
        out.o[static_cast<size_t>(row * s.dv + c)] = o;
      }
    }
  };
}

// Scores in f32 of queries that are multiplied by the scale, the rest exact.
void scale_on_q(const KernelCall& call, OracleOutput& out, CallOutcome&) {
  const Shape& s = call.shape;
  const auto q = stored_as_doubles(call.q, s.q_elements(), call.q_dtype);
  const auto k = stored_as_doubles(call.k, s.k_elements(), call.kv_dtype);
  const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
  const float scale =
      call.scale.value_or(1 / std::sqrt(static_cast<float>(s.d)));
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    const int64_t head = kv_head_of(s, row);
    std::vector<float> scores(static_cast<size_t>(s.Tk));
    double max = -INFINITY, sum = 0;
    std::vector<double> o(static_cast<size_t>(s.dv));
    const auto sees = [&](int64_t j) {
      return out.weights[static_cast<size_t>(row * s.Tk + j)] > 0;
    };
    for (int64_t j = 0; j < s.Tk; ++j) {
      for (int64_t c = 0; c < s.d; ++c)
        scores[static_cast<size_t>(j)] +=
            static_cast<float>(q[static_cast<size_t>(row * s.d + c)]) * scale *
            static_cast<float>(
                k[static_cast<size_t>((head * s.Tk + j) * s.d + c)]);
      if (sees(j)) max = std::max<double>(max, scores[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < s.Tk; ++j) {
      const double p =
          sees(j) ? std::exp(scores[static_cast<size_t>(j)] - max) : 0;
      sum += p;
      for (int64_t c = 0; c < s.dv; ++c)
        o[static_cast<size_t>(c)] +=
            p * v[static_cast<size_t>((head * s.Tk + j) * s.dv + c)];
    }
    for (int64_t c = 0; sum > 0 && c < s.dv; ++c)
      out.o[static_cast<size_t>(row * s.dv + c)] =
          o[static_cast<size_t>(c)] / sum;
  }
}

// The kernel rounds more often than it declares, and no more than generic
// kernels.
TEST(Parametric, AnotherDeclarationIsFound) {
  KernelUnderTest kernel = plain_fake();
  qkvet_precision declared = {};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  kernel.judged.model = resolve_precision(declared).model;
  const auto off_by = [&](double units) {
    return diagnosis_of(kernel, nullptr, uneven_weights(units));
  };
  // Any other cause of errors this small fits as well.
  EXPECT_EQ(off_by(24).name(), "precision_generic");
  EXPECT_EQ(off_by(24).certainty, Certainty::kLikely);
  EXPECT_EQ(off_by(60000).name(), "unknown");
}

TEST(Parametric, TheStageOfTheScaleIsFound) {
  KernelUnderTest kernel = plain_fake();
  qkvet_precision declared = {};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  kernel.judged.model = resolve_precision(declared).model;
  EXPECT_EQ(
      diagnosis_of(kernel, nullptr, scale_on_q, "shifted_keys_change_nothing")
          .name(),
      "precision_scale_on_q");
}

}  // namespace
}  // namespace qkvet::diagnosis::parametric_test
