// SPDX-License-Identifier: Apache-2.0
// Kernels with one bug each, for simt_sanitizers_test: `simt_seeded_program BUG
// [right]` launches one, or its correct twin. The lines that a sanitizer must
// report are marked.
#include <cstdio>
#include <cstring>

#include "impl/cuda/simt/simt.h"

namespace {

constexpr unsigned kFull = 0xffffffffu;

// Results are printed, or a compiler would drop the computation.
float g_in[64], g_out[64];

__global__ void missing_barrier(const float* in, float* out, bool right) {
  __shared__ float shared[64];
  const unsigned i = threadIdx.x;
  shared[i] = in[i];  // missing_barrier
  if (right) {
    __syncthreads();
  }
  out[i] = shared[63 - i];  // missing_barrier
}

// An earlier barrier does not help.
__global__ void late_barrier(const float* in, float* out, bool right) {
  SIMT_DYNAMIC_SHARED(float, shared);
  const unsigned i = threadIdx.x;
  shared[i] = 0;
  __syncthreads();
  shared[i] = in[i];  // late_barrier
  if (right) {
    __syncthreads();
  }
  out[i] = shared[63 - i];  // late_barrier
}

// A tile that is overwritten while others still read it.
__global__ void reused_tile(const float* in, float* out, bool right) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    tile[i] = in[i] * static_cast<float>(round);  // reused_tile
    __syncthreads();
    sum += tile[(i + 40) % 64];  // reused_tile
    if (right) {
      __syncthreads();
    }
  }
  out[i] = sum;
}

// The numbers are right in every order, because lanes wait for each other at
// the shuffle. But a shuffle orders no memory.
__global__ void warp_race(const float* in, float* out, bool right) {
  __shared__ float shared[32];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x >= 32) {
    return;
  }
  shared[lane] = in[lane];  // warp_race
  const float other = __shfl_xor_sync(kFull, in[lane], 1);
  if (right) {
    __syncwarp();
  }
  out[lane] = other + shared[(lane + 1) % 32];  // warp_race
}

// A value that others read before the next round, within a warp.
__global__ void reused_by_warp(const float* in, float* out, bool right) {
  __shared__ float shared[32];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x >= 32) {
    return;
  }
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    shared[lane] = in[lane] * static_cast<float>(round);  // reused_by_warp
    __syncwarp();
    sum += shared[(lane + 31) % 32];  // reused_by_warp
    if (right) {
      __syncwarp();
    }
  }
  out[lane] = sum;
}

__global__ void counter_race(const float* in, float* out, bool right) {
  if (right) {
    atomicAdd(out, in[threadIdx.x]);
  } else {
    *out += in[threadIdx.x];  // counter_race
  }
}

__global__ void static_overrun(const float* in, float* out, bool right) {
  __shared__ float shared[64];
  const unsigned i = threadIdx.x;
  // Through a pointer: other sanitizers check the bounds of an array.
  float* const at = shared + i;
  at[right ? 0 : 1] = in[i];  // static_overrun
  __syncthreads();
  out[i] = shared[i];
}

__global__ void dynamic_overread(const float* in, float* out, bool right) {
  SIMT_DYNAMIC_SHARED(float, shared);
  const unsigned i = threadIdx.x;
  shared[i] = in[i];
  __syncthreads();
  out[i] = shared[i + (right ? 0 : 1)];  // dynamic_overread
}

__global__ void dynamic_underrun(const float* in, float* out, bool right) {
  SIMT_DYNAMIC_SHARED(float, shared);
  const int i = static_cast<int>(threadIdx.x);
  shared[i - (right ? 0 : 1)] = in[i];  // dynamic_underrun
  __syncthreads();
  out[i] = shared[i];
}

// A fault leaves frames on stacks; the next launch has other frames.
__global__ void after_a_fault(const float* in, float* out, bool right) {
  volatile float local[40] = {};
  const unsigned i = threadIdx.x;
  local[i % 40] = in[i];
  if (!right && i < 32) {
    simt::fault("stops", SIMT_HERE);
  }
  __syncthreads();
  out[i] = local[i % 40];
}

using Kernel = void (*)(const float*, float*, bool);
constexpr struct {
  const char* name;
  Kernel kernel;
} kKernels[] = {{"missing_barrier", missing_barrier},
                {"late_barrier", late_barrier},
                {"reused_tile", reused_tile},
                {"warp_race", warp_race},
                {"reused_by_warp", reused_by_warp},
                {"counter_race", counter_race},
                {"static_overrun", static_overrun},
                {"dynamic_overread", dynamic_overread},
                {"dynamic_underrun", dynamic_underrun},
                {"after_a_fault", after_a_fault}};

bool launch(Kernel kernel, bool right) {
  return SIMT_LAUNCH(kernel, 2, 64, sizeof(g_in), nullptr, g_in, g_out, right);
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& entry : kKernels) {
    if (argc < 2 || std::strcmp(argv[1], entry.name) != 0) {
      continue;
    }
    // In this order a block's first thread runs last.
    simt::set_schedule({simt::Order::kRandom, 3});
    launch(entry.kernel, argc > 2);
    const bool ok = launch(after_a_fault, true);
    std::printf("%s %g\n", ok ? "ran" : "fault", static_cast<double>(g_out[1]));
    return ok ? 0 : 1;
  }
  std::fputs("simt_seeded_program: name one of its kernels\n", stderr);
  return 2;
}
