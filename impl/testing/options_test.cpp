// SPDX-License-Identifier: Apache-2.0
// Every correct kernel with every option that it declares, alone and in pairs,
// against doubles. That the expectation notices an option is checked on each:
// without the option, or with the complement of the mask, kernels must be off.
//
// Tolerance: as in family_kernels_test.cpp and half_kernels_test.cpp; a smoke
// test, kernels are judged elsewhere.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "impl/testing/family_problems.h"
#include "impl/testing/options_fixture.h"
#include "impl/testing/options_problems.h"

namespace qkvet::impl::options_test {
namespace {

constexpr double kRelative = 48 * 0x1p-24;

bool declares(const qkvet_kernel* kernel, const Asked& asked) {
  const auto refuses = [kernel](uint64_t flag) {
    return (kernel->capabilities->flags & flag) != 0;
  };
  const bool mask = asked.has(QKVET_OPTION_MASK);
  const bool bias = asked.has(QKVET_OPTION_BIAS);
  const bool causal = asked.problem.causal != 0;
  return (asked.options & ~kernel->capabilities->options) == 0 &&
         !(mask && causal &&
           kernel->dialect->mask_and_causal == QKVET_MASK_AND_CAUSAL_REFUSED) &&
         !(mask && bias && refuses(QKVET_FLAG_MASK_OR_BIAS)) &&
         !(bias && causal && refuses(QKVET_FLAG_BIAS_OR_CAUSAL));
}

// No score is larger, no value beyond 2.
double largest_score(const Problem& p) {
  return 4 * double(p.width) * std::fabs(double(p.effective_scale())) + 2 +
         0.25 * double(p.queries + p.keys);
}

// Index of the first output that is off, or -1. NaN where none is expected is
// off, and so is anything else where nothing may be written.
int64_t first_error(const OptionCall& call, const std::vector<double>& expected,
                    const qkvet_kernel& kernel) {
  const std::vector<float> actual = call.outputs();
  const Problem& p = call.asked.problem;
  const double f32 = kRelative * (1 + largest_score(p));
  const double u = call.type == Storage::kF32 ? 0 : unit_of(call.type);
  const double weights = rounds_p(kernel) ? 3 * u : 0;
  for (size_t n = 0; n < actual.size(); ++n) {
    const bool is_lse = int64_t(n) % (p.value_width + 1) == p.value_width;
    const double exact = expected[n];
    const double tolerance =
        is_lse ? 1.5 * f32 + weights
               : 2 * (f32 + weights) + 1.01 * u * (std::fabs(exact) + 1e-3);
    if (exact == double(OptionCall::kUnwritten) ? double(actual[n]) != exact
        : std::isnan(exact)                     ? !std::isnan(actual[n])
                            : !(double(actual[n]) == exact ||
                                std::fabs(actual[n] - exact) <= tolerance)) {
      return int64_t(n);
    }
  }
  return -1;
}

const int kVariants = count_of(2);

TEST(Options, AgreeWithDoubleAloneAndInPairs) {
  for (const Storage type : kAllStorages) {
    const std::vector<const qkvet_kernel*> kernels =
        kernels_of_any_dialect(type);
    int checked = 0;
    for (const Asked& asked : all_calls(kVariants)) {
      OptionCall call(asked, type);
      for (const qkvet_kernel* kernel : kernels) {
        if (!declares(kernel, asked)) {
          continue;
        }
        ++checked;
        OpenKernel open(kernel);
        const qkvet_forward_args args = call.args();
        ASSERT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
        ASSERT_EQ(open.forward(args), QKVET_OK) << open.reason().room;
        const std::vector<double> expected = call.expected({*kernel->dialect});
        const int64_t at = first_error(call, expected, *kernel);
        ASSERT_EQ(at, -1) << kernel->name << " " << asked.text() << " type "
                          << int(type) << "\n  actual "
                          << call.outputs()[size_t(at)] << " expected "
                          << expected[size_t(at)];
      }
    }
    EXPECT_GE(checked, 1000 * kVariants);
  }
}

// The checks above can fail: an option that is left out of the expectation
// makes it disagree, and so does the complement of a mask.
TEST(Options, ExpectationNoticesEveryOption) {
  for (const uint64_t option : kOptions) {
    Asked asked = asked_with(option, 1);
    asked.own = kOwnAll;
    asked.left = asked.right = 1;
    OptionCall call(asked, Storage::kF32);
    Asked without = asked;
    without.options = 0;
    without.q_len = without.kv_len = without.cu_q = without.cu_k = {};
    for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
      if (!declares(kernel, asked)) {
        continue;
      }
      ASSERT_EQ(OpenKernel(kernel).forward(call.args()), QKVET_OK);
      const Expect expect = {*kernel->dialect};
      EXPECT_EQ(first_error(call, call.expected(expect), *kernel), -1);
      call.asked = without;
      EXPECT_NE(first_error(call, call.expected(expect), *kernel), -1)
          << kernel->name << " " << asked.text();
      call.asked = asked;
      if (option == QKVET_OPTION_MASK) {
        const Expect other = {*kernel->dialect, /*complement=*/true};
        EXPECT_NE(first_error(call, call.expected(other), *kernel), -1);
      }
    }
  }
}

std::vector<uint32_t> bits_of(const OptionCall& call) {
  std::vector<uint32_t> bits;
  for (const float x : call.outputs()) {
    bits.push_back(std::bit_cast<uint32_t>(x));
  }
  return bits;
}

// Not one bit depends on what lies beyond the lengths, whatever the dialect;
// NaN at masked keys is seen by those kernels only that say so.
TEST(Options, WhatNoRowSeesIsIgnored) {
  for (const Storage type : {Storage::kF32, Storage::kBf16}) {
    int not_ignored = 0;
    for (Asked asked : all_calls(/*variants=*/1)) {
      asked.own &= uint8_t(~kOwnQ);  // whole columns are masked
      for (const bool masked_too : {false, true}) {
        OptionCall call(asked, type);
        OptionCall poisoned(asked, type);
        poisoned.poison(masked_too);
        for (const qkvet_kernel* kernel : kernels_of_any_dialect(type)) {
          if (!declares(kernel, asked)) {
            continue;
          }
          const qkvet_dialect& d = *kernel->dialect;
          const bool ignores =
              !masked_too || (d.masked_nonfinite == QKVET_MASKED_IGNORED &&
                              d.empty_row != QKVET_EMPTY_ROW_MEAN);
          ASSERT_EQ(OpenKernel(kernel).forward(call.args()), QKVET_OK);
          ASSERT_EQ(OpenKernel(kernel).forward(poisoned.args()), QKVET_OK);
          if (ignores) {
            ASSERT_EQ(bits_of(call), bits_of(poisoned))
                << kernel->name << " " << asked.text();
          } else if (bits_of(call) != bits_of(poisoned)) {
            ++not_ignored;
          }
        }
      }
    }
    EXPECT_GE(not_ignored, 20);
  }
}

TEST(Options, ExtentsOfZero) {
  for (const Storage type : kAllStorages) {
    for (const int empty : {0, 1, 2}) {
      Asked asked = asked_with(
          QKVET_OPTION_EMPTY_EXTENTS | QKVET_OPTION_MASK | QKVET_OPTION_BIAS,
          uint64_t(empty));
      asked.problem.causal = 0;
      (empty == 0   ? asked.problem.batch
       : empty == 1 ? asked.problem.queries
                    : asked.problem.keys) = 0;
      for (const bool options : {false, true}) {
        asked.options = options ? asked.options : QKVET_OPTION_EMPTY_EXTENTS;
        OptionCall call(asked, type);
        int checked = 0;
        for (const qkvet_kernel* kernel : kernels_of_any_dialect(type)) {
          qkvet_forward_args args = call.args();
          if (!declares(kernel, asked)) {
            continue;
          }
          ++checked;
          for (qkvet_tensor* t : {&args.k, &args.v}) {
            t->data = empty == 2 ? nullptr : t->data;
          }
          ASSERT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
          ASSERT_EQ(OpenKernel(kernel).forward(args), QKVET_OK) << kernel->name;
          const std::vector<double> expected =
              call.expected({*kernel->dialect});
          EXPECT_EQ(first_error(call, expected, *kernel), -1)
              << kernel->name << " " << asked.text();
          EXPECT_EQ(expected.empty(), empty != 2);
        }
        EXPECT_GE(checked, 20);
      }
    }
  }
}

// A bias of -infinity is a mask, NaN behind it and rows of it alone included.
TEST(Options, BiasOfMinusInfinityHides) {
  Asked asked = asked_with(QKVET_OPTION_BIAS, 0);
  asked.own = kOwnAll;
  Asked as_mask = asked;
  as_mask.options |= QKVET_OPTION_MASK;
  for (const qkvet_kernel* kernel : correct_kernels()) {
    if (!declares(kernel, as_mask)) {
      continue;
    }
    OptionCall masked(as_mask, Storage::kF32);
    OptionCall biased(asked, Storage::kF32);
    const Problem& p = asked.problem;
    for (int64_t n = 0; n < p.batch * p.heads * p.queries * p.keys; ++n) {
      const int64_t j = n % p.keys, i = n / p.keys % p.queries;
      const int64_t h = n / p.keys / p.queries % p.heads;
      const int64_t b = n / p.keys / p.queries / p.heads;
      if (masked.mask.at(b, h, i, j) == 0) {
        biased.bias.set(b, h, i, j, -std::numeric_limits<float>::infinity());
      }
    }
    ASSERT_EQ(OpenKernel(kernel).forward(masked.args()), QKVET_OK);
    ASSERT_EQ(OpenKernel(kernel).forward(biased.args()), QKVET_OK);
    EXPECT_EQ(bits_of(masked), bits_of(biased)) << kernel->name;
  }
}

// Weights sum to one with the sink's share, and are 0 beyond a member.
TEST(Options, WeightsOfMembersAreZeroOutside) {
  for (const Storage type : kAllStorages) {
    for (const uint64_t n : {0, 1, 2, 3}) {
      const Asked asked = asked_with(QKVET_OPTION_PACKED, n);
      const Problem& p = asked.problem;
      OptionCall call(asked, type);
      AnyTensor weights(type, {1, p.heads, p.queries, p.keys});
      weights.fill(OptionCall::kUnwritten);
      qkvet_forward_args args = call.args();
      args.weights = weights.tensor();
      OpenKernel open(find_kernel("scalar/plain"));
      ASSERT_EQ(open.forward(args), QKVET_OK) << open.reason().room;
      for (size_t m = 0; m + 1 < asked.cu_q.size(); ++m) {
        for (int64_t i = asked.cu_q[m]; i < asked.cu_q[m + 1]; ++i) {
          for (int64_t j = 0; j < p.keys; ++j) {
            const bool own = j >= asked.cu_k[m] && j < asked.cu_k[m + 1];
            const float w = weights.get(0, 1, i, j);
            EXPECT_TRUE(own ? w >= 0 : w == 0) << asked.text();
          }
        }
      }
      for (int64_t i = asked.cu_q.back(); i < p.queries; ++i) {
        EXPECT_EQ(weights.get(0, 0, i, 0), OptionCall::kUnwritten);
      }
    }
  }
}

// A tensor of int32 in a row.
struct Listed {
  std::vector<int32_t> numbers;
  int64_t shape[4] = {}, strides[4] = {};

  qkvet_tensor tensor(std::vector<int64_t> extents) {
    qkvet_tensor t = {};
    t.ndim = static_cast<int32_t>(extents.size());
    int64_t step = 1;
    for (size_t n = extents.size(); n-- > 0; step *= extents[n]) {
      shape[n] = extents[n];
      strides[n] = step;
    }
    t.data = numbers.data();
    t.device_type = QKVET_DEVICE_CPU;
    t.dtype = {QKVET_DTYPE_INT, 32, 1};
    t.shape = shape;
    t.strides = strides;
    return t;
  }
};

// The keys that the mask of head h of each member shows, the last one first,
// with -1 in front and among them, and a key behind the length.
void list_mask(const OptionCall& call, bool per_head, Listed* keys,
               Listed* counts) {
  const Problem& p = call.asked.problem;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t kv = 0; kv < (per_head ? p.kv_heads : 1); ++kv) {
      for (int64_t i = 0; i < p.queries; ++i) {
        std::vector<int32_t> list = {-1};
        for (int64_t j = p.keys; j-- > 0;) {
          list.push_back(call.mask.at(b, 0, i, j) != 0 ? int32_t(j) : -1);
        }
        if (kv == 0) {
          counts->numbers.push_back(int32_t(list.size()));
        }
        list.push_back(0);
        keys->numbers.insert(keys->numbers.end(), list.begin(), list.end());
      }
    }
  }
}

// Whether entries of a list are added up as they come, not key by key.
bool walks_lists(const qkvet_kernel& kernel) {
  return std::string(kernel.source_file) == "impl/controls/sparse.cpp";
}

// Bit for bit, as the same keys are added up in the same order.
TEST(Options, ListsOfKeysAreTheMaskThatSaysTheSame) {
  constexpr uint64_t kBoth =
      QKVET_OPTION_KEY_LISTS | QKVET_OPTION_KEY_LIST_LENGTHS;
  int checked = 0, differ = 0;
  for (const Storage type : kAllStorages) {
    for (uint64_t n = 0; n < 12; ++n) {
      Asked asked = asked_with(QKVET_OPTION_MASK | QKVET_OPTION_WINDOW, n);
      asked.own = kOwnB | kOwnQ | kOwnK;
      OptionCall masked(asked, type), listed(asked, type);
      Listed keys, counts;
      const bool per_head = n % 2 != 0;
      list_mask(masked, per_head, &keys, &counts);
      const Problem& p = asked.problem;
      qkvet_forward_args args = listed.args();
      args.mask = {};
      args.key_indices = keys.tensor(
          {p.batch, per_head ? p.kv_heads : 1, p.queries, p.keys + 2});
      args.topk_length = counts.tensor({p.batch, p.queries});
      for (const qkvet_kernel* kernel : kernels_of_any_dialect(type)) {
        if (!declares(kernel, asked) ||
            (kernel->capabilities->options & kBoth) != kBoth ||
            walks_lists(*kernel)) {
          continue;
        }
        ++checked;
        OpenKernel open(kernel);
        const qkvet_forward_args with_mask = masked.args();
        ASSERT_EQ(open.forward(with_mask), QKVET_OK) << open.reason().room;
        ASSERT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
        ASSERT_EQ(open.forward(args), QKVET_OK) << open.reason().room;
        EXPECT_EQ(listed.outputs(), masked.outputs())
            << kernel->name << ": " << asked.text();
        // Without the length the key behind it is seen, where it is in reach.
        qkvet_forward_args longer = args;
        longer.topk_length = {};
        ASSERT_EQ(open.forward(longer), QKVET_OK);
        differ += listed.outputs() != masked.outputs() ? 1 : 0;
      }
    }
  }
  EXPECT_GE(checked, 12 * 3);
  EXPECT_GT(differ, checked / 2);
}

}  // namespace
}  // namespace qkvet::impl::options_test
