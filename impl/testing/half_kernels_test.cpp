// SPDX-License-Identifier: Apache-2.0
// Every correct kernel that takes half storage, in f16 and in bf16: against
// doubles on the values that the tensors really hold, behind guard pages, and
// against its own f32 result on those values.
//
// Tolerance of an element of o: its own rounding, u |o|, and for kernels that
// round P another u * largest value for each of two roundings; the rest as in
// family_kernels_test.cpp. A smoke test: kernels are judged elsewhere.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "impl/testing/family_fixture.h"
#include "impl/testing/family_problems.h"

namespace qkvet::impl::half_kernels_test {
namespace {

constexpr Storage kHalves[] = {Storage::kF16, Storage::kBf16};
constexpr double kRelative = 48 * 0x1p-24;
const int kProblems = count_of(24);

double unit_of(Storage type) {
  return type == Storage::kF16 ? 0x1p-11 : 0x1p-8;
}

double least_of(Storage type) {  // half of the smallest subnormal
  return type == Storage::kF16 ? 0x1p-25 : 0x1p-134;
}

// Index of the first output that is off, or -1. NaN is off.
int64_t first_error(const HalfCall& call, const Expected& expected,
                    const qkvet_kernel& kernel) {
  const std::vector<float> actual = call.outputs();
  const Problem& p = call.wide.problem;
  const auto row = static_cast<size_t>(p.value_width + 1);
  const double u = unit_of(call.type);
  const double f32 = kRelative * (1 + expected.largest_score);
  const double weights =
      rounds_p(kernel)
          ? 2 * u + 2 * least_of(call.type) * static_cast<double>(p.keys)
          : 0;
  for (size_t n = 0; n < actual.size(); ++n) {
    const bool is_lse = n % row == row - 1;
    const double exact = expected.outputs[n];
    const double tolerance = is_lse ? f32 + weights
                                    : (f32 + weights) * expected.largest_value +
                                          1.01 * u * std::fabs(exact) +
                                          least_of(call.type);
    if (!(actual[n] == exact || std::fabs(actual[n] - exact) <= tolerance)) {
      return static_cast<int64_t>(n);
    }
  }
  return -1;
}

bool gaps_are_untouched(HalfCall* call) {
  if (call->wide.problem.layout != Layout::kGaps) {
    return true;
  }
  const int64_t used = call->wide.problem.value_width;
  for (int64_t n = 0; n < call->o.count(); ++n) {
    if (n % (used + 3) >= used &&
        !std::isnan(from_half(call->type, call->o.begin()[n]))) {
      return false;
    }
  }
  return true;
}

TEST(HalfKernels, AgreeWithDoubleOnManyShapes) {
  for (const Storage type : kHalves) {
    const std::vector<const qkvet_kernel*> kernels = correct_kernels(type);
    ASSERT_GE(kernels.size(), 22u);
    for (uint64_t n = 0; n < uint64_t(kProblems); ++n) {
      HalfCall call(problem_number(n), type);
      const Expected expected = expected_of(call.wide);
      for (const qkvet_kernel* kernel : kernels) {
        OpenKernel open(kernel);
        const qkvet_forward_args args = call.args();
        ASSERT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
        ASSERT_EQ(open.forward(args), QKVET_OK) << open.reason().room;
        const int64_t at = first_error(call, expected, *kernel);
        ASSERT_EQ(at, -1) << kernel->name << " " << dtype_named(type).code
                          << " " << call.wide.problem.text() << "\n  actual "
                          << call.outputs()[size_t(at)] << " expected "
                          << expected.outputs[size_t(at)];
        ASSERT_TRUE(gaps_are_untouched(&call)) << kernel->name;
      }
    }
  }
}

// Nothing is rounded to half storage but o: the bits are those of the f32 call
// on the same values, rounded once.
TEST(HalfKernels, AreTheirF32SelvesRoundedOnce) {
  int compared = 0;
  for (const Storage type : kHalves) {
    for (uint64_t n = 0; n < uint64_t(kProblems); ++n) {
      HalfCall call(problem_number(n), type);
      for (const qkvet_kernel* kernel : correct_kernels(type)) {
        if (!takes(kernel, Storage::kF32)) {
          continue;
        }
        ++compared;
        OpenKernel open(kernel);
        ASSERT_EQ(open.forward(call.wide.args()), QKVET_OK);
        const std::vector<float> wide = call.wide.outputs();
        ASSERT_EQ(open.forward(call.args()), QKVET_OK);
        const std::vector<float> half = call.outputs();
        const auto row = static_cast<size_t>(call.wide.problem.value_width + 1);
        for (size_t at = 0; at < half.size(); ++at) {
          const bool is_lse = at % row == row - 1;
          const float right = is_lse ? wide[at] : round_to(type, wide[at]);
          ASSERT_EQ(std::bit_cast<uint32_t>(half[at]),
                    std::bit_cast<uint32_t>(right))
              << kernel->name << " " << call.wide.problem.text();
        }
      }
    }
  }
  EXPECT_GE(compared, 2 * kProblems * 19);
}

// Behind row `row` there may be anything, NaN included.
TEST(HalfKernels, MaskedKeysContributeNothing) {
  constexpr float kOthers[] = {0, -3e4f, NAN};
  for (const Storage type : kHalves) {
    Problem p = {.batch = 1,
                 .heads = 2,
                 .kv_heads = 1,
                 .queries = 70,
                 .keys = 150,
                 .width = 17,
                 .value_width = 9,
                 .causal = QKVET_CAUSAL_BOTTOM_RIGHT};
    HalfCall call(p, type);
    constexpr int64_t kRow = 5;
    for (const qkvet_kernel* kernel : correct_kernels(type)) {
      if ((kernel->capabilities->flags & QKVET_FLAG_OTHER_DATA_INVARIANT) ==
          0) {
        continue;  // another path is as right
      }
      OpenKernel open(kernel);
      std::vector<uint32_t> before;
      for (const float other : kOthers) {
        for (int64_t j = p.visible(kRow); j < p.keys; ++j) {
          call.k.at(0, 0, j, 3) = to_half(type, other);
          call.v.at(0, 0, j, 3) = to_half(type, other);
        }
        ASSERT_EQ(open.forward(call.args()), QKVET_OK);
        std::vector<uint32_t> bits;
        for (int64_t c = 0; c < p.value_width; ++c) {
          bits.push_back(call.o.at(0, 1, kRow, c));
        }
        bits.push_back(std::bit_cast<uint32_t>(call.lse.at(0, 1, kRow)));
        ASSERT_TRUE(before.empty() || bits == before) << kernel->name;
        before = bits;
      }
      EXPECT_TRUE(std::isnan(from_half(type, call.o.at(0, 1, 69, 3))));
      call.store();
    }
  }
}

TEST(HalfKernels, ReturnedWeightsHaveTheTypeOfO) {
  OpenKernel open(find_kernel("scalar/plain"));
  for (const Storage type : kHalves) {
    HalfCall call({.heads = 2, .queries = 67, .keys = 90, .causal = 2}, type);
    const std::vector<int64_t> shape = {1, 2, 67, 90};
    GuardedHalf weights(shape, Layout::kGaps, Placement::kEndFlush,
                        dtype_named(type));
    GuardedTensor wide(shape, Layout::kBhtd, Placement::kEndFlush);
    qkvet_forward_args args = call.wide.args();
    args.weights = wide.tensor();
    ASSERT_EQ(open.forward(args), QKVET_OK);
    args = call.args();
    args.weights = wide.tensor();
    EXPECT_EQ(open.forward(args), QKVET_UNSUPPORTED);
    args.weights = weights.tensor();
    ASSERT_EQ(open.forward(args), QKVET_OK);
    for (int64_t i = 0; i < 67; ++i) {
      for (int64_t j = 0; j < 90; ++j) {
        ASSERT_EQ(from_half(type, weights.at(0, 1, i, j)),
                  round_to(type, wide.at(0, 1, i, j)));
      }
    }
  }
}

TEST(HalfKernels, LseIsOptional) {
  for (const Storage type : kHalves) {
    HalfCall call({.heads = 2, .queries = 5, .keys = 5, .causal = 1}, type);
    const Expected expected = expected_of(call.wide);
    for (const qkvet_kernel* kernel : correct_kernels(type)) {
      OpenKernel open(kernel);
      qkvet_forward_args args = call.args();
      args.lse = {};
      ASSERT_EQ(open.forward(args), QKVET_OK) << kernel->name;
      EXPECT_TRUE(std::isnan(call.lse.at(0, 0, 4)));
      EXPECT_NEAR(from_half(type, call.o.at(0, 0, 4)), expected.outputs[8],
                  4 * unit_of(type) * expected.largest_value);
    }
  }
}

// Every declared type is taken and no other, and nothing that is mixed.
TEST(HalfKernels, RefuseTypesThatTheyDoNotDeclare) {
  constexpr Storage kAll[] = {Storage::kF32, Storage::kF16, Storage::kBf16};
  using Member = qkvet_tensor qkvet_forward_args::*;
  constexpr Member kMembers[] = {&qkvet_forward_args::q, &qkvet_forward_args::k,
                                 &qkvet_forward_args::v,
                                 &qkvet_forward_args::o};
  Call call({.queries = 2, .keys = 3, .width = 4, .value_width = 5});
  for (const bool faulty : {false, true}) {
    for (const qkvet_kernel* kernel :
         kernels_that(faulty, [](const qkvet_kernel& k) {
           return k.forward != nullptr &&
                  (k.capabilities->flags & QKVET_FLAG_PAGES_ONLY) == 0 &&
                  k.capabilities->layouts != QKVET_LAYOUT_PACKED_QKV;
         })) {
      for (const Storage type : kAll) {
        qkvet_forward_args args = call.args();
        for (const Member member : kMembers) {
          (args.*member).dtype = dtype_named(type);
        }
        Reason why;
        EXPECT_EQ(kernel->supports(kernel, &args, &why.text),
                  takes(kernel, type) ? QKVET_OK : QKVET_UNSUPPORTED);
        EXPECT_EQ(std::string(why.room).empty(), takes(kernel, type));
        for (const Member member : kMembers) {
          for (const qkvet_dtype other :
               {dtype_named(type == Storage::kF16 ? Storage::kBf16
                                                  : Storage::kF16),
                qkvet_dtype{QKVET_DTYPE_FLOAT, 64, 1},
                qkvet_dtype{QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1},
                qkvet_dtype{QKVET_DTYPE_BFLOAT, 16, 2}}) {
            qkvet_forward_args mixed = args;
            (mixed.*member).dtype = other;
            Reason reason;
            EXPECT_EQ(kernel->supports(kernel, &mixed, &reason.text),
                      QKVET_UNSUPPORTED)
                << kernel->name;
            EXPECT_NE(std::string(reason.room), "");
          }
        }
        args.lse.dtype = dtype_named(Storage::kBf16);
        EXPECT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_UNSUPPORTED);
      }
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::half_kernels_test
