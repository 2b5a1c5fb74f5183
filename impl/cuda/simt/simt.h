// SPDX-License-Identifier: Apache-2.0
// One source for the GPU and for the CPU: include this before a kernel, and
// write the two things for which plain C++ has no word as
//
//   SIMT_DYNAMIC_SHARED(float, tile);      extern __shared__ float tile[];
//   SIMT_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...);
//                                          kernel<<<...>>>(arguments...)
//
// nvcc sees the code on the right. Any other compiler of C++20 makes a program
// that runs the kernel on the machine of machine.h; there a launch returns
// false after a fault, and simt::take_fault() returns the fault. Under nvcc it
// returns true, and errors are those of the CUDA runtime.
#ifndef QKVET_IMPL_CUDA_SIMT_SIMT_H_
#define QKVET_IMPL_CUDA_SIMT_SIMT_H_

#include <cstdio>
#include <cstdlib>

// A kernel of qkvet/plain.h declares this, whichever of the two headers is
// included first.
#undef QKVET_PLAIN_FLAGS
#define QKVET_PLAIN_FLAGS QKVET_FLAG_GPU_THREADS

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#define SIMT_DYNAMIC_SHARED(type, name)                             \
  extern __shared__ __align__(16) unsigned char simt_##name##_at[]; \
  type* const name = reinterpret_cast<type*>(simt_##name##_at)
// clang-format off
#define SIMT_LAUNCH(kernel, grid, block, bytes, stream, ...)    \
  ([&] {                                                        \
    kernel<<<(grid), (block), (bytes),                          \
             static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__); \
    return true;                                                \
  }())
// clang-format on

namespace simt {

inline void or_abort(bool) {
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    std::abort();
  }
}

}  // namespace simt

#else

#include "cuda_words.h"

// A type is not put in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SIMT_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::simt::dynamic_shared())
// NOLINTEND(bugprone-macro-parentheses)
#define SIMT_LAUNCH(kernel, grid, block, bytes, stream, ...) \
  (static_cast<void>(stream),                                \
   ::simt::launch((grid), (block), (bytes), [&] { kernel(__VA_ARGS__); }))

namespace simt {

template <class Body>
bool launch(Extent grid, Extent block, size_t shared_bytes, Body&& body) {
  return run_grid(
      grid, block, shared_bytes,
      [](void* data) { (*static_cast<Body*>(data))(); }, &body);
}

inline void or_abort(bool launched) {
  if (!launched) {
    char text[256];
    describe(take_fault(), text, sizeof(text));
    std::fprintf(stderr, "%s\n", text);
    std::abort();
  }
}

}  // namespace simt

#endif

#endif  // QKVET_IMPL_CUDA_SIMT_SIMT_H_
