// SPDX-License-Identifier: Apache-2.0
// The 16-bit types of CUDA under the emulator, against the conversions that the
// CPU kernels use and against arithmetic in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "impl/call/half.h"
#include "impl/cuda/simt/cuda/cuda_bf16.h"
#include "impl/cuda/simt/cuda/cuda_fp16.h"

namespace {

using qkvet::impl::bf16_to_f32;
using qkvet::impl::f16_to_f32;
using qkvet::impl::f32_to_bf16;
using qkvet::impl::f32_to_f16;

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         (a == b && std::signbit(a) == std::signbit(b));
}

TEST(SimtHalf, AllValuesAreThoseOfTheirBits) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    ASSERT_TRUE(
        same(__half2float(__ushort_as_half(narrow)), f16_to_f32(narrow)))
        << bits;
    ASSERT_TRUE(same(__bfloat162float(__ushort_as_bfloat16(narrow)),
                     bf16_to_f32(narrow)))
        << bits;
  }
}

TEST(SimtHalf, RoundingIsToNearestTiesToEven) {
  std::mt19937 random(1);
  for (int n = 0; n < 200000; ++n) {
    const auto bits = static_cast<uint32_t>(random());
    // Half of them are ties of f16 or bf16, or adjacent to one.
    const uint32_t tie = n % 4 == 1 ? 0x1000 : 0x8000;
    const uint32_t near = ((bits & ~(2 * tie - 1)) | tie) +
                          static_cast<uint32_t>(random() % 3) - 1;
    const uint32_t drawn = n % 2 == 0 ? bits : near;
    float x;
    std::memcpy(&x, &drawn, sizeof x);
    if (std::isnan(x)) continue;
    ASSERT_EQ(__half_as_ushort(__float2half(x)), f32_to_f16(x)) << x;
    ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16(x)), f32_to_bf16(x)) << x;
  }
  EXPECT_TRUE(__hisnan(__float2half(NAN)));
  EXPECT_TRUE(__hisnan(__float2bfloat16(NAN)));
}

// a b + c with one rounding: 1 + 2^-10 squared is 1 + 2^-9 + 2^-20, which two
// roundings lose.
TEST(SimtHalf, AFusedMultiplyAddRoundsOnce) {
  const half a = 1 + std::ldexp(1.0, -10);
  const half c = -(1 + std::ldexp(1.0, -9));
  EXPECT_EQ(float(__hfma(a, a, c)), std::ldexp(1.0f, -20));
  EXPECT_EQ(float(a * a + c), 0);  // the control
  // 1024.5 is a tie, and the last bit of the product decides it.
  EXPECT_EQ(float(__hfma(a, half(0.5f), half(1024.0f))), 1025);
  const __half2 two = __hfma2(__half2half2(a), __half2half2(a), {c, c});
  EXPECT_EQ(__high2float(two), std::ldexp(1.0f, -20));
}

TEST(SimtHalf, ArithmeticIsThatOfNumbers) {
  EXPECT_EQ(float(half(0.5f) + half(0.25f)), 0.75f);
  EXPECT_EQ(float(__hmul(__nv_bfloat16(3.0f), __nv_bfloat16(-2.0f))), -6);
  EXPECT_TRUE(std::isinf(float(half(60000.0f) + half(60000.0f))));
  EXPECT_EQ(float(__float2bfloat16(60000.0f)), 59904);
  const float2 pair = __half22float2(__floats2half2_rn(1.5f, -2));
  EXPECT_EQ(pair.x, 1.5f);
  EXPECT_EQ(pair.y, -2);
}

}  // namespace
