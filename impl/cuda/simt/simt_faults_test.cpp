// SPDX-License-Identifier: Apache-2.0
// Errors that no GPU allows are reported with their place, and the next launch
// works. A parameter of every kernel here turns its fault on.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "impl/cuda/simt/simt_orders.h"

namespace simt_faults_test {
namespace {

constexpr uint32_t kFull = 0xffffffffu;
constexpr unsigned kThreads = 64;

// The possible lines of a fault.
struct Lines {
  int first = 0, second = 0;
};

// ---- Kernels ----------------------------------------------------------------

__global__ void divergent_barrier(bool faulty, Lines* lines) {
  if (faulty && threadIdx.x >= 32) {
    lines->first = __LINE__ + 1;
    __syncthreads();
  } else {
    lines->second = __LINE__ + 1;
    __syncthreads();
  }
}

__global__ void lanes_apart(bool faulty, Lines* lines) {
  const bool odd = threadIdx.x % 2 == 1;
  int got = 0;
  if (faulty && odd) {
    lines->first = __LINE__ + 1;
    got = __shfl_xor_sync(kFull, 1, 1);
  } else {
    lines->second = __LINE__ + 1;
    got = __shfl_xor_sync(kFull, 2, 1);
  }
  lines->first += got * 0;
}

// The masks of the lanes below name lane 16; its own names all lanes.
__global__ void masks_apart(bool faulty, Lines* lines) {
  const uint32_t mask = faulty && threadIdx.x % 32 < 16 ? 0x1ffffu : kFull;
  lines->first = __LINE__ + 1;
  __syncwarp(mask);
}

// Half of a warp waits for lanes that wait for the block.
__global__ void lanes_never_come(bool faulty, Lines* lines) {
  if (!faulty || threadIdx.x % 32 < 16) {
    lines->first = __LINE__ + 1;
    __syncwarp();
  }
  __syncthreads();
}

__global__ void asks_absent_lane(bool faulty, Lines* lines) {
  if (threadIdx.x % 32 < 16) {
    lines->first = __LINE__ + 1;
    lines->second += __shfl_sync(0xffffu, 0, faulty ? 20 : 10);
  }
}

__global__ void asks_ended_lane(bool faulty, Lines* lines) {
  if (threadIdx.x % 32 == 5) {
    return;
  }
  lines->first = __LINE__ + 1;
  lines->second += __shfl_sync(kFull, 0, faulty ? 5 : 6);
}

__global__ void not_in_its_mask(bool faulty, Lines* lines) {
  const uint32_t own = 1u << threadIdx.x % 32;
  lines->first = __LINE__ + 1;
  __syncwarp(faulty ? ~own : kFull);
}

__global__ void said_by_the_kernel(bool faulty, Lines* lines) {
  if (faulty && threadIdx.x == 40) {
    lines->first = __LINE__ + 1;
    simt::fault("has seen enough", SIMT_HERE);
  }
}

// ---- All of them ------------------------------------------------------------

struct Expected {
  const char* name;
  void (*kernel)(bool, Lines*);
  const char* what;
};

const Expected kFaults[] = {
    {"divergent_barrier", divergent_barrier,
     "waits at another barrier than others of its block"},
    {"lanes_apart", lanes_apart, "lanes of a warp wait at different instr"},
    {"masks_apart", masks_apart, "lanes of a warp wait with different masks"},
    {"lanes_never_come", lanes_never_come,
     "waits for lanes of its warp that never come"},
    {"asks_absent_lane", asks_absent_lane,
     "asks for the value of a lane that takes no part"},
    {"asks_ended_lane", asks_ended_lane,
     "asks for the value of a lane that takes no part"},
    {"not_in_its_mask", not_in_its_mask,
     "is no lane of the mask that it calls with"},
    {"said_by_the_kernel", said_by_the_kernel, "has seen enough"},
};

std::string text_of(const simt::Fault& fault) {
  char text[200];
  simt::describe(fault, text, sizeof(text));
  return text;
}

// "simt_faults_test.cpp:LINE: block (0,0,0), thread (" for one of the lines.
bool is_placed(const std::string& text, const Lines& lines) {
  for (const int line : {lines.first, lines.second}) {
    const std::string begin = "simt_faults_test.cpp:" + std::to_string(line) +
                              ": block (0,0,0), thread (";
    if (text.rfind(begin, 0) == 0) {
      return true;
    }
  }
  return false;
}

TEST(SimtFaults, AreToldWithTheirPlaceAndTheNextLaunchWorks) {
  simt::in_every_order([&](simt::Schedule) {
    for (const Expected& expected : kFaults) {
      SCOPED_TRACE(expected.name);
      Lines lines;
      EXPECT_FALSE(
          SIMT_LAUNCH(expected.kernel, 1, kThreads, 0, nullptr, true, &lines));
      const std::string text = text_of(simt::take_fault());
      EXPECT_TRUE(is_placed(text, lines)) << text;
      EXPECT_NE(text.find(expected.what), std::string::npos) << text;
      EXPECT_TRUE(
          SIMT_LAUNCH(expected.kernel, 1, kThreads, 0, nullptr, false, &lines))
          << text_of(simt::take_fault());
    }
  });
}

__global__ void third_thread_of_last_block(int* line) {
  if (blockIdx.y == 1 && blockIdx.x == 2 && threadIdx.z == 1) {
    *line = __LINE__ + 1;
    simt::fault("here", SIMT_HERE);
  }
}

TEST(SimtFaults, NameBlockAndThread) {
  int line = 0;
  EXPECT_FALSE(SIMT_LAUNCH(third_thread_of_last_block, dim3(3, 2),
                           dim3(1, 1, 2), 0, nullptr, &line));
  const simt::Fault fault = simt::take_fault();
  const std::string text = text_of(fault);
  EXPECT_EQ(text, "simt_faults_test.cpp:" + std::to_string(line) +
                      ": block (2,1,0), thread (0,0,1): here");
  char brief[11];
  simt::describe(fault, brief, sizeof(brief));
  EXPECT_EQ(std::string(brief), text.substr(0, 10));
}

// Nothing runs after a fault.
__global__ void count_blocks(int* blocks, unsigned faulty) {
  ++*blocks;
  if (blockIdx.x == faulty) {
    simt::fault("stops here", SIMT_HERE);
  }
}

TEST(SimtFaults, EndTheLaunch) {
  int blocks = 0;
  EXPECT_FALSE(SIMT_LAUNCH(count_blocks, 9, 1, 0, nullptr, &blocks, 4U));
  EXPECT_EQ(blocks, 5);
  EXPECT_TRUE(SIMT_LAUNCH(count_blocks, 9, 1, 0, nullptr, &blocks, 9U));
  EXPECT_EQ(blocks, 14);
}

// ---- Overruns ---------------------------------------------------------------

__global__ void write_behind(unsigned by) {
  SIMT_DYNAMIC_SHARED(unsigned char, shared);
  shared[threadIdx.x + by] = 1;
}

TEST(SimtFaults, WritesBehindDynamicSharedMemoryAreSeen) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the program before";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "AddressSanitizer ends the program before";
#endif
#endif
  for (const size_t bytes : {64, 77, 1 << 12, 227 << 10}) {
    const unsigned last = static_cast<unsigned>(bytes) - 1;
    EXPECT_TRUE(SIMT_LAUNCH(write_behind, 2, 1, bytes, nullptr, last));
    for (const unsigned by : {1U, 2U, 1000U}) {
      EXPECT_FALSE(SIMT_LAUNCH(write_behind, 2, 1, bytes, nullptr, last + by));
      const std::string text = text_of(simt::take_fault());
      EXPECT_EQ(text,
                "block (0,0,0): a thread wrote behind dynamic shared memory");
    }
  }
}

// Faults do not leak memory.
TEST(SimtFaults, ManyDoNotAddUp) {
  Lines lines;
  for (int n = 0; n < 1500; ++n) {
    ASSERT_FALSE(
        SIMT_LAUNCH(lanes_never_come, 1, kThreads, 0, nullptr, true, &lines));
  }
  EXPECT_TRUE(
      SIMT_LAUNCH(lanes_never_come, 1, kThreads, 0, nullptr, false, &lines));
}

}  // namespace
}  // namespace simt_faults_test
