// SPDX-License-Identifier: Apache-2.0
#include "impl/cuda/bench/device_timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace qkvet::bench {
namespace {

constexpr int kWarmRuns = 3;
// Long compared to the resolution of events, half a microsecond.
constexpr double kSecondsOfRound = 0.005;

__global__ void fill(uint16_t* to, size_t count, uint64_t seed) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t n = size_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += stride) {
    // splitmix64, and the sum of four uniforms less its mean: variance 1 after
    // the factor sqrt(3).
    uint64_t x = (n + 1) * 0x9e3779b97f4a7c15ull + seed;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    float sum = -2;
    for (int part = 0; part < 4; ++part, x >>= 16) {
      sum += static_cast<float>(x & 0xffff) * 0x1p-16f;
    }
    to[n] = static_cast<uint16_t>(__float_as_uint(sum * 1.7320508f) >> 16);
  }
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { check(cudaEventRecord(event_, nullptr), "an event"); }
  double seconds_since(const Event& start) {
    float milliseconds = 0;
    check(cudaEventSynchronize(event_), "the work on the device");
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "a time");
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

double seconds_of(const Contender& contender, int runs) {
  Event begin, end;
  begin.record();
  for (int n = 0; n < runs; ++n) {
    contender.run();
  }
  end.record();
  return end.seconds_since(begin) / runs;
}

struct Lane {
  int runs = 0;
  std::string why;
  std::vector<double> seconds;
};

Lane warm(const Contender& contender) {
  Lane lane;
  for (int n = 0; n < kWarmRuns && lane.why.empty(); ++n) {
    lane.why = contender.run();
  }
  if (lane.why.empty()) {
    const double once = seconds_of(contender, 1);
    lane.runs = static_cast<int>(
        std::clamp(std::ceil(kSecondsOfRound / once), 1.0, 1000.0));
  }
  return lane;
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "qkvet-cuda-bench: %s: %s\n", what,
                 cudaGetErrorString(error));
    std::exit(4);
  }
}

Memory::Memory(size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(&at_, bytes), "memory of the device");
}
Memory::~Memory() { cudaFree(at_); }

void fill_bf16(const Memory& memory, uint64_t seed) {
  fill<<<1024, 256>>>(static_cast<uint16_t*>(memory.at()),
                      memory.bytes() / sizeof(uint16_t), seed);
  check(cudaDeviceSynchronize(), "filling memory");
}

std::vector<Timed> race(const std::vector<Contender>& contenders, int rounds) {
  std::vector<Lane> lanes;
  for (const Contender& contender : contenders) {
    lanes.push_back(warm(contender));
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t n = 0; n < contenders.size(); ++n) {
      if (lanes[n].why.empty()) {
        lanes[n].seconds.push_back(seconds_of(contenders[n], lanes[n].runs));
      }
    }
  }
  std::vector<Timed> timed;
  for (Lane& lane : lanes) {
    std::sort(lane.seconds.begin(), lane.seconds.end());
    timed.push_back({lane.why});
    if (!lane.seconds.empty()) {
      timed.back().median = lane.seconds[lane.seconds.size() / 2];
      timed.back().least = lane.seconds.front();
      timed.back().most = lane.seconds.back();
    }
  }
  return timed;
}

}  // namespace qkvet::bench
