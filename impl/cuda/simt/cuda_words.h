// SPDX-License-Identifier: Apache-2.0
// The words of CUDA C++ for compilers without them: simt.h includes this in
// sources that nvcc does not compile.
//
// `__shared__` variables are static: all threads of the running block share
// one, and AddressSanitizer checks its end. Fast functions are those of the C
// library.
#ifndef QKVET_IMPL_CUDA_SIMT_CUDA_WORDS_H_
#define QKVET_IMPL_CUDA_SIMT_CUDA_WORDS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fiber.h"
#include "machine.h"

// Names are NVIDIA's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
// NOLINTBEGIN(bugprone-macro-parentheses)

// External, as under nvcc: `static __global__` is also allowed.
#define __global__ __attribute__((unused))
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __grid_constant__
#ifndef __clang__
#define __builtin_assume(condition) static_cast<void>(0)
#endif

using dim3 = simt::Extent;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

#define threadIdx (::simt::thread_index())
#define blockIdx (::simt::block_index())
#define blockDim (::simt::block_extent())
#define gridDim (::simt::grid_extent())
#define warpSize 32

#define SIMT_HERE (::simt::Place{__FILE__, __LINE__})

namespace simt {

// ---- Between lanes ---------------------------------------------------------

struct Passed {
  uint64_t value;
  int from;  // the lane that has the wanted value
  bool lost;
};

// Reads stacks of other fibers while they wait.
SIMT_UNSEEN inline void pass_values(const Lanes& lanes) {
  uint64_t values[kWarp] = {};
  for (unsigned l = 0; l < kWarp; ++l) {
    if (lanes.data[l] != nullptr) {
      values[l] = static_cast<Passed*>(lanes.data[l])->value;
    }
  }
  for (unsigned l = 0; l < kWarp; ++l) {
    if (Passed* const p = static_cast<Passed*>(lanes.data[l])) {
      p->lost = !answers(lanes, p->from);
      p->value = values[p->from & 31];
    }
  }
}

struct Vote {
  bool yes;
  uint32_t all;
};

SIMT_UNSEEN inline void count_votes(const Lanes& lanes) {
  uint32_t all = 0;
  for (unsigned l = 0; l < kWarp; ++l) {
    const Vote* const vote = static_cast<const Vote*>(lanes.data[l]);
    all |= vote != nullptr && vote->yes ? 1u << l : 0;
  }
  for (unsigned l = 0; l < kWarp; ++l) {
    if (Vote* const vote = static_cast<Vote*>(lanes.data[l])) {
      vote->all = all;
    }
  }
}

// Warp functions with the place of the call. Segments have `width` lanes, a
// power of two; a lane reads its own value instead of one of another segment.
struct WarpAt {
  Place place;

  template <class T>
  T shuffle(uint32_t mask, T value, int lane, int width = 32) const {
    return pass(mask, value, (own() & -width) | (lane & (width - 1)));
  }
  template <class T>
  T shuffle_up(uint32_t mask, T value, unsigned by, int width = 32) const {
    const int step = static_cast<int>(by);
    return pass(mask, value, own() % width < step ? own() : own() - step);
  }
  template <class T>
  T shuffle_down(uint32_t mask, T value, unsigned by, int width = 32) const {
    const int step = static_cast<int>(by);
    const bool leaves = own() % width + step >= width;
    return pass(mask, value, leaves ? own() : own() + step);
  }
  template <class T>
  T shuffle_xor(uint32_t mask, T value, int bits, int width = 32) const {
    const int lane = own() ^ bits;
    return pass(mask, value, lane / width > own() / width ? own() : lane);
  }
  uint32_t ballot(uint32_t mask, bool yes) const {
    Vote vote = {yes, 0};
    together(mask, &vote, count_votes, place);
    return vote.all;
  }
  bool any(uint32_t mask, bool yes) const { return ballot(mask, yes) != 0; }
  bool all(uint32_t mask, bool yes) const { return ballot(mask, !yes) == 0; }
  void barrier(uint32_t mask = 0xffffffffu) const { warp_barrier(mask, place); }

 private:
  static int own() { return static_cast<int>(lane_index()); }

  template <class T>
  T pass(uint32_t mask, T value, int from) const {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    Passed passed = {0, from, false};
    std::memcpy(&passed.value, &value, sizeof(T));
    together(mask, &passed, pass_values, place);
    if (passed.lost) {
      fault("asks for the value of a lane that takes no part", place);
    }
    std::memcpy(&value, &passed.value, sizeof(T));
    return value;
  }
};

}  // namespace simt

#define SIMT_WARP (::simt::WarpAt{SIMT_HERE})
#define __shfl_sync(...) SIMT_WARP.shuffle(__VA_ARGS__)
#define __shfl_up_sync(...) SIMT_WARP.shuffle_up(__VA_ARGS__)
#define __shfl_down_sync(...) SIMT_WARP.shuffle_down(__VA_ARGS__)
#define __shfl_xor_sync(...) SIMT_WARP.shuffle_xor(__VA_ARGS__)
#define __ballot_sync(mask, yes) SIMT_WARP.ballot(mask, yes)
#define __any_sync(mask, yes) SIMT_WARP.any(mask, yes)
#define __all_sync(mask, yes) SIMT_WARP.all(mask, yes)
#define __syncwarp(...) SIMT_WARP.barrier(__VA_ARGS__)
#define __syncthreads() \
  static_cast<void>(::simt::block_barrier(false, SIMT_HERE))
#define __syncthreads_count(yes) \
  static_cast<int>(::simt::block_barrier(yes, SIMT_HERE))
#define __syncthreads_or(yes) (::simt::block_barrier(yes, SIMT_HERE) != 0)
#define __syncthreads_and(yes) (::simt::block_barrier(!(yes), SIMT_HERE) == 0)
#define __threadfence() ::simt::fence()
#define __threadfence_block() ::simt::fence()

// ---- Atomics: the value before, of 4 or 8 bytes -----------------------------

namespace simt {

// The builtins of GCC and clang: C++17 has no atomic_ref.
template <class T, class Change>
T change_atomically(T* at, const Change& change) {
  T old, next;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do {
    next = change(old);
  } while (!__atomic_compare_exchange(at, &old, &next, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
  return old;
}

}  // namespace simt

template <class T>
T atomicAdd(T* at, std::common_type_t<T> value) {
  return simt::change_atomically(at, [&](T old) { return old + value; });
}
template <class T>
T atomicExch(T* at, std::common_type_t<T> value) {
  return simt::change_atomically(at, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* at, std::common_type_t<T> expected,
            std::common_type_t<T> value) {
  return simt::change_atomically(
      at, [&](T old) { return old == expected ? value : old; });
}
template <class T>
T atomicMax(T* at, std::common_type_t<T> value) {
  return simt::change_atomically(
      at, [&](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, std::common_type_t<T> value) {
  return simt::change_atomically(
      at, [&](T old) { return value < old ? value : old; });
}

// ---- Functions --------------------------------------------------------------

namespace simt {

inline float fast_exp(float x) { return std::exp(x); }
inline float fast_log(float x) { return std::log(x); }
inline float one_over_root(float x) { return 1 / std::sqrt(x); }

}  // namespace simt

// Names that a C library may define.
#define __expf(x) (::simt::fast_exp(x))
#define __logf(x) (::simt::fast_log(x))
#define rsqrtf(x) (::simt::one_over_root(x))

inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// ---- Loads and stores with hints for caches ---------------------------------

namespace simt {

// On a GPU, vectors of 8 and 16 bytes are aligned to their size.
template <class T>
T load(const T* at, Place place) {
  if (reinterpret_cast<uintptr_t>(at) % alignof(T) != 0) {
    fault("loads from an address that is no multiple of what it loads", place);
  }
  return *at;
}
template <class T>
void store(T* at, const std::common_type_t<T>& value, Place place) {
  if (reinterpret_cast<uintptr_t>(at) % alignof(T) != 0) {
    fault("stores to an address that is no multiple of what it stores", place);
  }
  *at = value;
}

}  // namespace simt

#define __ldg(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __ldca(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __ldcg(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __ldcs(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __ldlu(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __ldcv(...) (::simt::load(__VA_ARGS__, SIMT_HERE))
#define __stwb(at, ...) (::simt::store(at, __VA_ARGS__, SIMT_HERE))
#define __stcg(at, ...) (::simt::store(at, __VA_ARGS__, SIMT_HERE))
#define __stcs(at, ...) (::simt::store(at, __VA_ARGS__, SIMT_HERE))
#define __stwt(at, ...) (::simt::store(at, __VA_ARGS__, SIMT_HERE))

template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}

// NOLINTEND(bugprone-macro-parentheses)
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // QKVET_IMPL_CUDA_SIMT_CUDA_WORDS_H_
