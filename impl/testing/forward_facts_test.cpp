// SPDX-License-Identifier: Apache-2.0
// What every kernel keeps to and no law asks: the calls of laws have no offsets
// in bytes, no windows of the largest counts and no rows whose biases are all
// -infinity, and rows beyond the lengths are not looked at. Each kernel is
// compared with itself, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

// Whether the call leaves the bits that are there, which another one wrote.
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

TEST(ForwardFacts, OffsetsAreInBytes) {
  for (const qkvet_kernel* kernel : attention_kernels()) {
    Tensors t;
    A args = forward_call(t);
    answer(kernel, args);
    uint64_t offset = 0;
    for (qkvet_tensor* tensor :
         {&args.q, &args.k, &args.v, &args.o, &args.lse}) {
      tensor->byte_offset = offset += 64;
      tensor->data = static_cast<char*>(tensor->data) - offset;
    }
    EXPECT_TRUE(gives_the_same(kernel, args, t)) << kernel->name;
  }
}

// Also in a row that sees no key.
TEST(ForwardFacts, ABiasOfMinusInfinityHidesAsAMaskDoes) {
  int checked = 0;
  for (const qkvet_kernel* kernel :
       takers(QKVET_OPTION_MASK | QKVET_OPTION_BIAS)) {
    const qkvet_dialect& d = *kernel->dialect;
    if (d.empty_row != QKVET_EMPTY_ROW_ZERO || d.empty_row_by_mask != 0 ||
        d.empty_row_lse != QKVET_EMPTY_LSE_MINUS_INF ||
        d.masked_nonfinite != QKVET_MASKED_IGNORED ||
        (kernel->capabilities->flags & QKVET_FLAG_MASK_OR_BIAS) != 0) {
      continue;
    }
    ++checked;
    Tensors t;
    A masked = forward_call(t, QKVET_OPTION_MASK | QKVET_OPTION_BIAS);
    A biased = masked;
    biased.mask = {};
    biased.bias = t.make({2, 2, 4, 5});
    auto* const shown = static_cast<uint8_t*>(masked.mask.data);
    auto* const bias = static_cast<float*>(biased.bias.data);
    for (int n = 0; n < 2 * 2 * 4 * 5; ++n) {
      const bool hidden = n % 3 == 0 || n / 5 % 4 == 2;  // and row 2
      shown[n] = hidden ? 0 : 1;
      bias[n] = hidden ? -std::numeric_limits<float>::infinity() : bias[n];
    }
    answer(kernel, masked);
    EXPECT_TRUE(gives_the_same(kernel, biased, t)) << kernel->name;
  }
  EXPECT_GE(checked, 2);
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
