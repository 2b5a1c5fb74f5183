// SPDX-License-Identifier: Apache-2.0
// Dropout in the kernels that take it, beside every other option: o is what the
// returned weights and the returned mask make of the values, a mask does not
// change with what else is asked, and gradients drop the same.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "impl/testing/backward_fixture.h"
#include "impl/testing/options_problems.h"

namespace qkvet::impl::dropout_kernels_test {
namespace {

constexpr float kP = 0.25f;
constexpr uint8_t kUnset = 77;

// [B, H, Tq, Tk] of bytes, packed.
class MaskOutput {
 public:
  explicit MaskOutput(const Problem& p)
      : shape_{p.batch, p.heads, p.queries, p.keys},
        strides_{p.heads * p.queries * p.keys, p.queries * p.keys, p.keys, 1},
        bytes(static_cast<size_t>(p.batch * strides_[0]), kUnset) {}

  qkvet_tensor tensor() {
    qkvet_tensor t = {};
    t.data = bytes.data();
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = 4;
    t.dtype = {QKVET_DTYPE_UINT, 8, 1};
    t.shape = shape_;
    t.strides = strides_;
    return t;
  }
  uint8_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return bytes[static_cast<size_t>(b * strides_[0] + h * strides_[1] +
                                     i * strides_[2] + j)];
  }

 private:
  int64_t shape_[4], strides_[4];

 public:
  std::vector<uint8_t> bytes;
};

void drop(qkvet_forward_args* args, MaskOutput* mask) {
  args->dropout_p = kP;
  args->dropout_seed = 5;
  args->dropout_offset = 3;
  args->dropout_mask = mask->tensor();
}

bool takes_dropout(const qkvet_kernel* kernel) {
  return (kernel->capabilities->options & QKVET_OPTION_DROPOUT) != 0;
}

TEST(DropoutKernels, OutputIsThatOfTheMask) {
  const qkvet_kernel* const scalar = find_kernel("scalar/plain");
  ASSERT_TRUE(takes_dropout(scalar));
  int64_t rows = 0;
  for (const Asked& asked : all_calls(3)) {
    OptionCall call(asked, Storage::kF32);
    const Problem& p = asked.problem;
    MaskOutput mask(p);
    GuardedTensor weights({p.batch, p.heads, p.queries, p.keys}, Layout::kBhtd,
                          Placement::kEndFlush);
    weights.fill(0);
    for (const char* name : {"scalar/plain", "eigen/plain"}) {
      qkvet_forward_args args = call.args();
      drop(&args, &mask);
      const bool returns = std::strcmp(name, "scalar/plain") == 0;
      if (returns) {
        args.weights = weights.tensor();
      }
      OpenKernel open(find_kernel(name));
      ASSERT_EQ(open.forward(args), QKVET_OK) << open.reason().room;
      for (const OptionCall::Member& m : call.members()) {
        for (int64_t h = 0; h < p.heads; ++h) {
          for (int64_t i = m.row; i < m.row + m.rows; ++i) {
            ++rows;
            for (int64_t c = 0; c < p.value_width; ++c) {
              double exact = 0;
              for (int64_t j = m.key; j < m.key + m.keys; ++j) {
                const double factor =
                    mask.at(m.b, h, i, j) != 0 ? 1 / (1 - double(kP)) : 0;
                const int64_t kv = h / (p.heads / p.kv_heads);
                exact += factor * double(weights.at(m.b, h, i, j)) *
                         double(call.v.get(m.b, kv, j, c));
              }
              ASSERT_NEAR(call.o.get(m.b, h, i, c), exact, 4e-5)
                  << name << " " << asked.text();
            }
          }
        }
      }
    }
  }
  EXPECT_GE(rows, 10000);
}

// The mask is a function of seed, offset and place: not of what else is asked.
TEST(DropoutKernels, MasksAreThoseOfOtherKernelsAndOptions) {
  for (const uint64_t option : kOptions) {
    const Asked asked = asked_with(option, 0);
    Asked plain = asked_with(0, 0);
    plain.problem = asked.problem;
    MaskOutput with(asked.problem), without(asked.problem);
    OptionCall call(asked, Storage::kBf16), other(plain, Storage::kF32);
    qkvet_forward_args args = call.args(), other_args = other.args();
    drop(&args, &with);
    drop(&other_args, &without);
    ASSERT_EQ(OpenKernel(find_kernel("eigen/plain")).forward(args), QKVET_OK);
    ASSERT_EQ(OpenKernel(find_kernel("scalar/plain")).forward(other_args),
              QKVET_OK);
    EXPECT_EQ(with.bytes, without.bytes);
    int64_t kept = 0;
    for (const uint8_t one : with.bytes) {
      ASSERT_LE(one, 1);
      kept += one;
    }
    const auto share = double(kept) / double(with.bytes.size());
    EXPECT_NEAR(share, 1 - double(kP), 0.1);
    other_args.dropout_seed += 1;
    ASSERT_EQ(OpenKernel(find_kernel("scalar/plain")).forward(other_args),
              QKVET_OK);
    EXPECT_NE(with.bytes, without.bytes);
  }
}

// o is linear in v: the sum of dv v is that of do o.
TEST(DropoutKernels, GradientsDropTheSame) {
  int calls = 0;
  for (const char* name : {"scalar/plain", "eigen/plain"}) {
    for (const Asked& asked : all_calls(1)) {
      GradientCall call(asked, Storage::kF32);
      const Problem& p = asked.problem;
      MaskOutput forward_mask(p), backward_mask(p);
      qkvet_backward_args args = call.args();
      qkvet_forward_args forward = *args.forward;
      drop(&forward, &forward_mask);
      ASSERT_EQ(OpenKernel(find_kernel(name)).forward(forward), QKVET_OK);
      forward.dropout_mask = backward_mask.tensor();
      args.forward = &forward;
      ASSERT_EQ(run_backward(find_kernel(name), args).status, QKVET_OK);
      EXPECT_EQ(forward_mask.bytes, backward_mask.bytes);
      double of_values = 0, of_outputs = 0, size = 0;
      for (const OptionCall::Member& m : call.call.members()) {
        for (int64_t h = 0; h < p.kv_heads; ++h) {
          for (int64_t j = m.key; j < m.key + m.keys; ++j) {
            for (int64_t c = 0; c < p.value_width; ++c) {
              of_values += double(call.d_v.get(m.b, h, j, c)) *
                           double(call.call.v.get(m.b, h, j, c));
            }
          }
        }
        for (int64_t h = 0; h < p.heads; ++h) {
          for (int64_t i = m.row; i < m.row + m.rows; ++i) {
            for (int64_t c = 0; c < p.value_width; ++c) {
              const double term = double(call.d_o.get(m.b, h, i, c)) *
                                  double(call.call.o.get(m.b, h, i, c));
              of_outputs += term;
              size += std::fabs(term);
            }
          }
        }
      }
      EXPECT_NEAR(of_values, of_outputs, kRoom * (1 + size))
          << name << " " << asked.text();
      ++calls;
    }
  }
  EXPECT_GE(calls, 60);
}

}  // namespace
}  // namespace qkvet::impl::dropout_kernels_test
