// SPDX-License-Identifier: Apache-2.0
// Invariants of every kernel that no law tests: the calls of laws have no
// windows of the largest counts, and rows past the lengths are not compared.
// Each kernel is compared with itself, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::forward_facts_test {
namespace {

using A = qkvet_forward_args;

std::vector<const qkvet_kernel*> takers(uint64_t options) {
  std::vector<const qkvet_kernel*> kernels = attention_kernels();
  std::erase_if(kernels, [options](const qkvet_kernel* kernel) {
    return (options & ~kernel->capabilities->options) != 0;
  });
  EXPECT_GE(kernels.size(), 2u);
  return kernels;
}

// Whether the call reproduces the bits of an earlier one.
bool gives_the_same(const qkvet_kernel* kernel, const A& args, Tensors& t) {
  t.remember();
  Reason why;
  OpenKernel open(kernel);
  EXPECT_EQ(open.forward(args, &why.text), QKVET_OK)
      << kernel->name << " " << why.room;
  return t.unchanged();
}

void answer(const qkvet_kernel* kernel, const A& args) {
  OpenKernel open(kernel);
  ASSERT_EQ(open.forward(args, nullptr), QKVET_OK) << kernel->name;
}

// The largest counts that fit into the field: no sum overflows.
TEST(ForwardFacts, NoWindowIsTooWide) {
  for (const qkvet_kernel* kernel : takers(QKVET_OPTION_WINDOW)) {
    Tensors t;
    A args = forward_call(t, QKVET_OPTION_WINDOW);
    args.window_left = args.window_right = 100;
    answer(kernel, args);
    args.window_left = args.window_right = INT64_MAX;
    EXPECT_TRUE(gives_the_same(kernel, args, t)) << kernel->name;
  }
}

// The last row of member 0, or of a packed batch.
TEST(ForwardFacts, RowsBeyondTheLengthsAreNotWritten) {
  constexpr float kBefore = -77;
  for (const uint64_t option : {QKVET_OPTION_LENGTHS, QKVET_OPTION_PACKED}) {
    for (const qkvet_kernel* kernel : takers(option)) {
      Tensors t;
      A args = forward_call(t, option);
      if (option == QKVET_OPTION_PACKED) {
        args.cu_seqlens_q = t.list<int64_t>({0, 2, 3});
      }
      auto* const o = static_cast<float*>(args.o.data);
      auto* const lse = static_cast<float*>(args.lse.data);
      std::fill_n(o, 12, kBefore);
      std::fill_n(lse, 4, kBefore);
      answer(kernel, args);
      EXPECT_NE(o[8], kBefore) << kernel->name;
      EXPECT_NE(lse[2], kBefore) << kernel->name;
      for (int c = 9; c < 12; ++c) {
        EXPECT_EQ(o[c], kBefore) << kernel->name;
      }
      EXPECT_EQ(lse[3], kBefore) << kernel->name;
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::forward_facts_test
