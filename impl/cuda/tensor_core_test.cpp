// SPDX-License-Identifier: Apache-2.0
// The primitives of tensor_core.h against plain formulas: the place of each
// element of a matrix, and the time at which a copy is complete.
#include "impl/cuda/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace qkvet::impl::tensor_core_test {
namespace {

constexpr int kLanes = 32;

std::string fault_of(bool launched) {
  char text[256] = "";
  if (!launched) {
    simt::describe(simt::take_fault(), text, sizeof(text));
  }
  return text;
}

// ---- Products --------------------------------------------------------------

struct Product {
  float a[16][16];
  float b[16][8];
  float c[16][8];
  float sum[16][8];  // a b + c, in whole numbers
};

// Small whole numbers, so that every sum is exact in any order.
Product random_product(uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int>(state >> 24) % 33 - 16);
  };
  Product p;
  for (auto& row : p.a) {
    for (float& x : row) x = next();
  }
  for (auto& row : p.b) {
    for (float& x : row) x = next();
  }
  for (int i = 0; i < 16; ++i) {
    for (int n = 0; n < 8; ++n) {
      p.c[i][n] = p.sum[i][n] = next();
      for (int k = 0; k < 16; ++k) {
        p.sum[i][n] += p.a[i][k] * p.b[k][n];
      }
    }
  }
  return p;
}

// `swapped`: with the registers for rows g + 8 and for columns + 8 of A
// exchanged, an easy mistake.
template <class T>
__global__ void multiply(const Product* p, float (*result)[8], bool swapped) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t a[4], b[2];
  float c[4];
  for (int r = 0; r < 4; ++r) {
    const int row = g + 8 * (swapped ? r / 2 : r % 2);
    const int column = 2 * t + 8 * (swapped ? r % 2 : r / 2);
    a[r] = pack_halves<T>(p->a[row][column], p->a[row][column + 1]);
    c[r] = p->c[g + 8 * (r / 2)][2 * t + r % 2];
  }
  for (int r = 0; r < 2; ++r) {
    b[r] = pack_halves<T>(p->b[2 * t + 8 * r][g], p->b[2 * t + 8 * r + 1][g]);
  }
  mma_m16n8k16<T>(c, a, b);
  for (int i = 0; i < 4; ++i) {
    result[g + 8 * (i / 2)][2 * t + i % 2] = c[i];
  }
}

template <class T>
int wrong_elements(const Product& p, bool swapped) {
  float result[16][8];
  const auto kernel = multiply<T>;
  EXPECT_TRUE(SIMT_LAUNCH(kernel, 1, kLanes, 0, nullptr, &p, result, swapped));
  int wrong = 0;
  for (int i = 0; i < 16; ++i) {
    for (int n = 0; n < 8; ++n) {
      wrong += result[i][n] == p.sum[i][n] ? 0 : 1;
    }
  }
  return wrong;
}

TEST(TensorCore, ProductsAreThoseOfMatrices) {
  for (const simt::Order order :
       {simt::Order::kForward, simt::Order::kReverse, simt::Order::kRandom}) {
    simt::set_schedule({order, 7});
    for (uint32_t seed = 0; seed < 50; ++seed) {
      const Product p = random_product(seed);
      EXPECT_EQ(wrong_elements<F16>(p, false), 0) << seed;
      EXPECT_EQ(wrong_elements<Bf16>(p, false), 0) << seed;
    }
  }
  simt::set_schedule({});
}

TEST(TensorCore, ExchangedRegistersAreWrong) {
  const Product p = random_product(1);
  EXPECT_GT(wrong_elements<F16>(p, true), 64);
  EXPECT_GT(wrong_elements<Bf16>(p, true), 64);
}

__global__ void multiply_without_some(const Product* p) {
  float c[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x < 30 && p != nullptr) {
    mma_m16n8k16<F16>(c, a, b);
  }
}

TEST(TensorCore, NeedsTheWholeWarp) {
  const Product p = random_product(1);
  const auto kernel = multiply_without_some;
  EXPECT_NE(fault_of(SIMT_LAUNCH(kernel, 1, kLanes, 0, nullptr, &p)), "");
}

// ---- Matrices from shared memory
// ---------------------------------------------

constexpr int kRows = 32;
constexpr int kStride = 24;  // in halves: rows are not adjacent

uint16_t number_at(int row, int column) {
  return static_cast<uint16_t>(row * 100 + column);
}

__global__ void load(uint32_t (*result)[4], bool transposed, int offset) {
  SIMT_DYNAMIC_SHARED(uint16_t, shared);
  for (int n = threadIdx.x; n < kRows * 8; n += kLanes) {
    shared[n / 8 * kStride + n % 8] = number_at(n / 8, n % 8);
  }
  __syncwarp();
  const uint16_t* const row = shared + threadIdx.x * kStride + offset;
  if (transposed) {
    ldmatrix_x4_trans(result[threadIdx.x], row);
  } else {
    ldmatrix_x4(result[threadIdx.x], row);
  }
}

constexpr size_t kMatrixBytes = sizeof(uint16_t) * (kRows + 1) * kStride;

TEST(TensorCore, MatricesComeAsTheyLieOrTransposed) {
  for (const bool transposed : {false, true}) {
    uint32_t result[kLanes][4] = {};
    ASSERT_TRUE(SIMT_LAUNCH(load, 1, kLanes, kMatrixBytes, nullptr, result,
                            transposed, 0));
    for (int l = 0; l < kLanes; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        const int first = 8 * r;
        const uint32_t low = transposed ? number_at(first + 2 * t, g)
                                        : number_at(first + g, 2 * t);
        const uint32_t high = transposed ? number_at(first + 2 * t + 1, g)
                                         : number_at(first + g, 2 * t + 1);
        EXPECT_EQ(result[l][r], low | high << 16) << l << " " << r;
      }
    }
  }
}

TEST(TensorCore, RowsOfMatricesAreAligned) {
  uint32_t result[kLanes][4] = {};
  const bool launched =
      SIMT_LAUNCH(load, 1, kLanes, kMatrixBytes, nullptr, result, false, 4);
  EXPECT_NE(fault_of(launched).find("multiple of 16"), std::string::npos);
}

// ---- Copies ----------------------------------------------------------------

constexpr int kNumbers = 4;  // in 16 bytes

struct Seen {
  float before[kNumbers], after_one[kNumbers], after_all[kNumbers];
  float second[kNumbers];
};

__device__ void keep(const volatile float* from, float* to) {
  for (int n = 0; n < kNumbers; ++n) {
    to[n] = from[n];
  }
}

// Two groups; only the first is awaited.
__global__ void copy(const float* from, Seen* seen, int bytes) {
  SIMT_DYNAMIC_SHARED(float, shared);
  cp_async_16(shared, from, bytes);
  cp_async_commit();
  cp_async_16(shared + kNumbers, from + kNumbers, 16);
  cp_async_commit();
  keep(shared, seen->before);
  cp_async_wait<1>();
  keep(shared, seen->after_one);
  keep(shared + kNumbers, seen->second);
  cp_async_wait<0>();
  keep(shared + kNumbers, seen->after_all);
}

struct CopyTest : testing::Test {
  alignas(16) float from[2 * kNumbers] = {1, 2, 3, 4, 5, 6, 7, 8};
  Seen seen = {};

  void run(int bytes) {
    ASSERT_TRUE(
        SIMT_LAUNCH(copy, 1, 1, sizeof(from), nullptr, from, &seen, bytes));
  }
};

TEST_F(CopyTest, IsThereWhenItIsWaitedForAndNotBefore) {
  run(16);
  for (int n = 0; n < kNumbers; ++n) {
    EXPECT_TRUE(std::isnan(seen.before[n]));
    EXPECT_EQ(seen.after_one[n], from[n]);
    EXPECT_TRUE(std::isnan(seen.second[n]));
    EXPECT_EQ(seen.after_all[n], from[kNumbers + n]);
  }
}

TEST_F(CopyTest, MayBeThereAtOnce) {
  simt::set_schedule({simt::Order::kReverse, 0});
  run(16);
  simt::set_schedule({simt::Order::kRandom, 0});
  Seen mixed = {};
  EXPECT_TRUE(SIMT_LAUNCH(copy, 1, 1, sizeof(from), nullptr, from, &mixed, 16));
  simt::set_schedule({});
  for (int n = 0; n < kNumbers; ++n) {
    EXPECT_EQ(seen.before[n], from[n]);
    EXPECT_EQ(seen.second[n], from[kNumbers + n]);
    EXPECT_EQ(mixed.before[n], from[n]);
    EXPECT_TRUE(std::isnan(mixed.second[n]));
    EXPECT_EQ(mixed.after_all[n], from[kNumbers + n]);
  }
}

TEST_F(CopyTest, WhatIsNotReadIsZero) {
  run(8);
  EXPECT_EQ(seen.after_one[0], 1);
  EXPECT_EQ(seen.after_one[1], 2);
  EXPECT_EQ(seen.after_one[2], 0);
  EXPECT_EQ(seen.after_one[3], 0);
}

TEST_F(CopyTest, ReadsNothingThatIsNotAskedFor) {
  run(0);
  for (const float x : seen.after_one) {
    EXPECT_EQ(x, 0);
  }
}

__global__ void copy_without_commit(const float* from, Seen* seen) {
  SIMT_DYNAMIC_SHARED(float, shared);
  cp_async_16(shared, from, 16);
  cp_async_wait<0>();
  keep(shared, seen->before);
}

TEST_F(CopyTest, AGroupThatIsOpenIsNotWaitedFor) {
  ASSERT_TRUE(SIMT_LAUNCH(copy_without_commit, 1, 1, 16, nullptr, from, &seen));
  EXPECT_TRUE(std::isnan(seen.before[0]));
  // The copy is not made by another thread either.
  ASSERT_TRUE(SIMT_LAUNCH(copy, 1, 1, 32, nullptr, from, &seen, 0));
  EXPECT_EQ(seen.after_one[0], 0);
}

__global__ void copy_askew(const float* from, int to_offset, int bytes) {
  SIMT_DYNAMIC_SHARED(float, shared);
  cp_async_16(shared + to_offset, from, bytes);
}

TEST_F(CopyTest, AddressesAndSizesThatCannotBe) {
  const auto fault = [](const float* at, int to_offset, int bytes) {
    return fault_of(
        SIMT_LAUNCH(copy_askew, 1, 1, 64, nullptr, at, to_offset, bytes));
  };
  EXPECT_EQ(fault(from, 4, 16), "");
  EXPECT_NE(fault(from + 1, 4, 16).find("multiple of 16"), std::string::npos);
  EXPECT_NE(fault(from, 2, 16).find("multiple of 16"), std::string::npos);
  EXPECT_NE(fault(from, 4, 17).find("0 to 16"), std::string::npos);
}

}  // namespace
}  // namespace qkvet::impl::tensor_core_test
