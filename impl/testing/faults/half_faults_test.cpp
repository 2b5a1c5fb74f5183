// SPDX-License-Identifier: Apache-2.0
// The faults of half storage: each differs from its skeleton where its trigger
// says so, by more than the rounding of o, and equals it elsewhere; the
// skeleton itself is the double result, rounded. faults_test.cpp asks the
// others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "impl/testing/family_fixture.h"

namespace qkvet::impl::half_faults_test {
namespace {

constexpr Storage kHalves[] = {Storage::kF16, Storage::kBf16};

std::vector<const qkvet_kernel*> half_faults(Storage type) {
  return kernels_that(/*faulty=*/true, [type](const qkvet_kernel& kernel) {
    return kernel.forward != nullptr && takes(&kernel, type);
  });
}

// Those that a row without a key shows, or the workspace of a host, or pages of
// groups of channels.
bool needs_other_call(const qkvet_kernel* kernel) {
  const std::string name = kernel->name;
  const qkvet_capabilities& can = *kernel->capabilities;
  return (can.options & QKVET_OPTION_PAGED_CHANNEL_GROUPS) != 0 ||
         name == "faulty/hidden_scores_overflow_f16" ||
         name == "faulty/parts_in_scratch_of_storage_size";
}

std::vector<float> outputs_of(const qkvet_kernel* kernel, HalfCall* call) {
  OpenKernel open(kernel);
  EXPECT_EQ(open.forward(call->args()), QKVET_OK) << kernel->name;
  return call->outputs();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Elements that are off by more than the rounding to `type`.
int count_errors(Storage type, const std::vector<float>& actual,
                 const std::vector<double>& expected) {
  const double u = type == Storage::kF16 ? 0x1p-11 : 0x1p-8;
  int count = 0;
  for (size_t n = 0; n < actual.size(); ++n) {
    const double error = std::fabs(actual[n] - expected[n]);
    // Half a unit in the last place is below u |o|, and at least half of it.
    count += !(error <= u * std::fabs(expected[n]) + kRoom);
  }
  return count;
}

TEST(HalfFaults, TheirStorageTypesAreTheirOwn) {
  EXPECT_GE(half_faults(Storage::kF32).size(), 11u);
  EXPECT_GE(half_faults(Storage::kF16).size(), 3u);
  EXPECT_GE(half_faults(Storage::kBf16).size(), 4u);
}

TEST(HalfFaults, AreOffByMoreThanTheRoundingOfO) {
  const qkvet_kernel* const skeleton = find_kernel("controls/plain_hooks");
  for (const Storage type : kHalves) {
    HalfCall call(
        {.heads = 2, .queries = 20, .keys = 70, .width = 8, .value_width = 9},
        type);
    const Expected expected = expected_of(call.wide);
    const std::vector<float> right = outputs_of(skeleton, &call);
    EXPECT_EQ(count_errors(type, right, expected.outputs), 0);
    for (const qkvet_kernel* kernel : half_faults(type)) {
      const std::vector<float> faulty = outputs_of(kernel, &call);
      if (needs_other_call(kernel)) {
        EXPECT_TRUE(same_bits(faulty, right)) << kernel->name;
        continue;
      }
      EXPECT_FALSE(same_bits(faulty, right)) << kernel->name;
      EXPECT_GE(count_errors(type, faulty, expected.outputs), 10)
          << kernel->name;
    }
  }
}

// One key: its weight is 1 and o is its value, which storage can hold.
TEST(HalfFaults, EqualTheSkeletonOnSingleKeys) {
  const qkvet_kernel* const skeleton = find_kernel("controls/plain_hooks");
  for (const Storage type : kHalves) {
    HalfCall call({.queries = 20, .keys = 1, .width = 8, .value_width = 9},
                  type);
    const std::vector<float> right = outputs_of(skeleton, &call);
    for (const qkvet_kernel* kernel : half_faults(type)) {
      EXPECT_TRUE(same_bits(outputs_of(kernel, &call), right)) << kernel->name;
    }
  }
}

// With V = 1, o is 1 up to f32 roundings, which its own rounding hides.
TEST(HalfFaults, ADenominatorInHalfDoesNotSumToOne) {
  const qkvet_kernel* const skeleton = find_kernel("controls/plain_hooks");
  const qkvet_kernel* const faulty = find_kernel("faulty/denominator_in_half");
  for (const Storage type : kHalves) {
    HalfCall call({.queries = 20, .keys = 70, .width = 8}, type);
    call.wide.v.fill(1);
    call.store();
    outputs_of(skeleton, &call);
    int off = 0;
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(from_half(type, call.o.at(0, 0, i)), 1);
    }
    outputs_of(faulty, &call);
    for (int64_t i = 0; i < 20; ++i) {
      off += from_half(type, call.o.at(0, 0, i)) != 1;
    }
    EXPECT_GE(off, 10);
  }
}

}  // namespace
}  // namespace qkvet::impl::half_faults_test
