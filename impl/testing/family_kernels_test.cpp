// SPDX-License-Identifier: Apache-2.0
// Every correct kernel of every family on a few hundred shapes against a small
// reference in double, behind guard pages.
//
// Tolerance: an element of o may be off by kRelative * (1 + largest score) *
// largest value, an lse by kRelative * (1 + largest score). Roundings of a
// score are in proportion to its size and move o by at most as much times v;
// kRelative is 48 units of 2^-24, some times what these shapes need.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "impl/testing/family_fixture.h"
#include "impl/testing/family_problems.h"

namespace qkvet::impl::family_kernels_test {
namespace {

constexpr double kRelative = 48 * 0x1p-24;
const int kProblems = count_of(48);

// Written so that NaN fails; infinities must be equal.
bool is_near(double actual, double expected, double tolerance) {
  return actual == expected || std::fabs(actual - expected) <= tolerance;
}

// Index of the first output that is off, or -1.
int64_t first_error(const Call& call, const Expected& expected) {
  const std::vector<float> actual = call.outputs();
  const auto row = static_cast<size_t>(call.problem.value_width + 1);
  for (size_t n = 0; n < actual.size(); ++n) {
    const bool is_lse = n % row == row - 1;
    const double tolerance = kRelative * (1 + expected.largest_score) *
                             (is_lse ? 1 : expected.largest_value);
    if (!is_near(actual[n], expected.outputs[n], tolerance)) {
      return static_cast<int64_t>(n);
    }
  }
  return -1;
}

// Elements between the rows of an output still hold the NaN of Call::args().
bool gaps_are_untouched(Call* call) {
  if (call->problem.layout != Layout::kGaps) {
    return true;
  }
  const int64_t used = call->problem.value_width;
  for (int64_t n = 0; n < call->o.count(); ++n) {
    if (n % (used + 3) >= used && !std::isnan(call->o.begin()[n])) {
      return false;
    }
  }
  return true;
}

TEST(FamilyKernels, AgreeWithDoubleOnManyShapes) {
  const std::vector<const qkvet_kernel*> kernels = correct_kernels();
  ASSERT_GE(kernels.size(), 21u);
  for (uint64_t n = 0; n < uint64_t(kProblems); ++n) {
    Call call(problem_number(n));
    const Expected expected = expected_of(call);
    for (const qkvet_kernel* kernel : kernels) {
      OpenKernel open(kernel);
      ASSERT_EQ(open.forward(call.args()), QKVET_OK) << open.reason().room;
      const int64_t at = first_error(call, expected);
      ASSERT_EQ(at, -1) << kernel->name << " " << call.problem.text()
                        << "\n  actual " << call.outputs()[size_t(at)]
                        << " expected " << expected.outputs[size_t(at)];
      ASSERT_TRUE(gaps_are_untouched(&call)) << kernel->name;
    }
  }
}

TEST(FamilyKernels, LseIsOptional) {
  Call call({.heads = 2, .queries = 5, .keys = 5, .causal = 1});
  const Expected expected = expected_of(call);
  for (const qkvet_kernel* kernel : correct_kernels()) {
    OpenKernel open(kernel);
    qkvet_forward_args args = call.args();
    args.lse = {};
    ASSERT_EQ(open.forward(args), QKVET_OK) << kernel->name;
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(std::isnan(call.lse.at(0, 0, i)));
      EXPECT_NEAR(call.o.at(0, 0, i), expected.outputs[size_t(2 * i)], kRoom);
    }
  }
}

// K and V of one head of size 1, broadcast to all heads and members by strides
// of 0 that no extent of 1 excuses.
TEST(FamilyKernels, ReadBroadcastInputs) {
  Problem p = {.batch = 2,
               .heads = 4,
               .kv_heads = 4,
               .queries = 9,
               .keys = 20,
               .width = 17,
               .value_width = 9};
  Call call(p);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t j = 0; j < p.keys; ++j) {
        for (int64_t c = 0; c < p.width; ++c) {
          call.k.at(b, h, j, c) = call.k.at(0, 0, j, 0);
        }
      }
    }
  }
  const Expected expected = expected_of(call);
  int64_t strides[4] = {0, 0, p.width, 0};
  for (const qkvet_kernel* kernel : correct_kernels()) {
    OpenKernel open(kernel);
    qkvet_forward_args args = call.args();
    args.k.strides = strides;
    ASSERT_EQ(open.forward(args), QKVET_OK);
    EXPECT_EQ(first_error(call, expected), -1) << kernel->name;
  }
}

std::vector<uint32_t> bits_until_row(const Call& call, int64_t row) {
  std::vector<uint32_t> bits;
  for (int64_t b = 0; b < call.problem.batch; ++b) {
    for (int64_t h = 0; h < call.problem.heads; ++h) {
      for (int64_t i = 0; i <= row; ++i) {
        for (int64_t c = 0; c < call.problem.value_width; ++c) {
          bits.push_back(std::bit_cast<uint32_t>(call.o.at(b, h, i, c)));
        }
        bits.push_back(std::bit_cast<uint32_t>(call.lse.at(b, h, i)));
      }
    }
  }
  return bits;
}

void fill_keys_from(Call* call, int64_t first, float key, float value) {
  const Problem& p = call->problem;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      for (int64_t j = first; j < p.keys; ++j) {
        for (int64_t c = 0; c < p.width; ++c) {
          call->k.at(b, h, j, c) = key;
        }
        for (int64_t c = 0; c < p.value_width; ++c) {
          call->v.at(b, h, j, c) = value;
        }
      }
    }
  }
}

// What stands at keys behind row `row` must not change one bit up to it: not
// a large value, not the sign of a zero next to outputs that are -0 or vanish,
// and, as the dialect says, not NaN.
TEST(FamilyKernels, MaskedKeysContributeNothing) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kTiny = -1e-45f;
  int checked = 0;
  for (uint64_t n = 0; n < uint64_t(kProblems); ++n) {
    const Problem p = problem_number(n);
    const int64_t row = int64_t(hash(n, 99) % uint64_t(p.queries));
    if (p.visible(row) == p.keys) {
      continue;
    }
    ++checked;
    Call call(p);
    for (int64_t j = 0; n % 4 == 0 && j < p.keys; ++j) {
      for (int64_t c = 0; c < p.value_width; ++c) {
        call.v.at(0, 0, j, c) = kTiny;
      }
    }
    for (const qkvet_kernel* kernel : correct_kernels()) {
      if ((kernel->capabilities->flags & QKVET_FLAG_OTHER_DATA_INVARIANT) ==
          0) {
        continue;  // another path is as right
      }
      OpenKernel open(kernel);
      fill_keys_from(&call, p.visible(row), 1, -0.0f);
      ASSERT_EQ(open.forward(call.args()), QKVET_OK);
      const std::vector<uint32_t> before = bits_until_row(call, row);
      for (const float other : {0.0f, -3e18f, kNan}) {
        fill_keys_from(&call, p.visible(row), other, other);
        ASSERT_EQ(open.forward(call.args()), QKVET_OK);
        ASSERT_EQ(bits_until_row(call, row), before)
            << kernel->name << " " << p.text() << " row " << row;
      }
    }
  }
  EXPECT_GE(checked, kProblems * 3 / 16);
}

TEST(FamilyKernels, VisibleNanIsContagiousInItsRowsOnly) {
  Call call({.heads = 2,
             .kv_heads = 2,
             .queries = 20,
             .keys = 20,
             .width = 9,
             .value_width = 11,
             .causal = QKVET_CAUSAL_TOP_LEFT});
  call.k.at(0, 1, 13, 3) = std::numeric_limits<float>::quiet_NaN();
  for (const qkvet_kernel* kernel : correct_kernels()) {
    OpenKernel open(kernel);
    ASSERT_EQ(open.forward(call.args()), QKVET_OK);
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_FALSE(std::isnan(call.o.at(0, 0, i, 10))) << kernel->name;
      EXPECT_EQ(std::isnan(call.o.at(0, 1, i, 10)), i >= 13) << kernel->name;
      EXPECT_EQ(std::isnan(call.lse.at(0, 1, i)), i >= 13) << kernel->name;
    }
  }
}

// For the kernels that return weights.
void expect_weights_of(const char* name) {
  OpenKernel open(find_kernel(name));
  for (uint64_t n = 0; n < uint64_t(kProblems); n += 4) {
    Call call(problem_number(n));
    const Problem& p = call.problem;
    GuardedTensor weights({p.batch, p.heads, p.queries, p.keys}, p.layout,
                          p.place);
    weights.fill(std::numeric_limits<float>::quiet_NaN());
    qkvet_forward_args args = call.args();
    args.weights = weights.tensor();
    ASSERT_EQ(open.forward(args), QKVET_OK);
    for (int64_t i = 0; i < p.queries; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < p.keys; ++j) {
        const float w = weights.at(p.batch - 1, p.heads - 1, i, j);
        sum += double(w);
        ASSERT_TRUE(j < p.visible(i) ? w >= 0 : w == 0) << p.text();
      }
      ASSERT_NEAR(sum, p.visible(i) > 0 ? 1 : 0, 2e-5) << p.text();
    }
  }
}

TEST(FamilyKernels, WeightsSumToOneAndAreZeroWhereMasked) {
  for (const char* name :
       {"scalar/plain", "controls/naive", "controls/split4_lse",
        "controls/norm_first", "controls/online1"}) {
    expect_weights_of(name);
  }
  Call call({});
  for (const qkvet_kernel* kernel : correct_kernels()) {
    qkvet_forward_args args = call.args();
    GuardedTensor weights({1, 1, 1, 1}, Layout::kBhtd, Placement::kEndFlush);
    args.weights = weights.tensor();
    const bool declared =
        (kernel->capabilities->options & QKVET_OPTION_WEIGHTS) != 0;
    EXPECT_EQ(kernel->supports(kernel, &args, nullptr),
              declared ? QKVET_OK : QKVET_UNSUPPORTED)
        << kernel->name;
  }
}

}  // namespace
}  // namespace qkvet::impl::family_kernels_test
