// SPDX-License-Identifier: Apache-2.0
// Shared memory, stacks and atomics.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <vector>

#include "impl/cuda/simt/simt_orders.h"

namespace simt_memory_test {
namespace {

using simt::Order;

// ---- Dynamic shared memory --------------------------------------------------

struct Found {
  uintptr_t at;
  int fresh;
};

__global__ void look(Found* found, int floats) {
  SIMT_DYNAMIC_SHARED(float, shared);
  Found& mine = found[blockIdx.x];
  mine.at = reinterpret_cast<uintptr_t>(shared);
  for (int n = 0; n < floats; ++n) {
    mine.fresh += std::isnan(shared[n]) ? 1 : 0;
    shared[n] = 1;
  }
  // Memory is no longer fresh after a thread wrote to it.
  for (int n = 0; n < floats; ++n) {
    mine.fresh += std::isnan(shared[n]) ? 1000000 : 0;
  }
}

TEST(SimtMemory, DynamicSharedMemoryIsAlignedAndNanInEveryBlock) {
  for (const int floats : {1, 3, 4, 1000, 227 << 8}) {
    std::vector<Found> found(3, Found{});
    ASSERT_TRUE(SIMT_LAUNCH(look, 3, 1,
                            static_cast<size_t>(floats) * sizeof(float),
                            nullptr, found.data(), floats));
    for (const Found& f : found) {
      EXPECT_EQ(f.at % 16, 0U);
      EXPECT_EQ(f.fresh, floats);
    }
  }
}

// All threads of a block share one array, also with `__shared__`.
__global__ void sum_of_block(const float* in, float* out) {
  __shared__ float parts[64];
  const unsigned i = threadIdx.x;
  parts[i] = in[blockIdx.x * 64 + i];
  for (unsigned half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) {
      parts[i] += parts[i + half];
    }
  }
  if (i == 0) {
    out[blockIdx.x] = parts[0];
  }
}

TEST(SimtMemory, StaticSharedMemoryIsOfTheBlock) {
  std::vector<float> in(3 * 64), out(3);
  for (size_t n = 0; n < in.size(); ++n) {
    in[n] = static_cast<float>(n);
  }
  simt::in_every_order([&](simt::Schedule) {
    ASSERT_TRUE(
        SIMT_LAUNCH(sum_of_block, 3, 64, 0, nullptr, in.data(), out.data()));
    EXPECT_EQ(out, (std::vector<float>{2016, 6112, 10208}));
  });
}

// ---- Atomics ----------------------------------------------------------------

struct Counters {
  int sum = 0;
  unsigned most = 0, least = 1000, bits = 0;
  float total = 0;
  uint64_t wide = 0;
  int first = -1, last = -1;
  unsigned seen[70] = {};  // values before
};

__global__ void count(Counters* c) {
  const unsigned i = threadIdx.x;
  ++c->seen[atomicAdd(&c->sum, 1)];
  atomicMax(&c->most, i);
  atomicMin(&c->least, i + 3);
  atomicAdd(&c->total, 0.5f);
  atomicAdd(&c->wide, uint64_t{1} << 40);
  atomicCAS(&c->first, -1, static_cast<int>(i));
  atomicExch(&c->last, static_cast<int>(i));
}

TEST(SimtMemory, AtomicsGiveTheValueBefore) {
  simt::in_every_order([&](simt::Schedule schedule) {
    Counters c;
    ASSERT_TRUE(SIMT_LAUNCH(count, 1, 70, 0, nullptr, &c));
    EXPECT_EQ(c.sum, 70);
    EXPECT_EQ(c.most, 69U);
    EXPECT_EQ(c.least, 3U);
    EXPECT_EQ(c.total, 35);
    EXPECT_EQ(c.wide, uint64_t{70} << 40);
    EXPECT_NE(c.first, c.last);
    if (schedule.order != Order::kRandom) {
      const bool forward = schedule.order == Order::kForward;
      EXPECT_EQ(c.first, forward ? 0 : 69);
      EXPECT_EQ(c.last, forward ? 69 : 0);
    }
    for (const unsigned times : c.seen) {
      EXPECT_EQ(times, 1U);
    }
  });
}

// ---- Functions --------------------------------------------------------------

struct Answers {
  float exp, log, root, quotient, fused, same;
  int least, most;
  float4 four;
};

__global__ void ask(Answers* a, const float* at) {
  a->exp = __expf(2.0f);
  a->log = __logf(2.0f);
  a->root = rsqrtf(4.0f);
  a->quotient = __fdividef(1.0f, 8.0f);
  a->fused = __fmaf_rn(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f);
  a->same = __uint_as_float(__float_as_uint(__ldg(at)));
  a->least = min(3, -4);
  a->most = max(3, -4);
  a->four = make_float4(1, 2, 3, 4);
}

TEST(SimtMemory, FunctionsAreThoseOfTheLibrary) {
  Answers a = {};
  const float value = -0.1f;
  ASSERT_TRUE(SIMT_LAUNCH(ask, 1, 1, 0, nullptr, &a, &value));
  EXPECT_EQ(a.exp, std::exp(2.0f));
  EXPECT_EQ(a.log, std::log(2.0f));
  EXPECT_EQ(a.root, 0.5f);
  EXPECT_EQ(a.quotient, 0.125f);
  EXPECT_EQ(a.fused, 0x1p-11f + 0x1p-24f) << "a product that was rounded";
  EXPECT_EQ(a.same, value);
  EXPECT_EQ(a.least, -4);
  EXPECT_EQ(a.most, 3);
  EXPECT_EQ(a.four.w, 4);
  EXPECT_EQ(alignof(float4), 16U);
}

// ---- Stacks -----------------------------------------------------------------

__device__ int depth_of(int depth) {
  volatile char frame[1024];
  frame[depth % 1024] = 1;
  return depth == 0 ? 0 : depth_of(depth - 1) + frame[depth % 1024];
}

__global__ void recurse(int* out, int depth) { *out = depth_of(depth); }

TEST(SimtMemory, StacksHaveAnEnd) {
  int out = 0;
  ASSERT_TRUE(SIMT_LAUNCH(recurse, 1, 1, 0, nullptr, &out, 20));
  EXPECT_EQ(out, 20);
  // AddressSanitizer reports an error; otherwise it is a signal.
  const auto dies = [](int status) {
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  };
  EXPECT_EXIT(
      {
        static_cast<void>(
            SIMT_LAUNCH(recurse, 1, 1, 0, nullptr, &out, 1 << 20));
        _exit(0);
      },
      dies, "");
}

}  // namespace
}  // namespace simt_memory_test
