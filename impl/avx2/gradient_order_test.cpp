// SPDX-License-Identifier: Apache-2.0
// The gradient of avx2/flash takes four rows and 64 keys together, in the order
// of sums of one row after the other. Under a mask it walks row by row, so a
// mask that hides nothing must not change a bit.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::gradient_order_test {
namespace {

struct Extents {
  int64_t queries, keys, width, value_width;
  int32_t causal = QKVET_CAUSAL_NONE;
  int64_t left = -1, right = -1;
};

constexpr Extents kCalls[] = {{1, 1, 1, 1},
                              {4, 64, 16, 16},
                              {71, 131, 20, 9},
                              {131, 71, 5, 33},
                              {70, 130, 24, 8, QKVET_CAUSAL_BOTTOM_RIGHT},
                              {67, 67, 16, 17, QKVET_CAUSAL_TOP_LEFT},
                              {90, 140, 12, 12, QKVET_CAUSAL_NONE, 3, 2},
                              {9, 200, 8, 8, QKVET_CAUSAL_BOTTOM_RIGHT, 70, 0}};

void append(const qkvet_tensor& t, std::vector<float>* all) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    count *= t.shape[axis];
  }
  const auto* const first = static_cast<const float*>(t.data);
  all->insert(all->end(), first, first + count);
}

std::vector<float> gradients_of(const qkvet_kernel* kernel, const Extents& e,
                                bool masked) {
  Tensors t;
  qkvet_forward_args f = {};
  f.struct_size = sizeof(f);
  f.q = t.make({1, 2, e.queries, e.width});
  f.k = t.make({1, 1, e.keys, e.width});
  f.v = t.make({1, 1, e.keys, e.value_width});
  f.o = t.make({1, 2, e.queries, e.value_width});
  f.lse = t.make({1, 2, e.queries});
  f.causal = e.causal;
  f.has_window = e.left >= 0 || e.right >= 0 ? 1 : 0;
  f.window_left = e.left;
  f.window_right = e.right;
  OpenKernel open(kernel);
  EXPECT_EQ(open.forward(f, nullptr), QKVET_OK);
  if (masked) f.mask = t.make({1, 2, e.queries, e.keys}, kBool);
  qkvet_backward_args a = {};
  a.struct_size = sizeof(a);
  a.forward = &f;
  a.d_o = t.make({1, 2, e.queries, e.value_width});
  a.d_q = t.make({1, 2, e.queries, e.width});
  a.d_k = t.make({1, 1, e.keys, e.width});
  a.d_v = t.make({1, 1, e.keys, e.value_width});
  EXPECT_EQ(
      kernel->backward->backward(kernel, open.context(), &a, nullptr, nullptr),
      QKVET_OK);
  std::vector<float> all;
  append(a.d_q, &all);
  append(a.d_k, &all);
  append(a.d_v, &all);
  return all;
}

TEST(GradientOrder, FourRowsTogetherGiveTheBitsOfOneAfterTheOther) {
  const qkvet_kernel* const kernel = find_kernel("avx2/flash");
  if (kernel == nullptr || OpenKernel(kernel).status() != QKVET_OK) {
    GTEST_SKIP() << "avx2/flash is not on this machine";
  }
  for (const Extents& e : kCalls) {
    const std::vector<float> together = gradients_of(kernel, e, false);
    const std::vector<float> apart = gradients_of(kernel, e, true);
    ASSERT_EQ(together.size(), apart.size());
    EXPECT_EQ(std::memcmp(together.data(), apart.data(),
                          apart.size() * sizeof(float)),
              0)
        << e.queries << " rows, " << e.keys << " keys";
  }
}

}  // namespace
}  // namespace qkvet::impl::gradient_order_test
