// SPDX-License-Identifier: Apache-2.0
// Every correct gradient of attention against doubles, and the doubles against
// differences of the forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/backward_fixture.h"
#include "impl/testing/family_problems.h"
#include "impl/testing/options_problems.h"
#include "impl/testing/rope_fixture.h"

namespace qkvet::impl::backward_kernels_test {
namespace {

const int kVariants = count_of(1);
const int kProblems = count_of(16);

double operands_of(const qkvet_kernel& kernel, Storage type) {
  return kernel.precision->p_dtype.bits == 0 ? 0 : 1.01 * unit_of(type);
}

std::vector<const qkvet_kernel*> takers(Storage type) {
  std::vector<const qkvet_kernel*> kernels = differentiable(/*faulty=*/false);
  std::erase_if(kernels, [type](const qkvet_kernel* kernel) {
    return !takes(kernel, type);
  });
  return kernels;
}

TEST(BackwardKernels, AreThere) {
  for (const char* name :
       {"scalar/plain", "eigen/plain", "controls/backward_from_columns",
        "controls/backward_recomputes_lse", "controls/backward_delta_from_p",
        "controls/backward_half_operands"}) {
    ASSERT_NE(find_kernel(name), nullptr) << name;
    EXPECT_NE(find_kernel(name)->backward, nullptr) << name;
  }
  EXPECT_GE(takers(Storage::kBf16).size(), 6u);
}

// d loss / d element, by differences of both sides.
double slope_at(GradientCall* call, AnyTensor* tensor, int64_t n) {
  const std::vector<int64_t>& s = tensor->shape();
  const int64_t at[] = {n / s[3] / s[2] / s[1], n / s[3] / s[2] % s[1],
                        n / s[3] % s[2], n % s[3]};
  const float x = tensor->get(at[0], at[1], at[2], at[3]);
  const float above = x + 0x1p-8f, below = x - 0x1p-8f;
  tensor->set(at[0], at[1], at[2], at[3], above);
  const double more = loss_of(*call);
  tensor->set(at[0], at[1], at[2], at[3], below);
  const double less = loss_of(*call);
  tensor->set(at[0], at[1], at[2], at[3], x);
  return (more - less) / (double(above) - double(below));
}

// Third derivatives of what is drawn here are below some tens.
constexpr double kDifference = 1e-3;

void expect_slopes(GradientCall* call, AnyTensor* tensor,
                   const std::vector<double>& exact, const char* name) {
  const std::vector<int64_t>& s = tensor->shape();
  const int64_t count = s[0] * s[1] * s[2] * s[3];
  ASSERT_EQ(count, int64_t(exact.size())) << name;
  for (int64_t n = 0; n < count; n += 1 + count / 40) {
    const double given = exact[size_t(n)] == double(OptionCall::kUnwritten)
                             ? 0
                             : exact[size_t(n)];
    ASSERT_NEAR(slope_at(call, tensor, n), given, kDifference)
        << name << " " << n << " " << call->call.asked.text();
  }
}

TEST(BackwardKernels, TheExpectationIsTheDerivativeOfTheForwardPass) {
  for (Asked asked : all_calls(/*variants=*/1)) {
    asked.problem.queries = std::min<int64_t>(asked.problem.queries, 9);
    asked.problem.keys = std::min<int64_t>(asked.problem.keys, 9);
    if (asked.has(QKVET_OPTION_PACKED)) {
      asked.cu_q.back() = asked.problem.queries;
      asked.cu_k.back() = asked.problem.keys;
    }
    for (int64_t& rows : asked.q_len) {
      rows = std::min(rows, asked.problem.queries);
    }
    for (int64_t& keys : asked.kv_len) {
      keys = std::min(keys, asked.problem.keys);
    }
    asked.own = kOwnAll;
    GradientCall call(asked, Storage::kF32);
    const Gradients exact = truth_of(call).exact;
    expect_slopes(&call, &call.call.q, exact.q, "q");
    expect_slopes(&call, &call.call.k, exact.k, "k");
    expect_slopes(&call, &call.call.v, exact.v, "v");
    if (asked.has(QKVET_OPTION_BIAS)) {
      expect_slopes(&call, &call.call.bias, exact.bias, "bias");
    }
    if (asked.has(QKVET_OPTION_SINK)) {
      expect_slopes(&call, &call.call.sink, exact.sink, "sink");
    }
  }
}

void expect_agreement(const qkvet_kernel* kernel, GradientCall* call) {
  const GradientTruth truth =
      truth_of(*call, operands_of(*kernel, call->call.type));
  const GradientAnswer answer = run_backward(kernel, call);
  ASSERT_EQ(answer.status, QKVET_OK) << kernel->name << " " << answer.reason;
  const int64_t at = first_error(answer.outputs, truth);
  ASSERT_EQ(at, -1) << kernel->name << " " << call->call.asked.text()
                    << " type " << int(call->call.type) << "\n  actual "
                    << answer.outputs[size_t(at)] << " expected "
                    << flat(truth.exact)[size_t(at)] << " allowed "
                    << flat(truth.allowed)[size_t(at)];
}

TEST(BackwardKernels, AgreeWithDoublesWithEveryOption) {
  for (const Storage type : kAllStorages) {
    for (const Asked& asked : all_calls(kVariants)) {
      GradientCall call(asked, type);
      for (const qkvet_kernel* kernel : takers(type)) {
        ASSERT_NO_FATAL_FAILURE(expect_agreement(kernel, &call));
      }
    }
  }
}

TEST(BackwardKernels, AgreeWithDoublesOnManyShapes) {
  for (const Storage type : kAllStorages) {
    for (uint64_t n = 0; n < uint64_t(kProblems); ++n) {
      Asked asked;
      asked.problem = problem_number(n);
      // Fewer pairs than a forward test can afford, and no scores that make
      // weights of one key out of every row.
      asked.problem.heads = std::min<int64_t>(asked.problem.heads, 4);
      asked.problem.kv_heads = asked.problem.heads == 4 ? 2 : 1;
      GradientCall call(asked, type);
      for (const qkvet_kernel* kernel : takers(type)) {
        ASSERT_NO_FATAL_FAILURE(expect_agreement(kernel, &call));
      }
    }
  }
}

// Rows and keys may be taken together; the order of every sum is that of one
// row after the other, which is how a mask that hides nothing is walked.
TEST(BackwardKernels, TogetherGivesTheBitsOfOneAfterTheOther) {
  const qkvet_kernel* const kernel = find_kernel("avx2/flash");
  if (kernel == nullptr || OpenKernel(kernel).status() != QKVET_OK) {
    GTEST_SKIP() << "avx2/flash is not on this machine";
  }
  struct Row {
    int64_t queries, keys, width, value_width, left, right;
    int32_t causal;
  };
  const Row rows[] = {{1, 1, 1, 1, -1, -1, QKVET_CAUSAL_NONE},
                      {4, 64, 16, 16, -1, -1, QKVET_CAUSAL_NONE},
                      {71, 131, 20, 9, -1, -1, QKVET_CAUSAL_NONE},
                      {131, 71, 5, 33, -1, -1, QKVET_CAUSAL_NONE},
                      {70, 130, 24, 8, -1, -1, QKVET_CAUSAL_BOTTOM_RIGHT},
                      {67, 67, 16, 17, -1, -1, QKVET_CAUSAL_TOP_LEFT},
                      {90, 140, 12, 12, 3, 2, QKVET_CAUSAL_NONE},
                      {9, 200, 8, 8, 70, 0, QKVET_CAUSAL_BOTTOM_RIGHT}};
  for (const Row& row : rows) {
    Asked asked;
    asked.problem = {.batch = 1,
                     .heads = 2,
                     .kv_heads = 1,
                     .queries = row.queries,
                     .keys = row.keys,
                     .width = row.width,
                     .value_width = row.value_width,
                     .causal = row.causal};
    asked.left = row.left;
    asked.right = row.right;
    asked.options = row.left >= 0 ? QKVET_OPTION_WINDOW : 0;
    GradientCall together(asked, Storage::kF32);
    asked.options |= QKVET_OPTION_MASK;
    GradientCall apart(asked, Storage::kF32);
    apart.call.mask.fill(1);
    const std::vector<float> all = run_backward(kernel, &together).outputs;
    const std::vector<float> each = run_backward(kernel, &apart).outputs;
    ASSERT_EQ(all.size(), each.size());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), each.begin()))
        << asked.text();
    EXPECT_EQ(first_error(all, truth_of(together)), -1) << asked.text();
  }
}

// A gradient that is 0, or that of another tensor, is off.
TEST(BackwardKernels, TheExpectationNoticesWhatIsMissing) {
  Asked asked = asked_with(QKVET_OPTION_BIAS | QKVET_OPTION_SINK, 1);
  GradientCall call(asked, Storage::kF32);
  const GradientTruth truth = truth_of(call);
  const Gradients& exact = truth.exact;
  const std::vector<float> outputs =
      run_backward(find_kernel("scalar/plain"), &call).outputs;
  ASSERT_EQ(first_error(outputs, truth), -1);
  size_t first = 0;
  for (const std::vector<double>* part :
       {&exact.q, &exact.k, &exact.v, &exact.bias, &exact.sink}) {
    ASSERT_FALSE(part->empty());
    for (const float other : {0.0f, -1.0f}) {
      std::vector<float> wrong = outputs;
      for (size_t n = first; n < first + part->size(); ++n) {
        wrong[n] *= other;
      }
      EXPECT_GE(first_error(wrong, truth), int64_t(first));
    }
    first += part->size();
  }
}

TEST(BackwardKernels, ExtentsOfZero) {
  for (const Storage type : kAllStorages) {
    for (const int empty : {0, 1, 2}) {
      Asked asked = asked_with(0, uint64_t(empty));
      (empty == 0   ? asked.problem.batch
       : empty == 1 ? asked.problem.queries
                    : asked.problem.keys) = 0;
      GradientCall call(asked, type);
      for (const qkvet_kernel* kernel : takers(type)) {
        const GradientAnswer answer = run_backward(kernel, &call);
        ASSERT_EQ(answer.status, QKVET_OK) << kernel->name;
        EXPECT_EQ(answer.outputs.empty(), empty == 0);
        for (const float value : answer.outputs) {
          ASSERT_EQ(value, 0) << kernel->name;
        }
      }
    }
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// NaN at keys that nobody sees, masked or beyond the lengths.
TEST(BackwardKernels, WhatNoRowSeesIsIgnored) {
  for (const Storage type : {Storage::kF32, Storage::kBf16}) {
    for (Asked asked : all_calls(/*variants=*/1)) {
      asked.own &= uint8_t(~kOwnQ);  // whole columns are masked
      GradientCall call(asked, type), poisoned(asked, type);
      poisoned.call.poison(/*masked_too=*/true);
      for (const qkvet_kernel* kernel : takers(type)) {
        const GradientAnswer clean = run_backward(kernel, &call);
        // o and lse of doubles, which do not pass NaN by.
        qkvet_backward_args args = poisoned.args();
        qkvet_forward_args forward = *args.forward;
        forward.o = call.call.o.tensor();
        forward.lse = call.call.lse.tensor();
        args.forward = &forward;
        ASSERT_EQ(run_backward(kernel, args).status, QKVET_OK);
        ASSERT_TRUE(same_bits(poisoned.outputs(), clean.outputs))
            << kernel->name << " " << asked.text();
      }
    }
  }
}

// Gradients of a rotated call are those of rotated q and k, turned back.
TEST(BackwardKernels, RotationsAreTurnedBack) {
  for (const int32_t style : {QKVET_ROPE_HALF, QKVET_ROPE_INTERLEAVED}) {
    Asked asked = asked_with(0, 2);
    Problem& p = asked.problem;
    p.width = 6;
    p.causal = QKVET_CAUSAL_BOTTOM_RIGHT;
    constexpr int64_t kFirst = 2;
    RopeTables rope(style, kFirst + p.queries + p.keys, p.width);
    RopeTables for_keys(style, kFirst + p.queries + p.keys, p.width);
    GradientCall call(asked, Storage::kF32), turned(asked, Storage::kF32);
    const auto turn = [&](const AnyTensor& from, AnyTensor* to) {
      const std::vector<int64_t>& n = from.shape();
      for (int64_t row = 0; row < n[0] * n[1] * n[2]; ++row) {
        const int64_t b = row / n[2] / n[1], h = row / n[2] % n[1];
        const int64_t t = row % n[2];
        for (int64_t c = 0; c < n[3]; ++c) {
          to->set(b, h, t, c,
                  static_cast<float>(
                      rope.turned(kFirst + t, c, [&](int64_t channel) {
                        return double(from.get(b, h, t, channel));
                      })));
        }
      }
    };
    turn(call.call.q, &turned.call.q);
    turn(call.call.k, &turned.call.k);
    for (const qkvet_kernel* kernel : takers(Storage::kF32)) {
      ASSERT_EQ(run_backward(kernel, &turned).status, QKVET_OK);
      qkvet_backward_args args = call.args();
      qkvet_forward_args forward = *args.forward;
      forward.o = turned.call.o.tensor();
      forward.lse = turned.call.lse.tensor();
      forward.rope = style;
      forward.rope_cos = rope.cos();
      forward.rope_sin = rope.sin();
      forward.q_positions = rope.positions(p.batch, p.queries, kFirst);
      forward.k_positions = for_keys.positions(p.batch, p.keys, kFirst);
      args.forward = &forward;
      const GradientAnswer answer = run_backward(kernel, args);
      ASSERT_EQ(answer.status, QKVET_OK) << answer.reason;
      // Turned forward, they are those of the rotated call.
      AnyTensor d_q(Storage::kF32, call.d_q.shape());
      AnyTensor d_k(Storage::kF32, call.d_k.shape());
      turn(call.d_q, &d_q);
      turn(call.d_k, &d_k);
      for (const auto& [actual, expected] :
           {std::pair{d_q.values(), turned.d_q.values()},
            std::pair{d_k.values(), turned.d_k.values()},
            std::pair{call.d_v.values(), turned.d_v.values()}}) {
        for (size_t n = 0; n < actual.size(); ++n) {
          ASSERT_NEAR(actual[n], expected[n], 2e-5) << kernel->name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::backward_kernels_test
