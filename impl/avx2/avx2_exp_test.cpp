// SPDX-License-Identifier: Apache-2.0
// Measures the vector exp against exp in double. Swept densely here: every
// kStride-th float of [-87, 0]. A sweep over every single one (set kStride to
// 1, 20 s) found the error that exp.h and flash.cpp rely on.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace qkvet::impl {
void probe_exp(const float* x, float* y, int64_t n);
}  // namespace qkvet::impl

namespace qkvet::impl::avx2_exp_test {
namespace {

constexpr uint32_t kStride = 61;
constexpr float kLowest = -87.0f;
constexpr double kUnit = 0x1p-24;
// The declared error of flash.cpp, and the largest of the full sweep.
constexpr double kDeclaredUnits = 1.4;
constexpr double kMeasuredUnits = 1.293;
constexpr size_t kBatch = 4096;

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

std::vector<float> exp_of(std::vector<float> x) {
  const size_t count = x.size();
  x.resize((count + 7) / 8 * 8);
  std::vector<float> y(x.size());
  probe_exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  y.resize(count);
  return y;
}

TEST(Avx2Exp, StaysWithinItsDeclaredError) {
  if (!cpu_has_avx2()) {
    GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  }
  const uint32_t last = std::bit_cast<uint32_t>(kLowest);
  double worst = 0;
  float worst_at = 0;
  std::vector<float> x;
  for (uint64_t bits = 0x80000000u; bits <= last;) {
    x.clear();
    for (; x.size() < kBatch && bits <= last; bits += kStride) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    const std::vector<float> y = exp_of(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double error =
          std::fabs(y[i] / std::exp(static_cast<double>(x[i])) - 1) / kUnit;
      if (!(error <= worst)) {
        worst = error;
        worst_at = x[i];
      }
    }
  }
  RecordProperty("worst_units", std::to_string(worst));
  EXPECT_LE(worst, kMeasuredUnits) << "at x = " << worst_at;
  EXPECT_LT(kMeasuredUnits, kDeclaredUnits);
  // A much smaller error means that the measurement is broken.
  EXPECT_GE(worst, 0.95) << "half an ulp of a value just above a power of two";
}

TEST(Avx2Exp, HasExactEnds) {
  if (!cpu_has_avx2()) {
    GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y = exp_of(
      {0.0f, -0.0f, -infinity, std::nextafter(kLowest, -infinity), -1e30f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  for (size_t i = 2; i < y.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), 0u) << i;
  }
}

// Payloads must not reach the exponent of the result.
TEST(Avx2Exp, KeepsEveryNan) {
  if (!cpu_has_avx2()) {
    GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  }
  std::vector<float> x;
  for (uint32_t payload = 1; payload < 0x400000u; payload += 997) {
    x.push_back(std::bit_cast<float>(0x7fc00000u | payload));
    x.push_back(std::bit_cast<float>(0xffc00000u | payload));
  }
  for (const float y : exp_of(x)) {
    EXPECT_TRUE(std::isnan(y));
  }
}

}  // namespace
}  // namespace qkvet::impl::avx2_exp_test
