// SPDX-License-Identifier: Apache-2.0
// The instructions that implement tensor_core.h (PTX ISA, "mma", "ldmatrix" and
// "cp.async").
#ifndef QKVET_IMPL_CUDA_TENSOR_CORE_PTX_H_
#define QKVET_IMPL_CUDA_TENSOR_CORE_PTX_H_

#include <cstdint>

#include "impl/cuda/numbers.h"

#define SIMT_UNROLL _Pragma("unroll")

namespace qkvet::impl {

#define QKVET_MMA(type)                                                     \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type       \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),     \
                 "r"(b[1]))

template <class T>
__device__ inline void mma_m16n8k16(float* c, const uint32_t* a,
                                    const uint32_t* b);
template <>
__device__ inline void mma_m16n8k16<F16>(float* c, const uint32_t* a,
                                         const uint32_t* b) {
  QKVET_MMA("f16");
}
template <>
__device__ inline void mma_m16n8k16<Bf16>(float* c, const uint32_t* a,
                                          const uint32_t* b) {
  QKVET_MMA("bf16");
}
#undef QKVET_MMA

__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ inline void ldmatrix_x4(uint32_t* to, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ inline void ldmatrix_x4_trans(uint32_t* to, const void* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(shared_address(row))
      : "memory");
}

__device__ inline void cp_async_16(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)),
                 "r"(bytes)
               : "memory");
}

__device__ inline void cp_async_commit() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int kNewest>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kNewest) : "memory");
}

// Both rounded to nearest, ties to even.
template <class T>
__device__ inline uint32_t pack_halves(float low, float high);
template <>
__device__ inline uint32_t pack_halves<F16>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline uint32_t pack_halves<Bf16>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_TENSOR_CORE_PTX_H_
