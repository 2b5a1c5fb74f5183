// SPDX-License-Identifier: Apache-2.0
// The storage types of the CUDA kernels: f32, and two halves that convert to it
// exactly and from it with one rounding, to nearest, ties to even.
#ifndef QKVET_IMPL_CUDA_NUMBERS_H_
#define QKVET_IMPL_CUDA_NUMBERS_H_

#include <cstdint>

#include "impl/call/half.h"
#include "impl/cuda/simt/simt.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace qkvet::impl {

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

__device__ inline float to_f32(float x) { return x; }

__device__ inline float to_f32(F16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  return f16_to_f32(x.bits);
#endif
}

__device__ inline float to_f32(Bf16 x) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
#else
  return bf16_to_f32(x.bits);
#endif
}

template <class T>
__device__ inline T from_f32(float x);

template <>
__device__ inline float from_f32<float>(float x) {
  return x;
}

template <>
__device__ inline F16 from_f32<F16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(x))};
#else
  return {f32_to_f16(x)};
#endif
}

template <>
__device__ inline Bf16 from_f32<Bf16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  return {f32_to_bf16(x)};
#endif
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_NUMBERS_H_
