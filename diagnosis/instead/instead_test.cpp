// SPDX-License-Identifier: Apache-2.0
// Kernels that compute a known wrong result at a known stage, which must be
// reported. The controls: kernels with arbitrary wrong numbers, or with two
// mistakes in turn, get no description; and the judge of descriptions rejects a
// false one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/base/philox.h"
#include "core/door/canary.h"
#include "diagnosis/fake_faults.h"
#include "diagnosis/instead/claims.h"

namespace qkvet::diagnosis::instead_test {
namespace {

const Fault kFaults[] = {
    answering("the right value times 2", Stage::kUnknown,
              each_o([](double o) { return 2 * o; })),
    answering("the right value times -1", Stage::kValues,
              each_o([](double o) { return -o; })),
    answering("the right value times 0.37", Stage::kUnknown,
              each_o([](double o) { return 0.37 * o; })),
    answering("the right value times sqrt(d)", Stage::kUnknown,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                for (double& o : out.o)
                  o *= std::sqrt(static_cast<double>(call.shape.d));
              }),
    answering("0", Stage::kUnknown, each_o([](double) { return 0.0; })),
    answering("NaN", Stage::kUnknown,
              each_o([](double) { return std::nan(""); })),
    answering(
        "the right value with 8 bits (bf16)", Stage::kOutput,
        each_o([](double o) { return bf16_to_double(bf16_from_double(o)); })),
    answering(
        "never divided by the row's sum of exponentials (of scores below their "
        "maximum)",
        Stage::kSoftmax,
        each_row([](const KernelCall& call, int64_t, double* o,
                    const double* weights) {
          const double of = largest(call, weights);
          for (int64_t c = 0; c < call.shape.dv; ++c) o[c] /= of;
        })),
    answering("divided by the sum of the row after it", Stage::kSoftmax,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                if (call.sink != nullptr) return;
                const Shape& s = call.shape;
                for (int64_t row = 0; row + 1 < s.lse_elements(); ++row) {
                  const auto n = static_cast<size_t>(row);
                  if (row % s.Tq == s.Tq - 1 || out.visible[n + 1] < 1)
                    continue;
                  const double* weights = out.weights.data() + row * s.Tk;
                  const double times =
                      largest(call, weights + s.Tk) / largest(call, weights);
                  for (int64_t c = 0; c < s.dv; ++c)
                    out.o[static_cast<size_t>(row * s.dv + c)] *= times;
                }
              }),
    answering(
        "the right value of the channel after it", Stage::kUnknown,
        each_row([](const KernelCall& call, int64_t, double* o, const double*) {
          for (int64_t c = 0; c + 1 < call.shape.dv; ++c) o[c] = o[c + 1];
        })),
    asking("the result of weights divided by V, not multiplied with it",
           Stage::kValues,
           [](KernelCall&, Problem& p, Room& room) {
             std::vector<double> v(p.v, p.v + p.shape.v_elements());
             for (double& x : v) x = 1 / x;
             p.v = room.keep(std::move(v));
           }),
    {"the result of no scale", Stage::kScores,
     [](KernelCall&, Problem& p) { p.scale = 1; }},
    {"the result of the scale times log2(e)", Stage::kScores,
     [](KernelCall&, Problem& p) { p.scale *= std::numbers::log2e; }},
    {"the result without the causal rule", Stage::kKeys,
     [](KernelCall&, Problem& p) { p.causal = Causal::kNone; }},
    {"the result without the mask", Stage::kKeys,
     [](KernelCall&, Problem& p) { p.mask = nullptr; }},
    {"the result without the bias", Stage::kBias,
     [](KernelCall&, Problem& p) { p.bias = nullptr; }},
    {"the result without the sink", Stage::kSoftmax,
     [](KernelCall&, Problem& p) { p.sink = nullptr; }},
    answering("divided by what the sink alone adds to the sum", Stage::kSoftmax,
              [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                if (call.sink == nullptr) return;
                const Shape& s = call.shape;
                for (int64_t row = 0; row < s.lse_elements(); ++row) {
                  double share = 1;
                  for (int64_t j = 0; j < s.Tk; ++j)
                    share -= out.weights[static_cast<size_t>(row * s.Tk + j)];
                  for (int64_t c = 0; c < s.dv; ++c)
                    out.o[static_cast<size_t>(row * s.dv + c)] /= share;
                }
              }),
    asking("the result of the first 16 keys alone", Stage::kKeys,
           [](KernelCall&, Problem& p, Room& room) {
             if (p.mask != nullptr || p.members > 0) return;
             std::vector<uint8_t> mask(
                 static_cast<size_t>(p.shape.weights_elements()));
             for (size_t n = 0; n < mask.size(); ++n)
               mask[n] = static_cast<int64_t>(n) % p.shape.Tk < 16;
             p.mask = room.keep(std::move(mask));
           }),
    answering("no finite number, but NaN or infinite", Stage::kUnknown,
              [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                for (size_t n = 0; n < out.o.size(); ++n)
                  out.o[n] = n % 2 == 0 ? std::nan("") : INFINITY;
              }),
    {"the result with the window one key wider on its left", Stage::kKeys,
     [](KernelCall&, Problem& p) {
       if (p.window && p.window->left >= 0) ++p.window->left;
     }}};

TEST(Instead, WhatIsAnsweredInsteadIsSaid) {
  for (const Fault& fault : kFaults) expect_said(fault);
}

// The sum over the keys before `end` of weight times value.
FakeExecutor::Question that_keeps(
    const std::shared_ptr<std::vector<double>>& values) {
  return [values](KernelCall&, Problem& p) {
    values->assign(p.v, p.v + p.shape.v_elements());
  };
}
FakeExecutor::Answer that_sums(
    const std::shared_ptr<std::vector<double>>& values, int64_t end) {
  return [values, end](const KernelCall& call, OracleOutput& out,
                       CallOutcome&) {
    const Shape& s = call.shape;
    for (int64_t n = 0; n < s.o_elements(); ++n) {
      const int64_t row = n / s.dv;
      if (out.visible[static_cast<size_t>(row)] == 0) continue;
      const int64_t kv = kv_head_of(s, row);
      double sum = 0;
      for (int64_t j = 0; j < std::min(end, s.Tk); ++j) {
        const double weight = out.weights[static_cast<size_t>(row * s.Tk + j)];
        if (weight > 0)
          sum +=
              weight *
              (*values)[static_cast<size_t>((kv * s.Tk + j) * s.dv + n % s.dv)];
      }
      out.o[static_cast<size_t>(n)] = sum;
    }
  };
}

// An undivided weight of the last key, and a divided one, doubled.
TEST(Instead, AWeightMayNotBeDivided) {
  for (const bool is_doubled : {false, true}) {
    const auto values = std::make_shared<std::vector<double>>();
    const Fault fault{"", Stage::kUnknown, that_keeps(values),
                      [values, is_doubled](const KernelCall& call,
                                           OracleOutput& out, CallOutcome&) {
                        const Shape& s = call.shape;
                        for (int64_t n = 0; n < s.o_elements(); ++n) {
                          const int64_t row = n / s.dv, kv = kv_head_of(s, row);
                          const double* weights =
                              out.weights.data() + row * s.Tk;
                          int64_t last = s.Tk - 1;
                          while (last >= 0 && !(weights[last] > 0)) --last;
                          if (last < 0 || call.sink != nullptr) continue;
                          const double times =
                              is_doubled ? 1 : 1 / largest(call, weights) - 1;
                          out.o[static_cast<size_t>(n)] +=
                              times * weights[last] *
                              (*values)[static_cast<size_t>(
                                  (kv * s.Tk + last) * s.dv + n % s.dv)];
                        }
                      }};
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, is_doubled
                                   ? "the right value with the last key's "
                                     "weight times value twice"
                                   : "the right value with the last key's "
                                     "weight not divided by the sum");
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
}

// Numbers that depend on the previous call are no function of the inputs; the
// same numbers without it are just wrong.
TEST(Instead, WhatAnEarlierCallLeftIsSaid) {
  for (const bool is_left : {true, false}) {
    const Fault fault =
        answering([is_left, kept = std::make_shared<double>(0)](
                      const KernelCall& call, OracleOutput& out, CallOutcome&) {
          if (call.new_process) *kept = 0;
          const double was = is_left ? *kept : 0;
          for (size_t n = 0; n < out.o.size(); ++n) {
            *kept += std::isfinite(out.o[n]) ? out.o[n] + 0.5 : 0;
            out.o[n] = std::sin(static_cast<double>(n) + was) + 3;
          }
        });
    const Looked looked = look(fault);
    const OutputInstead& o = looked.o();
    EXPECT_EQ(o.text.starts_with("other numbers after another call"), is_left)
        << o.text;
  }
}

// Numbers that change with the contents of fresh memory come from unwritten
// memory; numbers that change from call to call for other reasons do not.
TEST(Instead, WhatNobodyWroteIsSaid) {
  for (const bool is_of_memory : {true, false}) {
    const Fault fault =
        answering([is_of_memory, calls = std::make_shared<int>(0)](
                      const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const int was = is_of_memory ? call.fresh_memory : ++*calls;
          for (size_t n = 0; n < out.o.size(); ++n)
            out.o[n] = std::sin(static_cast<double>(n) + was) + 3;
        });
    const Looked looked = look(fault);
    const OutputInstead& o = looked.o();
    EXPECT_EQ(o.text.starts_with("made of unwritten memory"), is_of_memory)
        << o.text;
  }
}

// NaN that comes from memory is no description: other bytes there give other
// numbers, around inputs as well. NaN for all contents of memory is one.
TEST(Instead, NaNOfMemoryIsNotSaidToBeNaN) {
  using Byte = uint8_t (*)(const KernelCall& call);
  const struct {
    Byte byte;
    const char* text;
  } rows[] = {
      {[](const KernelCall& call) { return call.fresh_memory; },
       "made of unwritten memory: with other bytes in it, other numbers"},
      {[](const KernelCall& call) { return call.around_inputs; },
       "made of what lies around the rows of inputs: with other bytes there, "
       "other numbers"},
      {[](const KernelCall&) { return uint8_t{0}; }, "NaN"}};
  for (const auto& row : rows) {
    const Fault fault = answering(
        [&row](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const uint8_t byte = row.byte(call);
          for (size_t n = 0; n < out.o.size(); ++n)
            out.o[n] = byte == 0 || byte == 0xff
                           ? std::nan("")
                           : std::sin(static_cast<double>(n) + byte) + 3;
        });
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, row.text);
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
}

// An order of channels affects several of them. If only the first is wrong and
// has the number of the last, it is no order.
TEST(Instead, OneChannelHasNoOrder) {
  for (const bool is_alone : {true, false}) {
    const Fault fault = answering(
        [is_alone](const KernelCall& call, OracleOutput& out, CallOutcome&) {
          const int64_t width = call.shape.dv;
          for (int64_t row = 0; row < call.shape.lse_elements(); ++row) {
            double* o = out.o.data() + row * width;
            if (!is_alone) std::reverse(o, o + width);
            o[0] = is_alone ? o[width - 1] : o[0];
            for (int64_t c = 2; c < width && is_alone; ++c) o[c] = std::nan("");
          }
        });
    const Looked looked = look(fault);
    ASSERT_TRUE(looked.failure);
    EXPECT_EQ(looked.instead.text().find("in reverse") == std::string::npos,
              is_alone)
        << looked.instead.text();
  }
}

// Zeros in all calls that end are no property of the kernel if other bytes in
// memory end it.
TEST(Instead, ZerosThatMemoryDecidesAreNotSaid) {
  for (const bool is_of_memory : {true, false}) {
    const Fault fault =
        answering([is_of_memory](const KernelCall& call, OracleOutput& out,
                                 CallOutcome& outcome) {
          std::fill(out.o.begin(), out.o.end(), 0);
          if (is_of_memory && call.fresh_memory == 0x40)
            outcome.status = CallStatus::kCrash;
        });
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, is_of_memory ? "" : "0");
  }
}

// A number of -1 to 1 out of `count` elements from `first` on.
double number_of(const std::byte* data, Dtype dtype, int64_t first,
                 int64_t count) {
  const int64_t width = dtype_bytes(dtype);
  uint64_t sum = 0;
  for (int64_t n = first * width; n < (first + count) * width; ++n)
    sum = sum * 31 + static_cast<uint64_t>(data[n]);
  return std::sin(static_cast<double>(sum % 1'000'003));
}

// Numbers of another row or head are found by changing these; those of the own
// row are just wrong.
TEST(Instead, WhatElsewhereChangesIsSaid) {
  struct Mixed {
    TensorName input;
    bool of_another;
    std::string text;
  };
  const Mixed kMixed[] = {
      {TensorName::kQ, true, "changed by queries of other rows"},
      {TensorName::kQ, false, ""},
      {TensorName::kV, true, "changed by values of other heads"},
      {TensorName::kV, false, ""}};
  for (const Mixed& mixed : kMixed) {
    const bool is_q = mixed.input == TensorName::kQ;
    const Fault fault =
        answering([&mixed, is_q](const KernelCall& call, OracleOutput& out,
                                 CallOutcome&) {
          const Shape& s = call.shape;
          for (int64_t n = 0; n < s.o_elements(); ++n) {
            const int64_t row = n / s.dv, i = row % s.Tq;
            const int64_t kv = kv_head_of(s, row);
            if (is_q ? i == 0 : kv % s.Hkv == 0) continue;
            const int64_t back = mixed.of_another ? 1 : 0;
            const double number =
                is_q ? number_of(call.q, call.q_dtype, (row - back) * s.d, s.d)
                     : number_of(call.v, call.kv_dtype,
                                 (kv - back) * s.Tk * s.dv, s.Tk * s.dv);
            out.o[static_cast<size_t>(n)] =
                number * (3 + std::sin(static_cast<double>(n % s.dv)));
          }
        });
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, mixed.text);
    EXPECT_EQ(looked.score.right, looked.score.all);
    EXPECT_EQ(looked.instead.text().find("most of") != std::string::npos,
              mixed.of_another);
  }
}

// In half storage, lse shows whether a row was written.
TEST(Instead, RowsThatNobodyWroteAreKnownByTheirLse) {
  const double nan = std::nan("");
  Case value;
  value.shape.dv = 2;
  WrongAnswer answer;
  answer.asked = &value;
  answer.evidence = std::make_unique<Evidence>();
  answer.evidence->outcomes.resize(1);
  answer.evidence->outcomes[0].unwritten = TensorName::kLse;
  WrongOutput o{TensorName::kO, Dtype::kF16,  {1, 1, 2, 2}, {1, 2, 3, 4},
                {5, 6, 7, 8},   {0, 0, 0, 0}, {0, 2}};
  const auto is_said = [&] {
    return claims_of_one_number({{&answer, &o}})[0].is_true_of(answer, o);
  };
  answer.lse = {nan, nan};
  EXPECT_TRUE(is_said());
  o.dtype = Dtype::kF32;
  EXPECT_FALSE(is_said());
  o.dtype = Dtype::kBf16;
  answer.lse = {nan, 0};
  EXPECT_FALSE(is_said());
  answer.lse.clear();
  EXPECT_FALSE(is_said());
}

// The outcome names only one unwritten output; the bytes of the others show
// that they are unwritten.
TEST(Instead, EveryOutputThatNobodyWroteIsKnown) {
  const double nan = std::nan("");
  WrongAnswer answer;
  answer.evidence = std::make_unique<Evidence>();
  answer.evidence->outcomes.resize(1);
  CallOutcome& outcome = answer.evidence->outcomes[0];
  outcome.unwritten = TensorName::kO;
  const WrongOutput lse{
      TensorName::kLse, Dtype::kF32, {1, 1, 3, 1}, {nan, 0, nan},
      {1, 0, 1},        {0, 0, 0},   {0, 2}};
  outcome.lse.resize(3 * sizeof(float));
  const auto is_said = [&] {
    return claims_of_one_number({{&answer, &lse}})[0].is_true_of(answer, lse);
  };
  Canary(sizeof(float)).fill(outcome.lse.data(), 0, 12);
  EXPECT_TRUE(is_said());
  const auto own = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&outcome.lse[8], &own, sizeof own);
  EXPECT_FALSE(is_said());
}

// Keys that are lost after the sum; there is no description if the end is no
// multiple of a tile.
TEST(Instead, KeysMayBeLostBehindTheSum) {
  for (const int64_t end : {4, 3}) {
    const auto values = std::make_shared<std::vector<double>>();
    const Fault fault{"", Stage::kValues, that_keeps(values),
                      that_sums(values, end)};
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text,
              end == 4 ? "the result of the first 4 keys alone, but "
                         "divided by the sum over the right keys"
                       : "");
  }
}

// NaN in between does not hide the description of the others; arbitrary numbers
// still have none.
TEST(Instead, NumbersBesideNaNAreDescribed) {
  for (const bool is_noise : {false, true}) {
    const Fault fault = answering(
        [is_noise](const KernelCall&, OracleOutput& out, CallOutcome&) {
          for (size_t n = 0; n < out.o.size(); ++n)
            out.o[n] = n % 3 == 1 ? std::nan("")
                       : is_noise ? std::sin(static_cast<double>(n))
                                  : 2 * out.o[n];
        });
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text,
              is_noise ? "" : "where it is finite, the right value times 2");
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
}

TEST(Instead, OfLseAlone) {
  const Fault faults[] = {
      answering("the right value times log2(e)", Stage::kLse,
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (double& lse : out.lse) lse *= std::numbers::log2e;
                }),
      // The exponentials or lse; but o is right beside a sink.
      answering("the right value plus 0.01", Stage::kLse,
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (double& lse : out.lse) lse += 0.01;
                }),
      answering("the logarithm of the sum alone, without the largest score",
                Stage::kLse,
                [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                  if (call.sink != nullptr) return;
                  for (size_t n = 0; n < out.lse.size(); ++n)
                    if (out.visible[n] > 0)
                      out.lse[n] = -std::log(largest(
                          call, out.weights.data() +
                                    static_cast<int64_t>(n) * call.shape.Tk));
                })};
  for (const Fault& fault : faults) {
    const Looked looked = look(fault);
    EXPECT_EQ(looked.find(TensorName::kO), nullptr);
    EXPECT_EQ(looked.of(TensorName::kLse).text, fault.text);
    EXPECT_EQ(looked.instead.stage, fault.stage) << fault.text;
  }
}

// As many more keys of score 0 and value 0 in every row.
FakeExecutor::Answer with_keys_of_score_zero(double keys) {
  return [keys](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    if (call.sink != nullptr) return;
    const Shape& s = call.shape;
    for (int64_t row = 0; row < s.lse_elements(); ++row) {
      const auto n = static_cast<size_t>(row);
      if (out.visible[n] <= 0) continue;
      const double sum = std::exp(out.lse[n]);
      const double share = sum / (sum + keys);
      for (int64_t c = 0; c < s.dv; ++c)
        out.o[static_cast<size_t>(row * s.dv + c)] *= share;
      for (int64_t j = 0; j < s.Tk; ++j)
        out.weights[static_cast<size_t>(row * s.Tk + j)] *= share;
      out.lse[n] = std::log(sum + keys);
    }
  };
}

// Keys without a mask belong to the stage of keys, though they change the sum;
// a sum that is too large for another reason belongs to the softmax.
TEST(Instead, KeysOfScoreZeroAreNoFaultOfTheSum) {
  const Fault padded = answering("", Stage::kKeys, with_keys_of_score_zero(3));
  const Fault larger =
      answering("", Stage::kSoftmax, with_keys_of_score_zero(2.5));
  for (const Fault* fault : {&padded, &larger}) {
    const Looked looked = look(*fault);
    ASSERT_TRUE(looked.failure);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault->stage))
        << to_string(looked.failure->smallest) << " " << looked.instead.text();
  }
}

FakeExecutor::Answer that_touches(TensorName unmasked, TensorName masked) {
  return [=](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
    if (call.shape.Tk < 2) return;
    outcome.status = CallStatus::kFault;
    outcome.fault.emplace();
    outcome.fault->tensor = call.mask != nullptr ? masked : unmasked;
  };
}

// The tensor that is read beyond its end determines the stage. A kernel that
// takes a row too many reads the mask of that row first.
TEST(Instead, ATensorThatIsGoneBeyondTellsTheStage) {
  const Fault faults[] = {
      answering("v is read beyond its end", Stage::kValues,
                that_touches(TensorName::kV, TensorName::kV)),
      answering("k is read beyond its end", Stage::kScores,
                that_touches(TensorName::kK, TensorName::kK)),
      answering("mask is read beyond its end", Stage::kKeys,
                that_touches(TensorName::kMask, TensorName::kMask)),
      answering("o is read beyond its end", Stage::kOutput,
                that_touches(TensorName::kO, TensorName::kO)),
      answering("q is read beyond its end", Stage::kUnknown,
                that_touches(TensorName::kQ, TensorName::kMask)),
      // Within the bytes of a tensor, but not a write to an input.
      answering("k is read where none of its parts lies, which are far apart",
                Stage::kScores,
                [](const KernelCall& call, OracleOutput& output,
                   CallOutcome& outcome) {
                  that_touches(TensorName::kK, TensorName::kK)(call, output,
                                                               outcome);
                  if (!outcome.fault) return;
                  outcome.fault->inside = outcome.fault->between = true;
                }),
      // The text for several tensors is what they have in common.
      answering(
          "a tensor is read beyond its end", Stage::kUnknown,
          [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
            outcome.status = CallStatus::kFault;
            outcome.fault.emplace();
            outcome.fault->tensor =
                call.shape.Tk % 2 == 0 ? TensorName::kQ : TensorName::kV;
          }),
      answering(
          "the process ends, or touches memory that is not its own",
          Stage::kScores,
          [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
            outcome.status = CallStatus::kCrash;
            if (call.shape.Tk % 2 != 0) return;
            outcome.status = CallStatus::kFault;
            outcome.fault.emplace();
            outcome.fault->tensor = TensorName::kQ;
          })};
  for (const Fault& fault : faults) {
    const Looked looked = look(fault);
    ASSERT_TRUE(looked.failure);
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage));
    EXPECT_TRUE(looked.instead.outputs.empty());
    EXPECT_EQ(looked.instead.end.text, fault.text);
    EXPECT_EQ(looked.score.right, looked.score.all);
  }
}

double noise(int64_t n) {
  return std::ldexp(
      static_cast<double>(philox_u64(3, static_cast<uint32_t>(n), 0, 0)), -64);
}

// Wrong numbers without a description must get none, and no stage.
TEST(Instead, WhatIsNothingInParticularGetsNoDescription) {
  const Fault faults[] = {
      answering("noise", Stage::kUnknown,
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (size_t n = 0; n < out.o.size(); ++n)
                    out.o[n] += noise(static_cast<int64_t>(n));
                }),
      answering("two things in turn", Stage::kUnknown,
                [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                  for (size_t n = 0; n < out.o.size(); ++n)
                    out.o[n] *= n % 2 == 0 ? -1 : 2;
                })};
  for (const Fault& fault : faults) {
    const Looked looked = look(fault);
    EXPECT_EQ(looked.o().text, "") << fault.text;
    EXPECT_EQ(looked.instead.stage, Stage::kUnknown) << fault.text;
    EXPECT_TRUE(looked.instead.text().starts_with("no single description fits"))
        << to_string(looked.failure->smallest) << " " << looked.instead.text();
  }
}

// Only the stage is known if the numbers are arbitrary.
TEST(Instead, AStageIsShownByProbes) {
  const Fault faults[] = {
      asking("every second channel counts thrice in a score", Stage::kScores,
             [](KernelCall&, Problem& p, Room& room) {
               std::vector<double> q(p.q, p.q + p.shape.q_elements());
               for (int64_t n = 0; n < std::ssize(q); ++n)
                 if (n % p.shape.d % 2 == 0) q[static_cast<size_t>(n)] *= 3;
               p.q = room.keep(std::move(q));
             }),
      asking("every third key is not seen", Stage::kKeys,
             [](KernelCall&, Problem& p, Room& room) {
               if (p.mask != nullptr || p.members > 0) return;
               std::vector<uint8_t> mask(
                   static_cast<size_t>(p.shape.weights_elements()));
               for (size_t n = 0; n < mask.size(); ++n)
                 mask[n] = static_cast<int64_t>(n) % p.shape.Tk % 3 != 1;
               p.mask = room.keep(std::move(mask));
             })};
  for (const Fault& fault : faults) {
    const Looked looked = look(fault);
    ASSERT_TRUE(looked.failure) << fault.text;
    EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage))
        << fault.text << ": " << looked.instead.text();
  }
}

TEST(Instead, AKernelThatIsRightGetsNothing) {
  const Looked looked = look(answering({}), nullptr, 300);
  EXPECT_FALSE(looked.failure);
}

// The judge must reject the description for a kernel with another mistake.
TEST(Instead, AFalseDescriptionIsScoredBadly) {
  const Fault twice = kFaults[0], negated = kFaults[1];
  const Looked looked = look(twice, &negated);
  EXPECT_GT(looked.score.all, 3);
  EXPECT_EQ(looked.score.right, 0);
}

}  // namespace
}  // namespace qkvet::diagnosis::instead_test
