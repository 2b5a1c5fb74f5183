// SPDX-License-Identifier: Apache-2.0
// CUDA's header of this name, for kernels under the emulator.
#ifndef QKVET_IMPL_CUDA_SIMT_CUDA_CUDA_FP16_H_
#define QKVET_IMPL_CUDA_SIMT_CUDA_CUDA_FP16_H_

#include "half_types.h"

using __half = simt::HalfFloat<simt::F16>;
using half = __half;
using __half2 = simt::HalfPair<simt::F16>;
using half2 = __half2;

inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline __half __double2half(double x) { return x; }
inline __half __int2half_rn(int x) { return x; }
inline float __half2float(__half x) { return x; }
inline __half __ushort_as_half(unsigned short x) {
  return __half::from_bits(x);
}
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float a) { return {a, a}; }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline __half2 __float22half2_rn(float2 a) { return {a.x, a.y}; }
inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }

#endif  // QKVET_IMPL_CUDA_SIMT_CUDA_CUDA_FP16_H_
